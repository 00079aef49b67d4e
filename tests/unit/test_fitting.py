# SPDX-License-Identifier: GPL-2.0-only
"""Fitting a drive file to a drive that is probed: figures, weights, the fit, the file, the command."""

import math
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from tailgate import main as cli
from tailgate.base.progress import Progress
from tailgate.fitting import fit
from tailgate.fitting.command import OF_WRITES, Fitted, ProbeResidual, text
from tailgate.fitting.fit import ASSUMED, START, Fit
from tailgate.fitting.model import Model
from tailgate.fitting.probe import READS, WRITES, FigureName, Probed, ProbeLoad, Tail, figures, ratios, tail
from tailgate.fitting.steps import FILE, Steps
from tailgate.runs.flow import Flow
from tailgate.runs.histogram import Histogram
from tailgate.show.fitted import show
from tailgate.spec import experiment as experiments
from tailgate.spec.drive import Drive
from tailgate.spec.toml import parse_toml
from tailgate.upkeep import draw


def histogram(values: list[float], counts: list[int]) -> Histogram:
    mean = sum(v * c for v, c in zip(values, counts, strict=True)) / sum(counts)
    return Histogram(np.array(values), np.array(counts, dtype=np.int64), mean, values[-1])


def test_percentiles_count_only_with_requests_beyond_them() -> None:
    few = Flow(name="read", op="read", ios=100, iops=5.0, mib_s=1.0, histogram=histogram([10, 20], [50, 50]))
    found = figures([few])
    assert found[FigureName("read", "iops")] == 5
    assert found[FigureName("read", "mean")] == 15
    assert FigureName("read", "p90") in found  # ten beyond
    assert FigureName("read", "p97") not in found


def test_the_tail_of_one_read_at_a_time() -> None:
    assert tail(histogram([100, 1100], [990, 10])) == Tail(0.01, 1000)
    assert tail(histogram([100, 200], [50, 50])) == Tail(0, 0)


def test_ratios_are_logarithms_and_a_figure_that_is_lacking_is_far_off() -> None:
    load, name, other = ProbeLoad(READS, "one-4k"), FigureName("read", "iops"), FigureName("read", "p99")
    found = {n: log for _, n, log in ratios({load: {name: 10.0, other: 5.0}}, {load: {name: 20.0}})}
    assert found == {name: pytest.approx(math.log(2)), other: 1.0}


@pytest.fixture(scope="module")
def hidden() -> dict[str, int]:
    """A drive drawn by chance, with what the fit assumes."""
    return {**START, **draw.drawn(21), **ASSUMED}


def probed(model: Model, drive: dict[str, int]) -> Probed:
    return model.probe(drive, model.loads(), seed=7)


def test_figures_that_vary_with_the_seed_count_less(hidden: dict[str, int]) -> None:
    with ThreadPoolExecutor(2) as pool:
        model = Model([READS], pool)
        measured = probed(model, hidden)
        weights = Fit(model, measured, Tail(0, 0), lambda words: None)._weights(hidden, model.loads())
    single = weights[ProbeLoad(READS, "one-4k"), FigureName("read", "p50")]
    tail_of_many = weights[ProbeLoad(READS, "many-4k"), FigureName("read", "p99")]
    assert single == pytest.approx(1 / fit.GRAIN, rel=0.5)
    assert tail_of_many < single / 2


def test_many_reads_are_as_many_as_the_fit_takes_them_for() -> None:
    sweeps = experiments.load(experiments.find(READS)).sweeps
    (many,) = (sweep for sweep in sweeps if sweep.label == "many-4k")
    assert many.variables["READS"] == str(fit.MANY)


def test_single_writes_show_the_link(hidden: dict[str, int]) -> None:
    with ThreadPoolExecutor(2) as pool:
        model = Model([READS, WRITES], pool)
        found = Fit(model, probed(model, hidden), Tail(0, 0), lambda words: None)._link(
            {**START, "read_ns": 50_000, "read_fixed_ns": 10_000}
        )
    for name in ("transfer_ns", "write_fixed_ns"):
        assert found[name] == pytest.approx(hidden[name], rel=0.02), name


