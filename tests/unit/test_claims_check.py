# SPDX-License-Identifier: GPL-2.0-only
"""Claims beside results: verdicts, intervals, moved bounds, what is kept, and what is drawn anew."""

import errno
import json
import math
import os
import re
import subprocess
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, Unpack

import pytest
from tests.unit.programs import ROOT

from tailgate.base.errors import UsageError
from tailgate.main import main as tailgate
from tailgate.spec import drive
from tailgate.spec.toml import parse_toml
from tailgate.upkeep.claims import check, command, lab, model, results, steps, tables
from tailgate.upkeep.claims.lab import Answer, Lab, Options, command_line
from tailgate.upkeep.claims.model import Topic
from tailgate.upkeep.claims.quantity import (
    INTERVAL,
    ONE_RUN,
    RUNS,
    Quantity,
    exact,
    largest,
    once,
    repeated,
    seconds,
    smallest,
    within,
)
from tailgate.upkeep.claims.results import Figure, Source
from tailgate.upkeep.claims.steps import by_topic

SOURCE = Source("tailgate run x", "sim", "virtual", (1, 2))
CLAIM = """
[[claim]]
id = "tail"
sentence = "The tail is short."
results = ["x/*/tail"]
bound = "<= 1.1"
why = "It is."
since = "abc1234"
"""


def topic(tmp_path: Path, text: str = CLAIM) -> Topic:
    path = tmp_path / "x.toml"
    path.write_text(text)
    return parse_toml(path, Topic)


def stored(*figures: Figure) -> dict[str, results.Result]:
    return results.by_id({"x": {"step": results.step_of(figures, "abc1234", "2026-11-23")}})


def judged(some: Topic, *figures: Figure) -> check.Report:
    return check.check({"x": some}, stored(*figures), lambda _: "now")


def figure(name: str, quantity: Quantity, law: tuple[str, str] | None = None) -> Figure:
    return Figure(name, quantity, Source("tailgate run x", "sim", "virtual", (1,), law))


# --- intervals ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bound", "quantity", "holds"),
    [
        ("<= 1.1", within(1.0, 0.9, 1.1), True),
        ("<= 1.1", within(1.0, 0.9, 1.11), False),
        ("<= 1.1", within(1.0, 0.9, None), False),
        (">= 1", within(1.2, 0.99, 1.3), False),
        (">= 1", within(1.2, 1.0, None), True),
        ("0.95 to 1.05", within(1.0, 0.96, 1.06), False),
        ("0.95 to 1.05", within(1.0, 0.94, 1.04), False),
        ("0.95 to 1.05", within(1.0, 0.95, 1.05), True),
        (">= -0.1", exact(-0.1), True),
        (">= 2e6", once(1.9e6), False),
        ("> 1", exact(1), False),
        ("> 1", exact(1.000001), True),
        ("< 1.1", within(1.0, 0.9, 1.1), False),
        ("< 1.1", within(1.0, 0.9, 1.09), True),
    ],
)
def test_the_unfavourable_end_decides(bound: str, quantity: Quantity, holds: bool, tmp_path: Path) -> None:
    some = topic(tmp_path, CLAIM.replace("<= 1.1", bound))
    (verdict,) = judged(some, figure("x/a/tail", quantity)).verdicts
    assert verdict.holds == holds


def test_a_ratio_has_the_unfavourable_ends_of_both() -> None:
    ratio = within(10, 8, 12, 400) / within(5, 4, None, 4000)
    assert (ratio.value, ratio.low, ratio.high, ratio.n) == (2, 0, 3, 400)
    assert ratio.how == INTERVAL
    less = within(10, 8, 12) - within(5, 4, 6)
    assert (less.value, less.low, less.high) == (5, 2, 8)
    assert (exact(3) / exact(2)).how == "exact"
    alone = once(3) / within(2, 1, 4)
    assert (alone.low, alone.high, alone.how) == (1.5, 1.5, ONE_RUN)
    assert (within(1, 0.5, 2) / within(1, 0, 2)).high == math.inf


def test_what_the_clock_decides_is_measured_several_times() -> None:
    of = repeated([3, 1, 2, 9, 4, 5])
    assert (of.value, of.low, of.high, of.n, of.how) == (3.5, 1, 9, 6, INTERVAL)
    runs: list[None] = []
    took = seconds(lambda: runs.append(None))
    assert len(runs) == took.n == RUNS
    assert 0 <= took.low <= took.value <= took.high


# --- claims -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (CLAIM + 'limit = "x"\n', r"limit: unknown key; expected .*bound"),
        (CLAIM.replace('["x/*/tail"]', "[]"), "results: expected at least 1 of them"),
        (CLAIM.replace("<= 1.1", "= 1.1"), "bound: expected a bound such as"),
        (CLAIM.replace('since = "abc1234"\n', ""), "since: missing"),
        (CLAIM + "[[claim.history]]\nwas = '<= 1'\n", "until: missing"),
    ],
)
def test_a_claim_that_is_not_right_is_refused(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=message):
        topic(tmp_path, text)


