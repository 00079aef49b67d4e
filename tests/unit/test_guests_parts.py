# SPDX-License-Identifier: GPL-2.0-only
"""What becomes of the parts of a guest's tests when one fails, or the guest dies; no guest runs."""

from collections.abc import Callable, Sequence

import pytest
from tests.vm.parts import Ended, Result, run_parts

OK, SKIP, FAIL = (Result(verdict, "") for verdict in ("ok", "skip", "fail"))


class Guests:
    """Guests in which these parts fail, kill the guest without a word, or leave it complaining."""

    def __init__(self, fail: str = "", die: str = "", skip: str = "", complain: str = "") -> None:
        self.fail, self.die, self.skip, self.complain = fail, die, skip, complain
        self.boots: list[str] = []

    def __call__(self, parts: Sequence[str], ended: Ended) -> str:
        self.boots.append("")
        for part in parts:
            self.boots[-1] += part
            if part in self.die:
                return "kernel died"
            ended(part, FAIL if part in self.fail else SKIP if part in self.skip else OK)
            if part in self.fail:
                return "job failed"
        return "kernel warning" if parts[-1] in self.complain else ""


def run(guests: Guests, parts: str = "abcd") -> dict[str, Result]:
    results: dict[str, Result] = {}

    def ended(part: str, result: Result) -> None:
        assert part not in results
        results[part] = result

    run_parts(list(parts), guests, ended)
    assert list(results) == list(parts)
    return results


def verdicts(results: dict[str, Result]) -> str:
    return " ".join(result.verdict for result in results.values())


@pytest.mark.parametrize(
    ("guests", "boots", "expected"),
    [
        (Guests(), ["abcd"], "ok ok ok ok"),
        (Guests(skip="ad"), ["abcd"], "skip ok ok skip"),
        (Guests(fail="b"), ["ab", "cd"], "ok fail ok ok"),
        (Guests(fail="d"), ["abcd"], "ok ok ok fail"),
        (Guests(die="a"), ["a", "bcd"], "fail ok ok ok"),
        (Guests(die="d"), ["abcd"], "ok ok ok fail"),
        (Guests(fail="ac", die="b"), ["a", "b", "c", "d"], "fail fail fail ok"),
        (Guests(fail="abcd"), ["a", "b", "c", "d"], "fail fail fail fail"),
        (Guests(complain="d"), ["abcd"], "ok ok ok fail"),
    ],
)
def test_a_part_that_fails_takes_nothing_else_down(guests: Guests, boots: list[str], expected: str) -> None:
    results = run(guests)
    assert (guests.boots, verdicts(results)) == (boots, expected)


def test_a_dead_guest_says_why() -> None:
    assert "kernel died" in run(Guests(die="c"))["c"].said
    assert "kernel warning" in run(Guests(complain="d"))["d"].said


def test_a_guest_that_ends_early_without_a_complaint_fails_its_part() -> None:
    boots: list[Sequence[str]] = []

    def boot(parts: Sequence[str], ended: Ended) -> str:
        boots.append(parts)
        ended(parts[0], OK)
        return ""

    results: dict[str, str] = {}
    run_parts(["a", "b"], boot, lambda part, result: results.__setitem__(part, result.verdict))
    assert (boots, results) == ([("a", "b")], {"a": "ok", "b": "fail"})


def test_results_come_as_they_end() -> None:
    seen: list[str] = []

    def boot(parts: Sequence[str], ended: Ended) -> str:
        for part in parts:
            ended(part, OK)
            seen.append(f"after {part}")
        return ""

    run_parts(["a", "b"], boot, lambda part, _: seen.append(part))
    assert seen == ["a", "after a", "after b", "b"]


def test_another_part_than_the_next_is_an_error_of_ours() -> None:
    def boot(parts: Sequence[str], ended: Ended) -> str:
        ended("b", OK)
        return ""

    ended: Callable[[str, Result], None] = lambda part, result: None  # noqa: E731
    with pytest.raises(AssertionError, match="b has ended, expected a"):
        run_parts(["a", "b"], boot, ended)
