# SPDX-License-Identifier: GPL-2.0-only
"""Faults that K2 once had: each is put back, and what covers it fails; today it passes.

`make faults` prints a row for each. Exit status 1 if one is not found, or a test fails without it.
"""

import argparse
import sys
from collections.abc import Sequence

from tests.faults.rows import ROWS, Row
from tests.faults.show import PATIENCE_S, BrokenEditError, verdicts


def is_in_guests(row: Row) -> bool:
    return any(test.startswith("tests/vm/") for test in row.tests)


def shown(row: Row, passing: dict[str, str]) -> bool:
    """Print a row; whether it is as it should be. `passing` remembers what tests said without a fault."""
    if row.reason:
        print(f"{row.number:>4}  not shown     {row.what}\n{'':20}{row.reason}", flush=True)
        return True
    try:
        before = verdicts(row.tests, row.edits, PATIENCE_S)
    except BrokenEditError as e:
        print(f"{row.number:>4}  BROKEN        {row.what}\n{e}", flush=True)
        return False
    new = [test for test in row.tests if test not in passing]
    passing |= verdicts(new) if new else {}
    now = {test: passing[test] for test in row.tests}
    words = ["red" if all(before.values()) else "NOT FOUND", "RED" if any(now.values()) else "green"]
    print(f"{row.number:>4}  {words[0]} -> {words[1]}  {row.what}")
    for test in row.tests:
        print(f"{'':20}{test}: {before[test] or 'passes with the fault'}")
        if now[test]:
            print(f"{'':20}fails without the fault: {now[test]}")
    sys.stdout.flush()
    return words == ["red", "green"]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__.partition("\n")[0])
    parser.add_argument("number", nargs="*", help="of a row; default: all")
    parser.add_argument("--no-guests", action="store_true", help="without what boots virtual machines")
    options = parser.parse_args(arguments)
    if unknown := set(options.number) - {row.number for row in ROWS}:
        parser.error(f"no fault has the number {', '.join(sorted(unknown))}")
    chosen = [row for row in ROWS if not options.number or row.number in options.number]
    if options.no_guests:
        chosen = [row for row in chosen if not is_in_guests(row)]
    passing: dict[str, str] = {}
    wrong = [row.number for row in chosen if not shown(row, passing)]
    if wrong:
        print(f"not as it should be: {', '.join(wrong)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