def test_two_claims_of_one_id_are_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.toml").write_text(CLAIM)
    with pytest.raises(UsageError, match=r"claims/a.toml and claims/b.toml: claim tail is there twice"):
        model.read(tmp_path)


def test_a_pattern_stands_for_one_part_each() -> None:
    assert model.matches(("x/*/tail",), "x/a/tail")
    assert not model.matches(("x/*/tail",), "x/a/b/tail")
    assert not model.matches(("x/*",), "x/a/tail")
    assert model.matches(("x/a*/t?il", "y"), "x/ab/tail")


def test_a_result_that_nothing_declares_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no claim declares the result x/a/median; add a \[\[claim\]\]"):
        judged(topic(tmp_path), figure("x/a/tail", exact(1)), figure("x/a/median", exact(1)))
    more = CLAIM + '[[figures]]\nwhat = "Medians"\nresults = ["x/*/median"]\n'
    report = judged(topic(tmp_path, more), figure("x/a/tail", exact(1)), figure("x/a/median", exact(9)))
    assert len(report.verdicts) == 1, "a figure without a bound does not count as holding"


def test_what_has_no_result_is_not_measured(tmp_path: Path) -> None:
    some = topic(tmp_path, CLAIM.replace('["x/*/tail"]', '["x/*/tail", "y/*/tail"]'))
    report = judged(some, figure("x/a/tail", exact(1)))
    assert [(c.id, pattern, why) for c, pattern, why in report.missing] == [("tail", "y/*/tail", "no result")]
    text = "\n".join(check.lines(report))
    assert text.index("Holds:") < text.index("Not measured:") < text.index("tail: y/*/tail: no result")


def test_misses_come_first_with_their_interval(tmp_path: Path) -> None:
    report = judged(topic(tmp_path), figure("x/a/tail", exact(1)), figure("x/b/tail", within(1.0, 0.9, 1.2)))
    said = list(check.lines(report))
    assert said[:2] == ["Misses:", "  MISS   1 (0.9 to 1.2)  promised <= 1.1  x/b/tail"]
    assert "  1 of 2  <= 1.1  tail: The tail is short." in said


@pytest.mark.parametrize(("bound", "worst"), [("<= 1.1", 7), (">= 2", 0), ("2 to 8", 0), ("-9 to 2", 7)])
def test_a_claim_over_many_results_is_shown_with_their_median_and_the_worst(
    bound: str, worst: int, tmp_path: Path
) -> None:
    some = topic(tmp_path, CLAIM.replace("<= 1.1", bound))
    figures = [figure(f"x/{i}/tail", within(i, i - 9 * (i == 3), i + 9 * (i == 4))) for i in range(8)]
    said = list(check.lines(judged(some, *figures)))
    (line,) = (line for line in said if line.startswith("         median "))
    assert line == f"         median 3.5, worst {worst} ({worst} to {worst})  x/{worst}/tail"
    assert not any("median" in line for line in check.lines(judged(some, *figures[1:])))


def test_so_is_one_that_no_result_keeps(tmp_path: Path) -> None:
    said = list(check.lines(judged(topic(tmp_path), *(figure(f"x/{i}/tail", exact(2)) for i in range(8)))))
    at = said.index("  0 of 8  <= 1.1  tail: The tail is short.")
    assert said[at + 1] == "         median 2, worst 2  x/0/tail"


def test_why_a_claim_is_missed_is_shown_with_the_miss_and_only_there(tmp_path: Path) -> None:
    missed = '[[claim.missed]]\nresults = ["x/b/*"]\nbecause = "the drive is slow"\n'
    some = topic(tmp_path, CLAIM + missed)
    both = (figure("x/a/tail", exact(1.2)), figure("x/b/tail", exact(1.3)))
    said = list(check.lines(judged(some, *both)))
    assert said[1:6] == [
        "  MISS   1.3  promised <= 1.1  x/b/tail",
        "         tail: The tail is short.",
        "         because the drive is slow",
        "  MISS   1.2  promised <= 1.1  x/a/tail",
        "         tail: The tail is short.",
    ]
    assert not any("no miss needs" in line for line in said)
    said = list(check.lines(judged(some, both[0], figure("x/b/tail", exact(1.0)))))
    assert "because the drive is slow" not in " ".join(said)
    at = said.index("Reasons that no miss needs any more, to be deleted in claims/:")
    assert said[at + 1] == "  tail: x/b/*: the drive is slow"


def test_a_miss_by_the_interval_only_says_so_and_needs_no_reason(tmp_path: Path) -> None:
    some = topic(tmp_path, CLAIM + '[[claim.missed]]\nresults = ["x/b/*"]\nbecause = "the drive is slow"\n')
    said = list(check.lines(judged(some, figure("x/b/tail", within(1.0, 0.9, 1.2)))))
    assert said[3] == "         by its interval only: the value keeps the bound"
    assert said[-2].startswith("1 of 1 results miss their bound, 1 by their interval only; ")
    assert "  tail: x/b/*: the drive is slow" in said


