# SPDX-License-Identifier: GPL-2.0-only
"""Faults that K2 once had, put back: which law of the swarm test finds each, and after how many scenarios.

`make swarm-faults` prints a table; exit status 1 if one is not found.
"""

import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: Scenarios within which each fault is to be found.
WITHIN = 20_000
COMPILER = (
    "gcc",
    "-std=gnu11",
    "-g",
    "-O2",
    "-Wall",
    "-Wextra",
    "-Wno-unused-function",
    "-Wno-unused-parameter",
)


@dataclass(frozen=True)
class Fault:
    """What went wrong, and the edit of sched/ that makes it go wrong again."""

    what: str
    file: str
    old: str
    new: str
    #: Found within a second or two.
    found_soon: bool = False


FAULTS = (
    Fault(
        "what the background gets while nothing else runs counts against its floor later",
        "floor.h",
        "f->due_ns[kind] = now_ns + f->interval_ns;\n	else",
        "f->due_ns[kind] = max(due_ns + f->interval_ns, now_ns);\n	else",
        found_soon=True,
    ),
    Fault(
        "a background request that is owed and does not fit holds up a real-time one",
        "k2.c",
        "		if (owed & 1U << list || k2_may_go(k2, list, now))\n			return list;",
        "		if (k2_may_go(k2, list, now))\n			return list;\n"
        "		if (owed & 1U << list)\n			return K2_LISTS;",
        found_soon=True,
    ),
    Fault(
        "requests that cannot be split pass the bound on bytes",
        "k2.c",
        "		.sectors = k2_sectors(e),\n		.writes",
        "		.sectors = k2->piece_sectors && k2_sectors(e) > k2->piece_sectors ? 0 : k2_sectors(e),\n"
        "		.writes",
        found_soon=True,
    ),
    Fault(
        "a target that is given up switches the bound on the debt of writes on",
        "k2.c",
        "on && (debt || cap != BOUND_NONE), debt ? debt : BOUND_NONE, cap)",
        "on && (debt || has_target), debt ? debt : DEBT_AUTO, cap)",
        found_soon=True,
    ),
    Fault(
        "the background stays blocked when what a bound refused is merged away",
        "k2.c",
        "if (atomic_read(&k2->blocked) & 1U << e->list && atomic_xchg(&k2->blocked, 0))",
        "if (0)",
    ),
    Fault(
        "bytes that went while no bound was in force are not counted",
        "k2.c",
        "	e->sectors = min_t(unsigned int, k2_sectors(e), (1U << 24) - 1);",
        "	e->sectors = k2->uses & K2_USES_BOUNDS ? min_t(unsigned int, k2_sectors(e), (1U << 24) - 1) : 0;",
        found_soon=True,
    ),
    Fault(
        "a target of more than 4.2 s wraps around",
        "k2.c",
        "1000ULL * knobs[K2_KNOB_rt_target_us]",
        "(unsigned int)(1000 * knobs[K2_KNOB_rt_target_us])",
        found_soon=True,
    ),
    Fault(
        "the background is held while the queue is being frozen",
        "k2.c",
        "&r, &why) ||\n	    k2_draining(k2))",
        "&r, &why))",
        found_soon=True,
    ),
    Fault(
        "a number for write_debt_kib_max is limited to the range of auto",
        "bounds/debt.c",
        "	WRITE_ONCE(d->limit_sectors, min(limit, d->cap_sectors));",
        "	limit = clamp_t(u64, limit, DEBT_SECTORS_MIN, DEBT_SECTORS_MAX);\n"
        "	WRITE_ONCE(d->limit_sectors, min(limit, d->cap_sectors));",
        found_soon=True,
    ),
    Fault(
        "a pause of the debt of writes has no longest",
        "bounds/debt.c",
        "	d->pause_ns = min_t(u64, pause_ns, DEBT_PAUSE_NS_MAX);",
        "	d->pause_ns = 16 * pause_ns;",
    ),
    Fault(
        "the background waits on when the real-time request that was expected has come",
        "learn.c",
        "	if (e->list < K2_LIST_BACKGROUND && k2->uses & (K2_USES_AHEAD | K2_USES_TIMES))\n"
        "		atomic_xchg(&k2->blocked, 0);",
        "",
    ),
    Fault(
        "a floor that is owed a request arms no timer",
        "k2.c",
        "		until_ns = min(until_ns, max(k2->floor.due_ns[k2_floor_kind(list)], now + 1));",
        "		until_ns += 0;",
        found_soon=True,
    ),
    Fault(
        "the slot that a returned request leaves wakes nothing",
        "k2.c",
        "	e->state = K2_RETURNED;\n	return k2_left(k2, e);",
        "	e->state = K2_RETURNED;\n	k2_left(k2, e);\n	return false;",
        found_soon=True,
    ),
    Fault(
        "a larger bound wakes nothing",
        "k2.c",
        "	k2_apply(k2);\n	k2_unblock(k2, K2_RELEASE_KNOB);",
        "	k2_apply(k2);",
    ),
)


def compile_swarm(out: Path, sched: Path = ROOT / "sched", flags: tuple[str, ...] = ()) -> Path:
    """Compile the swarm test over a copy of sched/; `out` is a folder, which takes the copies too."""
    tree = out / "tree"
    for name in ("tests/swarm", "sim", "flash"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(sched, tree / "sched", dirs_exist_ok=True)
    sources = [*sorted((tree / "tests/swarm").glob("*.c")), tree / "sim/drive.c"]
    includes = ("-I", str(tree / "sim/single"), "-I", str(tree / "sim/include"))
    program = out / "swarm"
    subprocess.run([*COMPILER, *flags, *includes, *map(str, sources), "-o", str(program)], check=True)
    return program


def with_fault(fault: Fault, out: Path) -> Path:
    """The swarm test over sched/ with this fault."""
    sched = out / "sched"
    shutil.copytree(ROOT / "sched", sched)
    source = sched / fault.file
    text = source.read_text()
    if text.count(fault.old) != 1:
        raise SystemExit(f"{fault.file} has {text.count(fault.old)} times what stands for: {fault.what}")
    source.write_text(text.replace(fault.old, fault.new))
    return compile_swarm(out, sched)


def find(fault: Fault, first: int, within: int) -> tuple[int, str] | None:
    """How many scenarios it took to find the fault, and the law that it breaks; None: it was not found."""
    with tempfile.TemporaryDirectory() as scratch:
        program = with_fault(fault, Path(scratch))
        done = subprocess.run(
            [program, str(first), str(within), "brief"], capture_output=True, text=True, check=False
        )
    if done.returncode == 0:
        return None
    seed, _, law = done.stdout.splitlines()[0].removeprefix("seed ").partition(": ")
    return int(seed) - first + 1, law


def main() -> int:
    """Print the table."""
    missed = 0
    print(f"{'scenarios':>9}  fault: law that finds it")
    for fault in FAULTS:
        found = find(fault, 1, WITHIN)
        missed += found is None
        print(f"{found[0] if found else 'missed':>9}  {fault.what}: {found[1] if found else '-'}", flush=True)
    return 1 if missed else 0