@pytest.fixture
def reduced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fits with fewer simulations; `tailgate claims calibrate_probed` has whole ones."""
    monkeypatch.setattr(fit, "NOISE_SEEDS", range(201, 204))
    monkeypatch.setattr(fit, "DECIDED", fit.SEARCHED)


@pytest.mark.usefixtures("reduced")
def test_reads_show_their_times(hidden: dict[str, int]) -> None:
    names = ("read_ns", "read_fixed_ns")
    with ThreadPoolExecutor(2) as pool:
        model = Model([READS], pool)
        its = Fit(model, probed(model, hidden), Tail(0, 0), lambda words: None)
        weights = its._weights(hidden, model.loads())
        start = {**hidden, "read_ns": round(0.8 * hidden["read_ns"]), "read_fixed_ns": 20_000}
        found, cost = its._search(start, names, model.loads(), 30, weights=weights)
        other = its._search({**found, "dies": hidden["dies"] - 1}, names, model.loads(), 20, weights=weights)
    for name in names:
        assert found[name] == pytest.approx(hidden[name], rel=0.05), name
    assert cost < other[1]


@pytest.mark.usefixtures("reduced")
def test_reads_show_how_many_of_them_are_long() -> None:
    """The first guess may be off by a factor of two and more, as one read at a time shows few of them."""
    own = {**START, **draw.drawn(1003), **ASSUMED}
    start = {
        **own,
        "read_ns": round(1.034 * own["read_ns"]),
        "read_rare_ppm": round(0.388 * own["read_rare_ppm"]),
    }
    with ThreadPoolExecutor(2) as pool:
        its = Fit(model := Model([READS], pool), probed(model, own), Tail(0, 0), lambda words: None)
        found = its._search(start, fit.READ_TIMES, model.loads(), 50)[0]
    assert found["read_rare_ppm"] == pytest.approx(own["read_rare_ppm"], rel=0.3), found


@pytest.mark.usefixtures("reduced")
@pytest.mark.parametrize("layout", [(4, 0), (4, 1)])
def test_reads_show_the_layout(
    layout: tuple[int, int], hidden: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fit, "DIES", (hidden["dies"],))
    monkeypatch.setattr(fit, "LAYOUTS", ((4, 1), (4, 2)))
    drive = {**hidden, "unit_kib": layout[0], "placement": layout[1]}
    with ThreadPoolExecutor(2) as pool:
        model = Model([READS], pool)
        measured = model.probe(drive, model.loads(), seed=7)
        found = Fit(model, measured, Tail(0, 0), lambda words: None)._rough(
            {**START, "read_ns": 50_000, "read_fixed_ns": 10_000, "transfer_ns": hidden["transfer_ns"]}
        )
    assert (found["unit_kib"], found["placement"]) == layout


@pytest.mark.usefixtures("reduced")
def test_a_small_buffer_is_told_from_fast_programs() -> None:
    """Least squares ended beside the minimum here: the costs of buffers and programs make a narrow valley."""
    own = {**START, **draw.drawn(626541590932770), **ASSUMED}
    start = {**own, "buffer_kib": 652, "program_ns": 401_500}
    with ThreadPoolExecutor(2) as pool:
        its = Fit(model := Model([WRITES], pool), probed(model, own), Tail(0, 0), lambda words: None)
        found = its._slow(start, model.loads(), 0.3, fit.SEARCHED)
    for name in fit.WRITE_NUMBERS[:2]:
        assert found[name] == pytest.approx(own[name], rel=0.03), (name, found)


def test_more_writes_delay_a_read_only_if_it_waits_behind_them(hidden: dict[str, int]) -> None:
    one, many = (ProbeLoad(WRITES, f"read-beside-{number}") for number in ("one", "many"))
    mean = FigureName("read", "mean")
    with ThreadPoolExecutor(2) as pool:
        model = Model([WRITES], pool)
        behind, passing = (
            model.probe({**hidden, "admission": admission}, [one, many]) for admission in (0, 1)
        )
    assert behind[many][mean] > 1.2 * behind[one][mean]
    assert passing[many][mean] == pytest.approx(passing[one][mean], rel=0.1)


def progress() -> Progress:
    return Progress(Console(record=True, width=100))


def test_an_interrupted_fit_goes_on(tmp_path: Path) -> None:
    ran: list[str] = []

    def step(name: str) -> dict[str, int]:
        ran.append(name)
        if name == "reads" and ran.count("reads") == 1:
            raise KeyboardInterrupt
        return {name: 1}

    def run(identity: str) -> None:
        steps = Steps(tmp_path, identity, {"link": 1, "reads": 2}, progress())
        for name in ("link", "reads"):
            assert steps.do(name, partial(step, name)) == {name: 1}

    with pytest.raises(KeyboardInterrupt):
        run("a drive")
    run("a drive")
    assert ran == ["link", "reads", "reads"]
    run("another drive")
    assert ran[3:] == ["link", "reads"]


@pytest.mark.parametrize("content", ["{", "[]", '{"identity": "a drive"}'])
def test_a_damaged_file_of_steps_is_as_none(content: str, tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(content)
    assert Steps(tmp_path, "a drive", {"link": 1}, progress()).do("link", lambda: {"dies": 2}) == {"dies": 2}


def test_a_fit_tells_how_long_it_takes(tmp_path: Path) -> None:
    told = progress()
    Steps(tmp_path, "a drive", {"link": 1, "reads": 2}, told).do("link", lambda: {"dies": 2})
    assert "1 of 2: link; 0 s so far, about 0 s left" in told.console.export_text()


@pytest.mark.parametrize("names", [[READS], [READS, WRITES]])
def test_a_fit_has_the_steps_that_it_names(names: list[str], hidden: dict[str, int]) -> None:
    ran = []

    def do(name: str, step: object) -> dict[str, int]:
        ran.append(name)
        return hidden

    with ThreadPoolExecutor(2) as pool:
        model = Model(names, pool)
        its = Fit(model, probed(model, hidden), Tail(0, 0), lambda words: None)
    assert its.run(do) == hidden
    assert ran == list(its.steps())


def test_the_file_says_what_was_probed_and_what_was_not(tmp_path: Path) -> None:
    parameters = {**START, "read_ns": 50_000, "read_fixed_ns": 10_000}
    residuals = [
        ProbeResidual(ProbeLoad(READS, "one-4k"), FigureName("read", "iops"), 100.0, 110.0, math.log(1.1))
    ]
    found = Fitted(parameters, frozenset(parameters) - OF_WRITES, residuals)
    assert found.error == pytest.approx(0.1)
    path = tmp_path / "mine.toml"
    path.write_text(text(found, 'my "first"', "tailgate calibrate"))
    drive = parse_toml(path, Drive)
    assert drive.name == 'my "first"'
    assert drive.parameters["read_ns"].source == "probed"
    assert drive.parameters["buffer_kib"].source == "not probed, as writing was not asked for"
    assert drive.parameters["program_kib"].source == "not seen from outside: assumed"


def test_a_figure_that_the_model_lacks_counts_in_the_error() -> None:
    load = ProbeLoad(READS, "one-4k")
    near = ProbeResidual(load, FigureName("read", "iops"), 100.0, 100.0, 0.0)
    lacking = ProbeResidual(load, FigureName("read", "p99"), 100.0, 0.0, 1.0)
    found = Fitted({}, frozenset(), [near, lacking])
    assert found.error == pytest.approx(math.exp(math.sqrt(0.5)) - 1)
    console = Console(record=True, width=100)
    show(found, console)
    assert [line.split()[-3:] for line in console.export_text().splitlines() if "p99" in line] == [
        ["100", "-", "-"]
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["drives/970evo.toml", "--target", "sim", "--out", "new"], "expected a name that ends in .toml"),
        (["drives/970evo.toml", "--target", "sim"], "--target probes a drive: expected --out FILE"),
        (["drives/970evo.toml", "--writes"], "--writes and --out are for a probe"),
        (["drives/no.toml", "--target", "sim", "--out", "new.toml"], "no.toml"),
        (["drives/970evo.toml", "--target", "sim", "--out", "there.toml"], "there.toml is there already"),
        (["drives/970evo.toml", "--target", "sim", "--out", "no/new.toml"], "there is no folder no"),
    ],
)
def test_bad_input(
    words: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there.toml").write_text("mine")
    assert cli.main(["calibrate", *words]) == 2
    assert said in capsys.readouterr().err
    assert (tmp_path / "there.toml").read_text() == "mine"
    assert not (tmp_path / "new.toml").exists()