def test_a_moved_bound_that_is_still_broken_is_shown(tmp_path: Path) -> None:
    history = '[[claim.history]]\nwas = "<= 0.9"\nuntil = "def5678"\nmeasured = 0.95\n'
    some = topic(tmp_path, CLAIM + history)
    report = judged(some, figure("x/a/tail", exact(1.0)), figure("x/b/tail", exact(0.8)))
    assert not report.misses
    (broken,) = report.broken
    assert broken.result.figure.id == "x/a/tail"
    said = list(check.lines(report))
    assert said[1] == "  MOVED  1  was <= 0.9 until def5678, measured 0.95, now <= 1.1  x/a/tail"
    assert said.index("Holds:") > 1


def test_a_bound_on_another_figure_is_listed_and_cannot_be_broken(tmp_path: Path) -> None:
    history = '[[claim.history]]\nwas = "<= 0.9"\nuntil = "def5678"\nof = "the median"\n'
    report = judged(topic(tmp_path, CLAIM + history), figure("x/a/tail", exact(1.0)))
    assert not report.broken
    assert "  tail: <= 0.9 of the median, until def5678; now <= 1.1" in check.lines(report)


def test_misses_by_the_interval_only_come_behind_the_others(tmp_path: Path) -> None:
    report = judged(
        topic(tmp_path), figure("x/a/tail", within(1.0, 0.9, 9.0)), figure("x/b/tail", exact(1.2))
    )
    misses = [line.split()[-1] for line in check.lines(report) if line.startswith("  MISS")]
    assert misses == ["x/b/tail", "x/a/tail"]


def test_a_withdrawn_bound_that_is_still_broken_is_shown(tmp_path: Path) -> None:
    text = """
[[figures]]
what = "Tails"
results = ["x/*/tail"]

[[figures.history]]
was = "<= 0.9"
until = "def5678"
results = ["x/b/*"]
"""
    report = judged(topic(tmp_path, text), figure("x/a/tail", exact(1)), figure("x/b/tail", exact(1)))
    assert [b.result.figure.id for b in report.broken] == ["x/b/tail"]
    assert "now no promise" in "\n".join(check.lines(report))


def test_a_changed_bound_has_effect_at_once(tmp_path: Path) -> None:
    """Nothing is measured for it: what is kept of a step does not depend on claims/."""
    result = figure("x/a/tail", exact(1.05))
    assert judged(topic(tmp_path), result).verdicts[0].holds
    assert not judged(topic(tmp_path, CLAIM.replace("1.1", "1.04")), result).verdicts[0].holds
    assert not any(folder.startswith("claims") for folder in (*command.SOURCES, *command.FILES))


# --- results ------------------------------------------------------------------------------------------------


def test_results_are_written_a_line_each_and_read_again(tmp_path: Path) -> None:
    figures = (
        Figure("x/a/tail", within(1.25, 1.0, None, 400), SOURCE),
        Figure("x/b/tail", exact(2), SOURCE),
        Figure("x/c/tail", once(1 / 3), Source("make demo", "vm", "wall", (), ("sched", "abc"))),
    )
    steps = {
        "one": results.step_of(figures, "abc1234", "2026-11-23"),
        "two": results.step_of([Figure("y", exact(1), SOURCE)], "def5678-dirty", "2026-11-24"),
    }
    results.write("x", steps, tmp_path)
    text = (tmp_path / "x.json").read_text()
    assert results.read(tmp_path) == {"x": steps}
    assert sum('"id"' in line for line in text.splitlines()) == text.count('"id"') == 4
    assert '   {"id": "x/a/tail", "value": 1.25, "interval": [1.0, null], "n": 400},' in text.splitlines()
    found = results.by_id(results.read(tmp_path))["x/a/tail"]
    assert (found.figure.quantity.low, found.figure.quantity.high) == (1.0, math.inf)
    assert (found.step.commit, found.step.date, found.run.seeds) == ("abc1234", "2026-11-23", (1, 2))


def test_results_are_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    step = results.step_of([Figure("x/a/tail", exact(1), SOURCE)], "abc1234", "2026-11-23")
    results.write("x", {"step": step}, tmp_path)
    before = (tmp_path / "x.json").read_text()

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        results.write("x", {"step": step, "other": step}, tmp_path)
    assert (tmp_path / "x.json").read_text() == before


def test_results_that_are_not_right_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a step yields x twice"):
        results.step_of([figure("x", exact(1)), figure("x", exact(2))], "c", "d")
    step = results.step_of([figure("x", exact(1))], "c", "d")
    with pytest.raises(UsageError, match="x is there twice, of one and of two"):
        results.by_id({"a": {"one": step}, "b": {"two": step}})
    (tmp_path / "x.json").write_text('{"one": {"commit": "c"}}')
    with pytest.raises(UsageError, match="not results as `tailgate claims` writes them"):
        results.read(tmp_path)


