# SPDX-License-Identifier: GPL-2.0-only
"""The report in headless Chromium: draws, is silent, fits a phone."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

from tailgate.show import report
from tailgate.spec.plan import Run

CHROMIUM, DRIVER = Path("/usr/bin/chromium"), Path("/usr/bin/chromedriver")
#: Without these Chromium looks for its maker's hosts, whose absence it then reports.
QUIET = (
    *("--headless=new", "--disable-gpu", "--disable-quic", "--no-first-run", "--no-default-browser-check"),
    *(
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--disable-dev-shm-usage",
    ),
    "--no-sandbox",  # tests may run as root
)

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        not (CHROMIUM.exists() and DRIVER.exists()), reason="needs Debian's chromium and chromium-driver"
    ),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[webdriver.Chrome]:
    with tempfile.TemporaryDirectory() as profile:
        options = Options()
        options.binary_location = str(CHROMIUM)
        for argument in (*QUIET, f"--user-data-dir={profile}"):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        driver = webdriver.Chrome(options=options, service=Service(str(DRIVER)))
        yield driver
        driver.quit()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory, fake_run: Callable[..., Run]) -> str:
    folder = tmp_path_factory.mktemp("run")
    fake_run(folder, mode="full", dilation=2, idle=0.7)
    report.write([folder], folder / "report.html")
    return (folder / "report.html").as_uri()


def size(browser: webdriver.Chrome, width: int, dark: bool = False) -> None:
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600},
    )
    scheme = "dark" if dark else "light"
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    )


def complaints(browser: Any) -> list[object]:
    """What the console has; selenium does not type its own method."""
    return list(browser.get_log("browser"))


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, False), (390, True)])
def test_plots_are_drawn_and_the_page_fits(
    browser: webdriver.Chrome, page: str, width: int, dark: bool
) -> None:
    size(browser, width, dark)
    browser.get(page)
    panels = browser.execute_script(
        "return [...document.querySelectorAll('.plot')].map(p => [p.querySelectorAll('.point').length,"
        " p.querySelector('svg').getBoundingClientRect().width, p.parentElement.clientWidth])"
    )
    assert len(panels) == 7
    for points, drawn, room in panels:
        assert points == 3 * 9 + 2  # three percentiles at nine loads, two values of the paper
        assert 0.8 * room < drawn <= room
    overflow = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert browser.execute_script(overflow) <= 0
    assert complaints(browser) == []


def test_text_is_large_and_distinct_enough_on_a_phone(browser: webdriver.Chrome, page: str) -> None:
    for dark in (False, True):
        size(browser, 390, dark)
        browser.get(page)
        sizes, contrasts = browser.execute_script(
            """
            const luminance = c => {
                const [r, g, b] = c.match(/[\\d.]+/g).slice(0, 3).map(v => v / 255)
                    .map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
                return .2126 * r + .7152 * g + .0722 * b;
            };
            const paper = luminance(getComputedStyle(document.body).backgroundColor);
            const nodes = [...document.querySelectorAll('p, h1, h2, h3, td, th, dd, dt, li')];
            const styles = nodes.filter(n => n.textContent.trim()).map(n => getComputedStyle(n));
            return [styles.map(s => parseFloat(s.fontSize)), styles.map(s => {
                const ink = luminance(s.color);
                return (Math.max(ink, paper) + .05) / (Math.min(ink, paper) + .05);
            })];
            """
        )
        assert min(sizes) >= 12
        assert min(contrasts) >= 4.5


def test_the_axis_can_be_logarithmic(browser: webdriver.Chrome, page: str) -> None:
    size(browser, 1280)
    browser.get(page)
    browser.execute_script("document.querySelector('button[value=log]').click()")
    kinds = browser.execute_script(
        "return [...document.querySelectorAll('.plot')].map(p => p._fullLayout.yaxis.type)"
    )
    assert set(kinds) == {"log"}
    assert complaints(browser) == []


def test_axes_are_shared(browser: webdriver.Chrome, page: str) -> None:
    size(browser, 1280)
    browser.get(page)
    ranges = browser.execute_script(
        "return [...document.querySelectorAll('.plot')].map(p => JSON.stringify("
        "[p._fullLayout.xaxis.range, p._fullLayout.yaxis.range]))"
    )
    assert len(set(ranges)) == 1
