# SPDX-License-Identifier: GPL-2.0-only
"""The bench of lines of code: what counts as a line, and which file belongs to which part."""

from pathlib import Path

from rich.console import Console

from tailgate.targets.identity import PACKAGE
from tailgate.upkeep.bench import lines

TEXT = """\
/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * int not_counted;
 */
#include <linux/types.h>

#define TWO(x) \\
	((x) + (x)) /* on two lines */
// a comment
static const char *s = "/* no comment */"; // one
	/* a */ int f; /* b
 and on */
#ifdef NEVER
int g;
#endif
"""
FILES = (
    *("sched/k2.h", "sched/k2.c", "sched/levels.h", "sched/levels.c", "sched/bounds/new.h"),
    *(
        "sched/ends.h",
        "sched/merge.c",
        "sched/fifo.h",
        "sched/fifo_order.c",
        "sched/models/kyber.c",
        "sched/experiments/placebo.h",
    ),
    *("kernel/k2.c", "kernel/k2_trace.h", "kernel/k2_experiments.c", "kernel/fifo.c", "kernel/vflash.c"),
    *("kernel/elevator/merge.h", "kernel/elevator/new.h", "kernel/compat/check.c", "kernel/Makefile"),
)


def write(root: Path) -> None:
    for number, name in enumerate(FILES, 1):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("int a;\n" * number)
    with (root / "kernel/elevator/merge.h").open("a") as file:
        file.write('#include "../../sched/ends.h"\n')


def test_comments_and_blank_lines_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text(TEXT)
    assert lines.count(tmp_path / "a.c") == 8


def test_a_new_file_has_its_part(tmp_path: Path) -> None:
    write(tmp_path)
    found = {
        f"{owner} {part}": [str(file.relative_to(tmp_path)) for file in files]
        for (owner, part), files in lines.parts(tmp_path).items()
    }
    assert found == {
        "k2 sched.bounds.new": ["sched/bounds/new.h"],
        "k2 experiments": ["sched/experiments/placebo.h", "kernel/k2_experiments.c"],
        "k2 sched.k2": ["sched/k2.c", "sched/k2.h"],
        "k2 sched.levels": ["sched/levels.c", "sched/levels.h"],
        "k2 sched.merge": ["sched/merge.c"],
        "shared sched.ends": ["sched/ends.h"],
        "k2 kernel": ["kernel/k2.c", "kernel/k2_trace.h"],
        "fifo sched": ["sched/fifo.h", "sched/fifo_order.c"],
        "fifo kernel": ["kernel/fifo.c"],
        "shared kernel.elevator": ["kernel/elevator/merge.h", "kernel/elevator/new.h"],
        "shared kernel.compat.check": ["kernel/compat/check.c"],
    }


def test_results_have_sums(tmp_path: Path) -> None:
    write(tmp_path)
    found = {r.name: r.value for r in lines.measure(Console(quiet=True), [], tmp_path)}
    assert found["lines.k2.sched.levels"] == 3 + 4
    assert found["lines.k2.sched.decides"] == 1 + 2 + 3 + 4 + 5
    assert found["lines.k2.sched"] == 15 + 7
    assert found["lines.k2.kernel"] == 12 + 13
    assert found["lines.k2"] == 22 + 25 + 11 + 14
    assert found["lines.shared"] == 6 + 17 + 1 + 18 + 19


def test_every_scheduler_here_is_counted() -> None:
    owners = {owner for owner, _ in lines.parts()}
    assert owners >= {"k2", "fifo", lines.SHARED}


def test_no_file_of_the_lab_is_long() -> None:
    """A longer file has more than one reason to exist."""
    long = {
        str(path): count for path in PACKAGE.rglob("*.py") if (count := path.read_text().count("\n")) > 400
    }
    assert not long
