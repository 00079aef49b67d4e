# SPDX-License-Identifier: GPL-2.0-only
"""Parts that run one after the other in one guest, and what becomes of the rest when one fails."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Verdict = Literal["ok", "skip", "fail"]
#: By what the guest calls them.
VERDICTS: Mapping[str, Verdict] = {"ok": "ok", "skip": "skip", "fail": "fail"}


@dataclass(frozen=True)
class Result:
    """How a part ended, and what it printed."""

    verdict: Verdict
    said: str


#: Gets a part's name and result as soon as the part has ended.
Ended = Callable[[str, Result], None]
#: Boots a guest that runs these parts in turn until one fails. Returns what was wrong with the guest, empty
#: if nothing.
Boot = Callable[[Sequence[str], Ended], str]


def run_parts(parts: Sequence[str], boot: Boot, ended: Ended) -> None:
    """Run all parts in as few boots as possible: after a part that fails or kills its guest comes a new one.

    A guest that ends without a word fails the part that it was at. The last result of a guest is handed over
    when the guest has ended, as what is wrong with the guest then is that part's doing.
    """
    left = list(parts)
    while left:
        last: Result | None = None

        def take(part: str, result: Result) -> None:
            nonlocal last
            assert part == left[0], f"{part} has ended, expected {left[0]}"
            if result.verdict != "fail" and len(left) > 1:
                ended(left.pop(0), result)
            else:
                last = result

        wrong = boot(tuple(left), take)
        if last is None:
            last = Result("fail", f"the guest ended in this part: {wrong}")
        elif wrong and last.verdict != "fail":
            last = Result("fail", f"{last.said}\nthe guest: {wrong}")
        ended(left.pop(0), last)
