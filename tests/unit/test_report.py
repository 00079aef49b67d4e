# SPDX-License-Identifier: GPL-2.0-only
"""The report's HTML: texts are escaped, every sign of a legend is drawn, tables are whole."""

import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest
from tests.unit.refusal import refused

from tailgate import main as cli
from tailgate.show import report
from tailgate.spec.plan import Run

FakeRun = Callable[..., Run]
VICIOUS = """</script><script>alert("1 & 2")</script>'"""


class Page(HTMLParser):
    """What a browser finds in a page: tags counted, all texts, the JSON of the plots, columns by row."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.count: dict[str, int] = {}
        self.texts: list[str] = []
        self.plots: list[str] = []
        self.columns: list[list[int]] = []
        self._json = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.count[tag] = self.count.get(tag, 0) + 1
        self._json = ("type", "application/json") in attrs
        if tag == "table":
            self.columns.append([])
        elif tag == "tr":
            self.columns[-1].append(0)
        elif tag in ("td", "th"):
            self.columns[-1][-1] += int(dict(attrs).get("colspan") or 1)

    def handle_endtag(self, tag: str) -> None:
        self._json = False

    def handle_data(self, data: str) -> None:
        if self._json:
            self.plots.append(data)
        else:
            self.texts.append(data.strip())


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], Page]:
    """The page of a run's folder; plotly is left out, which is long."""

    def made(folder: Path) -> Page:
        monkeypatch.setattr(report, "get_plotlyjs", lambda: "")
        report.write([folder], folder / "report.html")
        return Page((folder / "report.html").read_text())

    return made


def test_texts_of_a_run_are_escaped(fake_run: FakeRun, tmp_path: Path, page: Callable[[Path], Page]) -> None:
    fake_run(tmp_path)
    plain = page(tmp_path)
    for name, key in (("spec.json", "title"), ("environment.json", "command")):
        about = json.loads((tmp_path / name).read_text())
        about.get("spec", about)[key] = VICIOUS
        (tmp_path / name).write_text(json.dumps(about))
    rows = tmp_path / "sources" / "paper.csv"
    csv_source = '"Table II' + VICIOUS.replace('"', '""') + '",'
    rows.write_text(rows.read_text().replace("Table II,", csv_source))
    vicious = page(tmp_path)
    assert vicious.count == plain.count
    assert vicious.texts.count(VICIOUS) == 2  # heading and command
    hovers = [
        t for plot in vicious.plots for trace in json.loads(plot)["data"] for t in trace.get("text", ())
    ]
    assert any(VICIOUS in text for text in hovers)


def test_every_sign_of_the_legends_is_drawn(
    fake_run: FakeRun, tmp_path: Path, page: Callable[[Path], Page]
) -> None:
    for name in ("k2/fig8", "k2/fig11", "k2/fig7"):
        fake_run(tmp_path / name, name=name, mode_name="sim")
        page(tmp_path / name)
        signs = re.findall(r"<svg[^>]*>(.*?)</svg>", (tmp_path / name / "report.html").read_text())
        assert signs
        assert all(signs)


@pytest.mark.parametrize("name", ["k2/fig8", "k2/fig3", "k2/fig11", "k2-split/table3"])
def test_rows_are_as_wide_as_their_headings(
    fake_run: FakeRun, tmp_path: Path, page: Callable[[Path], Page], name: str
) -> None:
    fake_run(tmp_path, name=name, mode_name="sim")
    columns = page(tmp_path).columns
    assert columns
    for rows in columns:
        assert len(rows) > 1
        assert len(set(rows)) == 1


def test_runs_that_are_replaced_or_not_complete_are_left_out(
    fake_run: FakeRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As KEY.previous and KEY.partial are among others; alone, such a run is shown."""
    for name in ("key", "key.previous", "key.partial"):
        fake_run(tmp_path / name)
    out = tmp_path / "both.html"
    words = [str(folder) for folder in sorted(tmp_path.iterdir())]
    assert cli.main(["report", *words, "--out", str(out)]) == 0
    assert out.read_text().count("<h2>All points") == 1
    said = capsys.readouterr().err
    assert f"left out {tmp_path}/key.partial" in said
    assert f"left out {tmp_path}/key.previous" in said
    assert cli.main(["report", f"{tmp_path}/key.partial", "--out", str(out)]) == 0


def test_runs_that_would_stand_in_one_place_are_refused(fake_run: FakeRun, tmp_path: Path) -> None:
    one, other, more = (tmp_path / name for name in ("a", "b", "c"))
    fake_run(one, schedulers=("none", "k2-8"))
    fake_run(other, mode="full", schedulers=("k2-8",))
    fake_run(more, schedulers=("k2-16",))
    fake_run(tmp_path / "sim", mode_name="sim", schedulers=("none", "k2-8"))
    with refused(f"{one} (quick) and {other} (full) are both of k2/fig8 on target vm"):
        report.write([one, other], tmp_path / "report.html")
    report.write([one, one, more, tmp_path / "sim"], tmp_path / "report.html")


@pytest.mark.parametrize("order", [("few", "all"), ("all", "few")])
def test_runs_may_have_different_loads_and_schedulers(
    fake_run: FakeRun, tmp_path: Path, order: tuple[str, str]
) -> None:
    """As with --loads, or when the experiment has more of them by now."""
    run = fake_run(tmp_path / "few", name="k2/table3", mode_name="sim", schedulers=("none", "k2-8"))
    fake_run(tmp_path / "all", name="k2/table3")
    spec = tmp_path / "few" / "spec.json"
    about = json.loads(spec.read_text())
    for key, kept in (("sweeps", run.spec.sweeps[:2]), ("schedulers", run.schedulers)):
        labels = [one.label for one in kept]
        about["spec"][key] = [one for one in about["spec"][key] if one["label"] in labels]
    spec.write_text(json.dumps(about))
    report.write([tmp_path / name for name in order], tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    cells = text.partition("Table of the paper&#39;s cells")[2].partition("</table>")[0]
    assert cells.count("<tr") == 70 + 1  # and the headings
