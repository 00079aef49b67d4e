# SPDX-License-Identifier: GPL-2.0-only
"""Faults put back: which law of the swarm test finds each, and after how many scenarios.

K2 once had them.

`make swarm-faults` prints a table; exit status 1 if one is not found.
"""

import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.unit.programs import ROOT, mutate

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
    old: str
    new: str
    #: Found within a second or two.
    found_soon: bool = False


K2_FAULTS = (
    Fault(
        "what the background gets while nothing else runs counts against its floor later",
        "else if (!due_ns || now_ns < due_ns)",
        "else if (!due_ns)",
        found_soon=True,
    ),
    Fault(
        "a background request that is owed and does not fit holds up a real-time one",
        "		if (owed & 1U << list || k2_may_go(k2, list, now))\n			return list;",
        "		if (k2_may_go(k2, list, now))\n			return list;\n"
        "		if (owed & 1U << list)\n			return K2_LISTS;",
        found_soon=True,
    ),
    Fault(
        "requests that cannot be split pass the bound on bytes",
        "		.sectors = k2_sectors(e),\n		.writes",
        "		.sectors = k2->piece_sectors && k2_sectors(e) > k2->piece_sectors ? 0 : k2_sectors(e),\n"
        "		.writes",
        found_soon=True,
    ),
    Fault(
        "a target that is given up switches the bound on the debt of writes on",
        "on && (debt || cap != BOUND_NONE), debt ? debt : BOUND_NONE, cap)",
        "on && (debt || has_target), debt ? debt : DEBT_AUTO, cap)",
        found_soon=True,
    ),
    Fault(
        "the background stays blocked when what a bound refused is merged away",
        "if (atomic_read(&k2->blocked) & 1U << e->list && atomic_xchg(&k2->blocked, 0))",
        "if (0)",
    ),
    Fault(
        "bytes that went while no bound was in force are not counted",
        "	e->sectors = min_t(unsigned int, k2_sectors(e), (1U << 24) - 1);",
        "	e->sectors = k2->uses & K2_USES_BOUNDS ? min_t(unsigned int, k2_sectors(e), (1U << 24) - 1) : 0;",
        found_soon=True,
    ),
    Fault(
        "a target of more than 4.2 s wraps around",
        "1000ULL * knobs[K2_KNOB_rt_target_us]",
        "(unsigned int)(1000 * knobs[K2_KNOB_rt_target_us])",
        found_soon=True,
    ),
    Fault(
        "the background is held while the queue is being frozen",
        "&r, &why) ||\n	    k2_draining(k2))",
        "&r, &why))",
        found_soon=True,
    ),
    Fault(
        "a number for write_debt_kib_max is limited to the range of auto",
        "	WRITE_ONCE(d->limit_sectors, min(limit, d->cap_sectors));",
        "	limit = clamp_t(u64, limit, DEBT_SECTORS_MIN, DEBT_SECTORS_MAX);\n"
        "	WRITE_ONCE(d->limit_sectors, min(limit, d->cap_sectors));",
        found_soon=True,
    ),
    Fault(
        "a pause of the debt of writes has no longest",
        "	d->pause_ns = min_t(u64, pause_ns, DEBT_PAUSE_NS_MAX);",
        "	d->pause_ns = 16 * pause_ns;",
    ),
    Fault(
        "the background waits on when the real-time request that was expected has come",
        "	if (e->list < K2_LIST_BACKGROUND && k2->uses & (K2_USES_AHEAD | K2_USES_TIMES))\n"
        "		atomic_xchg(&k2->blocked, 0);",
        "",
    ),
    Fault(
        "the timer is set to the latest time that was asked for",
        "if (armed_ns && armed_ns <= at_ns)",
        "if (armed_ns == at_ns)",
    ),
    Fault(
        "a background request that is held hides real-time ones",
        "k2_block(k2, 1U << list);",
        "k2_block(k2, K2_MAP_ALL);",
        found_soon=True,
    ),
    Fault(
        "a floor that is owed a request arms no timer",
        "		until_ns = min(until_ns, max(k2->floor.due_ns[k2_floor_kind(list)], now + 1));",
        "		until_ns += 0;",
        found_soon=True,
    ),
    Fault(
        "the slot that a returned request leaves wakes nothing",
        "	e->state = K2_RETURNED;\n	return k2_left(k2, e);",
        "	e->state = K2_RETURNED;\n	k2_left(k2, e);\n	return false;",
        found_soon=True,
    ),
    Fault(
        "a larger bound wakes nothing",
        "	k2_apply(k2);\n	k2_unblock(k2, K2_RELEASE_KNOB);",
        "	k2_apply(k2);",
    ),
)

#: By scheduler.
FAULTS = {"k2": K2_FAULTS}


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
    mutate(sched, fault.old, fault.new)
    return compile_swarm(out, sched)


def play(program: Path, scheduler: str, first: int, within: int) -> tuple[int, str] | None:
    """How many scenarios it took to break a law, and the law; None: all held."""
    command = [str(program), scheduler, str(first), str(within), "brief"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return None
    seed, _, law = done.stdout.splitlines()[0].removeprefix("seed ").partition(": ")
    return int(seed) - first + 1, law


def find(scheduler: str, fault: Fault, first: int, within: int) -> tuple[int, str] | None:
    """How many scenarios it took to find the fault, and the law that it breaks; None: it was not found."""
    with tempfile.TemporaryDirectory() as scratch:
        return play(with_fault(fault, Path(scratch)), scheduler, first, within)


def main() -> int:
    """Print the table."""
    missed = 0
    print(f"{'scenarios':>9}  fault: law that finds it")
    for scheduler, faults in FAULTS.items():
        print(scheduler)
        for fault in faults:
            found = find(scheduler, fault, 1, WITHIN)
            missed += found is None
            print(
                f"{found[0] if found else 'missed':>9}  {fault.what}: {found[1] if found else '-'}",
                flush=True,
            )
    return 1 if missed else 0
