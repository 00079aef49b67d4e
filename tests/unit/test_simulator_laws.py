# SPDX-License-Identifier: GPL-2.0-only
"""The simulator's own laws under sanitizers, on random loads, and that their loss is seen.

TAILGATE_SEED replays what a failed run printed.
"""

import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.unit.programs import ROOT, SANITIZED, SEED, built_once, complains, mutate, run_program

SEEDS = 500

#: Mistakes that some law must notice: what stands there, what stands there instead, and the source of sim/
#: that has it.
MISTAKES = {
    "a slot too many": (
        "inflight_change(&k2->inflight, on ? requests : BOUND_NONE,",
        "inflight_change(&k2->inflight, on ? requests + (requests != BOUND_NONE) : BOUND_NONE,",
        "schedulers/k2.c",
    ),
    "a byte too many": (
        "!r->met || r->met + r->sectors <= b->sectors_max)",
        "!r->met || r->met + r->sectors <= b->sectors_max + 8)",
        "schedulers/k2.c",
    ),
    "a default bound that is missing": (
        "requests = target_ns ? BOUND_NONE : K2_INFLIGHT_MAX;",
        "requests = BOUND_NONE;",
        "schedulers/k2.c",
    ),
    "bounds that real-time activity does not bring": (
        "bool on = !when_active || k2->activity.active,",
        "bool on = !when_active,",
        "schedulers/k2.c",
    ),
    "a floor that nobody asked for": (
        "if (!f->interval_ns)\n\t\treturn false;",
        "",
        "schedulers/k2.c",
    ),
    "a floor that is too high": ("div_u64(1000000000, iops)", "div_u64(900000000, iops)", "schedulers/k2.c"),
    "a floor that is due at once": (
        "f->due_ns[kind] = now_ns + f->interval_ns;\n\treturn",
        "f->due_ns[kind] = now_ns;\n\treturn",
        "schedulers/k2.c",
    ),
    "a floor that catches up with everything": (
        "max(due_ns + f->interval_ns, now_ns)",
        "due_ns + f->interval_ns",
        "schedulers/k2.c",
    ),
    "a real-time request that is passed twice": (
        "now_ns >= f->due_ns[kind] && !(rt_waits && f->passed)",
        "now_ns >= f->due_ns[kind]",
        "schedulers/k2.c",
    ),
    "last in, first out": (
        "list_splice_tail_init(entries, &ctx->lists[__ffs(lists)]);",
        "list_splice_init(entries, &ctx->lists[__ffs(lists)]);",
        "schedulers/k2.c",
    ),
    "no completion runs a queue": (
        "if (k2_finish(&d->k2, &k2_private(rq)->entry, false))",
        "if (k2_finish(&d->k2, &k2_private(rq)->entry, false) && false)",
        "schedulers/k2.c",
    ),
    "a tag that nobody gets": (
        "\twake_waiters(queue);\n}\n\nvoid BlockLayer::end_bios",
        "}\n\nvoid BlockLayer::end_bios",
        "block_layer.cpp",
    ),
    "a piece that is lost": (
        "queue.waiters.push_back({ bio.io, bio.sector + done, sectors, {} });",
        ";",
        "block_layer.cpp",
    ),
    "no second run": ("\t\trun_after_delay(queue);\n", "", "block_layer.cpp"),
    "two at once on a die": (
        "start_ns = max(start_ns, d->free_ns);",
        "start_ns = max(start_ns, f->now_ns);",
        "drive.c",
    ),
}


def compile_source(tree: Path, source: str, objects: Path, *flags: str) -> None:
    """An object file of one of the simulator's sources in a tree."""
    sim = tree / "sim"
    compiler = ["gcc", "-std=gnu11"] if source.endswith(".c") else ["g++", "-std=gnu++20"]
    includes = [f"-I{sim / 'single'}", f"-I{sim / 'include'}", f"-I{sim}"]
    target = objects / f"{Path(source).name}.o"
    subprocess.run([*compiler, *flags, *includes, "-c", str(sim / source), "-o", str(target)], check=True)


def link(objects: Path) -> Path:
    """The program of all object files in a folder."""
    program = objects / "laws"
    files = [str(file) for file in objects.glob("*.o")]
    subprocess.run(["g++", *SANITIZED, *files, "-o", str(program)], check=True)
    return program


@pytest.fixture(scope="session")
def objects(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All object files."""
    return built_once(tmp_path_factory, "objects", compile_all)


def compile_all(folder: Path) -> None:
    """All object files into a folder."""
    sim = ROOT / "sim"
    sources = [*sim.glob("*.c"), *sim.glob("schedulers/*.c"), *sim.glob("*.cpp")]
    names = [str(s.relative_to(sim)) for s in sources if s.name != "binding.cpp"]
    laws = os.path.relpath(ROOT / "tests/unit/simulator/laws.cpp", sim)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(
            pool.map(lambda name: compile_source(ROOT, name, folder, "-O1", "-g", *SANITIZED), [*names, laws])
        )


def test_laws_hold(objects: Path) -> None:
    """Every request completes once, in order, within the bound; no die serves two; no memory error."""
    said = run_program(link(objects), SEED, SEEDS)
    assert not said, f"TAILGATE_SEED={SEED}: {said}"


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_noticed(mistake: str, objects: Path, tmp_path: Path) -> None:
    right, wrong, source = MISTAKES[mistake]
    for folder in ("sim", "sched", "flash"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    mutate(tmp_path, right, wrong)
    broken = shutil.copytree(objects, tmp_path / "objects")
    compile_source(tmp_path, source, broken, "-O0")
    assert complains(link(broken), 1, 3000)
