# SPDX-License-Identifier: GPL-2.0-only
"""The declaration of every scheduler's knobs, and the experiments that set them."""

import json
import re

import pytest
from tests.unit.programs import ROOT

from tailgate import main as cli
from tailgate.simulator.knobs import AUTO, declared
from tailgate.spec import experiment
from tailgate.spec.scheduler import Scheduler


@pytest.mark.parametrize("name", experiment.names())
def test_experiments_set_knobs_that_exist_and_dilate_their_times(name: str) -> None:
    """A time that is not dilated is too short in a slower guest, a rate that is not is too high."""
    for scheduler in experiment.load(experiment.find(name)).schedulers:
        assert_as_declared(scheduler)


def assert_as_declared(scheduler: Scheduler) -> None:
    knobs = declared().get(scheduler.name, {})
    for knob, value in scheduler.knobs.items():
        assert knob in knobs, f"{scheduler.name} has no knob {knob}"
        if isinstance(value, int) and value:  # 0 is 0 at any dilation
            assert (knob in scheduler.dilated) == knobs[knob].dilated, f"dilated: {knob}"
            assert (knob in scheduler.rates) == knobs[knob].rate, f"rates: {knob}"


@pytest.mark.parametrize(
    "wrong",
    [
        Scheduler(label="a", name="kyber", knobs={"read_lat_nsec": 50_000}),
        Scheduler(label="a", name="k2", knobs={"be_floor_iops": 100}),
        Scheduler(label="a", name="bfq", knobs={"low_latencies": 1}),
    ],
    ids=["a time that is not dilated", "a rate that is not dilated", "a knob that does not exist"],
)
def test_the_test_of_experiments_can_fail(wrong: Scheduler) -> None:
    with pytest.raises(AssertionError):
        assert_as_declared(wrong)


def test_defaults_are_values_that_the_knob_accepts() -> None:
    for knobs in declared().values():
        for knob in knobs.values():
            if knob.words:
                assert knob.default in knob.words
            elif isinstance(knob.default, int):
                assert knob.least <= knob.default <= knob.most
            else:
                assert knob.default is None or (knob.default == "auto" and knob.automatic)


def test_page_of_mqfq_describes_the_knobs_of_the_code() -> None:
    """Names, units, ranges and defaults, and which knobs take `auto`; test_k2.py holds k2's page."""
    page = (ROOT / "docs/mqfq.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| ([\w/]+) \| ([^|]+) \| ([^|]+) \| (.*) \|$", page, re.MULTILINE)
    documented = []
    for name, unit, range_, default, what in rows:
        words = tuple(re.findall(r"`(\w+)`", range_))
        least, most = (0, len(words) - 1) if words else map(int, range_.split(" to "))
        initial = default.strip("`") if words or default == AUTO else int(default)
        documented.append((name, unit, least, most, words, initial, f"`{AUTO}`:" in what))
    assert documented == [
        (k.name, k.unit, k.least, k.most, k.words, k.default, bool(k.automatic))
        for k in declared()["mqfq"].values()
    ]


def test_the_command_lists_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["knobs", "kyber"]) == 0
    assert "read_lat_nsec" in capsys.readouterr().out
    assert cli.main(["knobs", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert {"none", "k2", "mqfq", "kyber", "mq-deadline", "bfq"} <= set(listed)
    assert cli.main(["knobs", "cfq"]) == 2
    assert "there is no scheduler cfq; expected" in capsys.readouterr().err