# --- the command --------------------------------------------------------------------------------------------


@pytest.fixture
def two_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Steps `first` and `second` of topic `x`, whose claim they break with 2; what was measured, in order."""
    measured: list[str] = []

    def first(lab: Lab) -> Iterator[Figure]:
        """One."""
        measured.append("first")
        yield figure("x/first/tail", exact(2 + len(measured)))

    def second(lab: Lab) -> Iterator[Figure]:
        """Two."""
        measured.append("second")
        yield figure("x/second/tail", exact(2 + len(measured)))

    (tmp_path / "claims").mkdir()
    topic(tmp_path / "claims")
    steps = {"x": {"first": first, "second": second}}
    monkeypatch.setattr(command, "by_topic", lambda: steps)
    monkeypatch.setattr(command, "build_simulator", lambda: None)
    monkeypatch.setattr(command, "KEPT", tmp_path / "kept")
    monkeypatch.setattr(command, "sources_key", lambda: "key")
    monkeypatch.setattr(results, "RESULTS", tmp_path / "results")
    read = model.read
    monkeypatch.setattr(model, "read", lambda: read(tmp_path / "claims"))
    return measured


def values(folder: Path) -> dict[str, float]:
    return {name: r.figure.value for name, r in results.by_id(results.read(folder)).items()}


def test_check_judges_and_measures_nothing(
    two_steps: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tailgate(["claims", "--check"]) == 0, "not measured is no miss"
    assert "Not measured:\n  tail: x/*/tail: no result" in capsys.readouterr().out
    assert tailgate(["claims"]) == 1
    assert two_steps == ["first", "second"]
    capsys.readouterr()
    assert tailgate(["claims", "--check"]) == 1
    assert two_steps == ["first", "second"]
    assert capsys.readouterr().out.startswith("Misses:\n  MISS   4  promised <= 1.1  x/second/tail\n")
    path = tmp_path / "claims" / "x.toml"
    path.write_text(path.read_text().replace("1.1", "4"))
    assert tailgate(["claims", "--check"]) == 0
    assert two_steps == ["first", "second"]


def test_what_was_measured_is_kept_and_fresh_measures_one_step_again(
    two_steps: list[str], tmp_path: Path
) -> None:
    tailgate(["claims", "x"])
    tailgate(["claims"])
    assert two_steps == ["first", "second"]
    before = values(tmp_path / "results")
    tailgate(["claims", "--fresh", "second"])
    assert two_steps == ["first", "second", "second"]
    after = values(tmp_path / "results")
    assert after["x/first/tail"] == before["x/first/tail"]
    assert after["x/second/tail"] == before["x/second/tail"] + 1
    tailgate(["claims"])
    assert values(tmp_path / "results") == after, "what is kept is the fresh one"
    assert two_steps == ["first", "second", "second"]


def test_what_is_measured_while_sources_change_is_not_kept(
    two_steps: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    keys = iter(["key", "key", "other"])  # they change during the second step
    monkeypatch.setattr(command, "sources_key", lambda: next(keys))
    assert tailgate(["claims"]) == 2
    assert "sources have changed since this began: start it again" in capsys.readouterr().err
    assert list(values(tmp_path / "results")) == ["x/first/tail"]
    monkeypatch.setattr(command, "sources_key", lambda: "key")
    tailgate(["claims"])
    assert two_steps == ["first", "second", "second"]


def test_names_and_options_that_are_not_right_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert tailgate(["claims", "nothing"]) == 2
    assert "there is no topic or step nothing; expected k2," in capsys.readouterr().err
    assert tailgate(["claims", "--check", "k2"]) == 2
    assert "--check and --docs measure nothing" in capsys.readouterr().err


def test_what_is_kept_depends_on_sources_steps_and_laws(tmp_path: Path) -> None:
    for name in ("sched/k2.c", "src/tailgate/upkeep/claims/steps/k2.py", "claims/k2.toml", "Makefile"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1")
    key = command.sources_key(tmp_path, ["law"])
    assert command.sources_key(tmp_path, ["law"]) == key
    assert command.sources_key(tmp_path, ["other"]) != key
    for name in ("claims/k2.toml", "sched/README.md", "src/tailgate/README.md"):
        (tmp_path / name).write_text("2")
        assert command.sources_key(tmp_path, ["law"]) == key
    for name in ("sched/k2.c", "src/tailgate/upkeep/claims/steps/k2.py", "Makefile"):
        (tmp_path / name).write_text("2")
        before, key = key, command.sources_key(tmp_path, ["law"])
        assert key != before


def test_what_a_table_measures_is_kept_until_its_file_changes(tmp_path: Path) -> None:
    (tmp_path / "k2.toml").write_text('mode = "full"')
    before = command.kept("key", "table-k2", tmp_path)
    assert command.kept("key", "table-k2", tmp_path) == before
    assert command.kept("other", "table-k2", tmp_path) != before
    step = command.kept("key", "k2", tmp_path)
    (tmp_path / "k2.toml").write_text('mode = "claims"')
    assert command.kept("key", "table-k2", tmp_path) != before
    assert command.kept("key", "k2", tmp_path) == step, "a step that is no table's has no such file"


# --- held-out drives ----------------------------------------------------------------------------------------


def test_every_law_that_draws_drives_decides_what_is_kept() -> None:
    """The same files in another commit give other drives."""
    modules = (import_module(f"{steps.__name__}.{found.name}") for found in iter_modules(steps.__path__))
    assert {module.LAW for module in modules if hasattr(module, "LAW")} == set(command.LAWS)


def test_held_out_drives_are_drawn_by_the_commit_of_their_law(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits = {"sched/bounds": "a" * 40}
    monkeypatch.setattr(lab, "KEPT", tmp_path)
    monkeypatch.setattr(lab, "law_commit", lambda law: commits[law])

    def drawn() -> dict[str, dict[str, int]]:
        found = {}
        for name, path, law in Lab().held_out("sched/bounds", 3):
            assert law == ("sched/bounds", commits["sched/bounds"][:12])
            _, loaded = drive.load(str(path))
            assert loaded.name == name
            found[name] = {key: p.value for key, p in loaded.parameters.items()}
        return found

    first = drawn()
    assert list(first) == ["held-out-1", "held-out-2", "held-out-3"]
    assert first["held-out-1"] != first["held-out-2"] != first["held-out-3"]
    assert drawn() == first
    commits["sched/bounds"] = "b" * 40
    assert all(drawn()[name] != first[name] for name in first)


def test_what_was_measured_before_the_law_changed_is_not_measured(tmp_path: Path) -> None:
    some = topic(tmp_path)
    result = stored(figure("x/a/tail", exact(2), ("sched/bounds", "abc123")))
    now = check.check({"x": some}, result, lambda _: "abc1234567")
    assert len(now.misses) == 1
    assert "of these on held-out drives, which README.md does not count: 1 of 1" in check.lines(now)
    later = check.check({"x": some}, result, lambda _: "def4567890")
    assert not later.verdicts
    why = "1 old, drives drawn at abc123, sched/bounds changed at def4567"
    assert [w for _, _, w in later.missing] == [why]


def test_so_it_is_where_other_results_of_the_claim_are_new(tmp_path: Path) -> None:
    some = topic(tmp_path, CLAIM + '[[claim.missed]]\nresults = ["x/old/*"]\nbecause = "slow"\n')
    figures = (figure("x/a/tail", exact(1)), figure("x/old/tail", exact(2), ("sched/bounds", "abc123")))
    report = check.check({"x": some}, stored(*figures), lambda _: "def4567")
    assert [v.result.figure.id for v in report.verdicts] == ["x/a/tail"]
    assert len(report.missing) == 1
    assert not report.needless, "it may miss on new drives too"


# --- this checkout ------------------------------------------------------------------------------------------


def test_the_claims_of_this_checkout_can_be_judged() -> None:
    """Each result is declared; a claim stands for many results; what is moved says until when, and why."""
    topics, found = model.read(), results.by_id(results.read())
    check.check(topics, found, lambda _: "")
    claims = [claim for t in topics.values() for claim in t.claim]
    assert len(found) > 900
    assert len(claims) < 150
    moves = [moved for t in topics.values() for e in t.entries for moved in e.history]
    assert all(moved.until for moved in moves)
    assert not [m for m in moves if m.measured is None and "Not measured: " not in m.why]
    for entry in (e for t in topics.values() for e in t.entries):
        for moved in (m for m in entry.history if not m.of):
            of_it = [n for n in found if model.matches(entry.results, n)]
            its = [n for n in of_it if not moved.results or model.matches(moved.results, n)]
            assert its, f"no result has the figure of {moved}"
    for path in results.RESULTS.glob("*.json"):
        assert path.stem in topics, f"{path} has no claims/{path.stem}.toml"
        assert set(json.loads(path.read_text())) <= set(by_topic()[path.stem])


def git(*arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.strip()


def test_each_commit_that_a_claim_names_is_in_the_history() -> None:
    """A commit that a rebase replaced says nothing to a reader."""
    if git("rev-parse", "--show-toplevel") != str(ROOT):
        pytest.skip("this copy has no history: it is no git checkout")
    if git("rev-parse", "--is-shallow-repository") == "true":
        pytest.skip("this clone is shallow: its history is cut off")
    commits = git("rev-list", "HEAD").splitlines()
    entries = [entry for t in model.read().values() for entry in t.entries]
    named = {entry.since for entry in entries if isinstance(entry, model.Claim)}
    named |= {moved.until for entry in entries for moved in entry.history}
    assert not sorted(name for name in named if sum(c.startswith(name) for c in commits) != 1)


def test_no_step_has_the_name_of_a_topic_of_other_steps() -> None:
    """`tailgate claims NAME` would measure these too."""
    topics = by_topic()
    both = [name for steps in topics.values() for name in steps if name in topics]
    assert [list(topics[name]) for name in both] == [[name] for name in both]


# --- tables in pages ----------------------------------------------------------------------------------------

TABLE = """
columns = ["what", "figure", "command"]
rows = [
    ["p99 `none`", "{x/a/tail} us, {value:./sim/4k/none/1/rt/p99}", "{command:x/a/tail}, {step:x/a/tail}"],
    ["k2", "./sim/4k/k2/1"],
]
figures = ["rt/p99", "rt/mib_s"]
[runs.sim]
experiment = "k2/x"
mode = "full"
"""
PAGE = "Before.\n\n<!-- claims: sample -->\n| old |\n<!-- end -->\n\nAfter.\n"


def invented_point(label: str, rate: float, p99: float) -> dict[str, Any]:
    flows = [
        {"flow": "rt", "mib_s": 5.0, "lat_us": {"p99": p99}, "ci_us": {"p99": [p99 - 1, p99 + 1]}, "ios": 400}
    ]
    return {"load": "4k", "label": label, "sweep": {"background_rate": rate}, "flows": flows}


class InventedLab(Lab):
    def run(self, experiment: str, law: tuple[str, str] | None = None, **options: Unpack[Options]) -> Answer:
        points = invented_point("none", 1.0, 12.5), invented_point("none", 0.0, 1), invented_point("k2", 1, 2)
        return Answer(Source(command_line(experiment, options), "sim", "virtual", (1,)), points)


def test_a_table_is_made_from_results_and_from_runs_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "sample.toml").write_text(TABLE)
    (step,) = tables.steps(tmp_path).values()
    measured = list(step(InventedLab()))
    assert [(f.id, f.quantity) for f in measured] == [
        ("tables/sample/sim/4k/none/1/rt/p99", within(12.5, 11.5, 13.5, 400)),
        ("tables/sample/sim/4k/k2/1/rt/p99", within(2, 1, 3, 400)),
        ("tables/sample/sim/4k/k2/1/rt/mib_s", exact(5, 400)),
    ]
    found = stored(figure("x/a/tail", within(10, 9, 11)), *measured)
    page = tables.filled(PAGE, found, "page.md", tmp_path)
    assert page == PAGE.replace(
        "| old |",
        "| what | figure | command |\n| --- | --- | --- |\n"
        "| p99 `none` | 10 (9 to 11) us, 12.5 | `tailgate run x`, `tailgate claims step` |\n"
        "| k2 | 2 | 5 |",
    )
    assert tables.filled(page, found, "page.md", tmp_path) == page
    other = stored(figure("x/a/tail", within(10.5, 9, 11)), *measured)
    assert tables.filled(page, other, "page.md", tmp_path) != page, "stale"
    unmeasured = stored(figure("x/a/tail", exact(1)))
    assert tables.filled(PAGE, unmeasured, "page.md", tmp_path) == PAGE
    assert list(tables.missing(unmeasured, tmp_path)) == [("sample", "tables/sample/sim/4k/none/1/rt/p99")]
    assert not list(tables.missing(found, tmp_path))
    by_hand = PAGE.replace("sample", "other")
    assert tables.filled(by_hand, found, "page.md", tmp_path) == by_hand


@pytest.mark.parametrize(
    ("place", "value", "text"),
    [
        ("value:", 10813.4, "10810"),
        ("", 10813.4, "10810"),
        ("short:", 10813.4, "10800"),
        ("ms:", 46.02, "0.046"),
        ("k:", 3999994, "4000"),
        ("million:", 3946000, "3.95"),
        ("percent:", -0.2912, "\N{MINUS SIGN}29 %"),
        ("percent:", 0.116, "+12 %"),
        ("percent:", -0.004, "0 %"),
        ("maybe:", 10813.4, "10800"),
    ],
)
def test_a_cell_shows_a_result_in_the_form_that_it_asks_for(place: str, value: float, text: str) -> None:
    table = tables.Table(columns=("x",), rows=((f"{{{place}x/a}}",),))
    *_, row = tables.rendered(table, stored(figure("x/a", exact(value))), "sample")
    assert row == f"| {text} |"


def test_a_cell_may_ask_for_a_result_that_was_not_found() -> None:
    table = tables.Table(columns=("x", "y"), rows=(("{value:x/a}", "{maybe:x/b}"),))
    *_, row = tables.rendered(table, stored(figure("x/a", exact(1))), "sample")
    assert row == "| 1 | - |"
    assert table.places() == ["x/a"]


def test_a_row_has_the_words_of_a_template_or_all_its_cells() -> None:
    table = tables.Table(
        columns=("x", "y", "z"),
        template=("$1", "{value:$2/a}", "{value:$2/b} of $1"),
        rows=(("one", "x"), ("two", "", "{value:x/b}")),
    )
    _, _, *rows = tables.rendered(table, stored(figure("x/a", exact(1)), figure("x/b", exact(2))), "sample")
    assert rows == ["| one | 1 | 2 of one |", "| two |  | 2 |"]
    assert table.places() == ["x/a", "x/b"]


@pytest.mark.parametrize("row", [("one",), ("one", "x", "y", "z")])
def test_a_row_with_other_words_than_its_template_is_told(row: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="row 'one': expected 2 words or 3 cells, got"):
        tables.Table(columns=("x", "y", "z"), template=("$1", "{value:$2/a}", ""), rows=(row,))


@pytest.mark.parametrize(("value", "text"), [(1.1, "yes"), (1.2, "no")])
def test_a_cell_says_whether_a_result_holds(
    value: float, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = {"x": topic(tmp_path, CLAIM + CLAIM.replace('"tail"', '"loose"').replace("<= 1.1", "<= 2"))}
    monkeypatch.setattr(model, "read", lambda: topics)
    table = tables.Table(columns=("x",), rows=(("{holds:x/a/tail}",),))
    *_, row = tables.rendered(table, stored(figure("x/a/tail", exact(value))), "sample")
    assert row == f"| {text} |"
    table = tables.Table(columns=("x",), rows=(("{holds:x/a/mean}",),))
    with pytest.raises(UsageError, match="no claim has a bound for the result x/a/mean"):
        list(tables.rendered(table, stored(figure("x/a/mean", exact(value))), "sample"))


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("{judged:x/kept/tail}", "1 (0.9 to 1.05)"),
        ("{judged:x/wide/tail}", "1 (0.9 to 1.2), **missed** by the interval's end"),
        ("{judged:x/missed/tail}", "1.2 (1 to 1.3), **missed**"),
        ("{judged:x/kept/tail & x/wide/tail}", "1 (0.9 to 1.05), **missed** by the interval's end"),
        ("{judged:x/wide/tail & x/missed/tail}", "1 (0.9 to 1.2), **missed**"),
    ],
)
def test_a_cell_says_that_a_result_misses_its_bound(
    place: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = {"x": topic(tmp_path)}
    monkeypatch.setattr(model, "read", lambda: topics)
    found = stored(
        figure("x/kept/tail", within(1, 0.9, 1.05)),
        figure("x/wide/tail", within(1, 0.9, 1.2)),
        figure("x/missed/tail", within(1.2, 1, 1.3)),
    )
    table = tables.Table(columns=("x",), rows=((place,),))
    *_, row = tables.rendered(table, found, "sample")
    assert row == f"| {text} |"
    assert set(table.places()) <= set(found)


@pytest.mark.parametrize("together", [False, True])
def test_a_point_in_a_row_stands_for_the_figures_of_the_table(together: bool) -> None:
    table = tables.Table(
        columns=("load", "p99", "MiB/s"),
        rows=(("4k", "./sim/4k/none/1"),)
        if not together
        else (("4k", "./sim/4k/none/1", "./sim/4k/none/0"),),
        figures=("ms:rt/p99", "bg/mib_s"),
        together=together,
    )
    places = [f"sim/4k/none/{rate}/{figure}" for rate in (1, 0) for figure in ("rt/p99", "bg/mib_s")]
    found = stored(*(figure(f"tables/sample/{p}", exact(1000.0 * (i + 1))) for i, p in enumerate(places)))
    *_, row = tables.rendered(table, found, "sample")
    assert row == ("| 4k | 1, 2000 | 3, 4000 |" if together else "| 4k | 1 | 2000 |")
    assert table.places() == [f"./{place}" for place in (places if together else places[:2])]


def test_a_pattern_of_flows_is_the_worst_of_them(tmp_path: Path) -> None:
    """Of a percentile; throughputs of several flows are not one figure."""
    flows = [{"flow": f, "mib_s": 5.0, "lat_us": {"p99": us}} for f, us in (("rt1", 7.0), ("rt2", 9.0))]
    points = [{"load": "4k", "label": "none", "sweep": {"background_rate": 1}, "flows": flows}]

    class OfTwoFlows(Lab):
        def run(
            self, experiment: str, law: tuple[str, str] | None = None, **options: Unpack[Options]
        ) -> Answer:
            return Answer(Source("tailgate run", "sim", "virtual", (1,)), tuple(points))

    for place, value in (
        ("rt*/p99", 9),
        ("rt1/p99", 7),
        ("rt1/mib_s", 5),
        ("rt*/mib_s", None),
        ("b*/p99", None),
    ):
        row = f'rows = [["{{./sim/4k/none/1/{place}}}"]]'
        (tmp_path / "sample.toml").write_text(f'columns = ["x"]\n{row}\n[runs.sim]\nexperiment = "k2/x"\n')
        (step,) = tables.steps(tmp_path).values()
        if value is None:
            with pytest.raises(
                UsageError, match=r"expected (one|a) flow .* of 4k/none/1, got (rt1, rt2|none)"
            ):
                list(step(OfTwoFlows()))
        else:
            (measured,) = step(OfTwoFlows())
            assert measured.quantity.value == value


@pytest.mark.parametrize(
    ("text", "page", "message"),
    [
        (TABLE.replace('"p99 `none`", ', ""), PAGE, "expected 3 cells in each row, got 2"),
        (TABLE, PAGE.replace("<!-- end -->", ""), "expected <!-- end --> below each"),
    ],
)
def test_a_table_that_cannot_be_made_is_refused(text: str, page: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "sample.toml").write_text(text)
    places = ("none/1/rt/p99", "k2/1/rt/p99", "k2/1/rt/mib_s")
    measured = [figure(f"tables/sample/sim/4k/{place}", exact(1)) for place in places]
    found = stored(figure("x/a/tail", exact(1)), *measured)
    with pytest.raises(UsageError, match=message):
        tables.filled(page, found, "page.md", tmp_path)


@pytest.mark.parametrize("place", ["./sim/4k/none/1/rt", "./vm/4k/none/1/rt/p99", "./sim/4k/nobody/1/rt/p99"])
def test_a_place_that_no_run_has_is_refused(place: str, tmp_path: Path) -> None:
    (tmp_path / "sample.toml").write_text(TABLE.replace("./sim/4k/none/1/rt/p99", place))
    (step,) = tables.steps(tmp_path).values()
    with pytest.raises(UsageError, match=r"claims/tables/sample.toml: .*expected"):
        list(step(InventedLab()))


def test_a_page_says_how_many_results_miss_their_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = {"x": topic(tmp_path)}
    monkeypatch.setattr(model, "read", lambda: topics)
    found = stored(
        figure("x/kept/tail", exact(1)),
        figure("x/wide/tail", within(1, 0.9, 1.2)),
        figure("x/noisy/tail", exact(1.2)),
        figure("x/held-out-1/tail", exact(1.2), ("sched/bounds", "abc123")),
    )
    page = tables.filled("<!-- claims: verdicts -->\n<!-- end -->\n", found, "page.md", tmp_path)
    said = " ".join(page.split())
    assert "Of the 3 results with a promised bound, 2 miss it, 1 of these only by the end of" in said
    assert "1 of the misses are on the drive `noisy`, which has rare long reads" in said


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (
            'experiment = "k2/x"\nscheduler = "k2"',
            "runs.sim.scheduler: unknown key; expected experiment, mode, ",
        ),
        ('mode = "full"', "runs.sim.experiment: missing"),
    ],
)
def test_a_run_of_a_table_that_is_not_right_is_told(run: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "sample.toml").write_text(f'columns = ["x"]\nrows = []\n[runs.sim]\n{run}\n')
    with pytest.raises(UsageError, match=re.escape(message)):
        tables.steps(tmp_path)


def test_each_result_in_a_table_is_declared() -> None:
    """So that an id with a slip of the pen is not taken for one that is not measured yet."""
    patterns = tuple(p for t in model.read().values() for entry in t.entries for p in entry.results)
    for path in tables.TABLES.glob("*.toml"):
        assert not [i for i in tables.ids(path.stem) if not model.matches(patterns, i)], path


def test_each_table_is_made_from_results() -> None:
    """A block without a file in claims/tables, or without results, keeps the rows that were written there."""
    named = {name for page in tables.pages() for name in tables.names(page.read_text())}
    assert named == {path.stem for path in tables.TABLES.glob("*.toml")} | set(tables.TEXTS)
    assert list(tables.missing(results.by_id(results.read()))) == []


def test_a_page_of_figures_has_no_other_tables() -> None:
    of_figures = {"measurements.md", "special.md", "costs.md"}
    for page in (page for page in tables.pages() if page.name in of_figures):
        outside = re.sub(r"<!-- claims: .*?<!-- end -->", "", page.read_text(), flags=re.DOTALL)
        assert not [line for line in outside.splitlines() if line.startswith("|")], page


def test_no_table_is_stale() -> None:
    """`make docs` writes them."""
    found = results.by_id(results.read())
    for page in tables.pages():
        text = page.read_text()
        assert tables.filled(text, found, str(page)) == text, f"{page} is stale: run make docs"


def test_the_largest_has_the_largest_ends() -> None:
    """The unfavourable end may be that of another quantity than the one with the largest value."""
    some = [within(10, 9, 11), within(9.9, 9.5, 14), within(9, 8, None)]
    assert largest(some) == within(10, 9.5, None)
    assert smallest(some[:2]) == within(9.9, 9, 11)
    assert largest([within(10, 9, 11), once(12)]) == once(12)
