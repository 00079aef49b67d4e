# SPDX-License-Identifier: GPL-2.0-only
"""The simulator's own laws under sanitizers, on random loads, and that their loss is seen.

TAILGATE_SEED replays what a failed run printed.
"""

import os
import secrets
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SEED = int(os.environ.get("TAILGATE_SEED", secrets.randbelow(1 << 31)))
SEEDS = 1000
SANITIZED = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")

#: Mistakes that some law must notice: the file, what stands there, what stands there instead, and the source
#: that includes the file.
MISTAKES = {
    "a slot too many": (
        "sched/k2.c",
        "inflight >= READ_ONCE(k2->inflight_limit)",
        "inflight > READ_ONCE(k2->inflight_limit)",
        "schedulers/k2.c",
    ),
    "a byte too many": (
        "sched/k2.c",
        "all <= READ_ONCE(k2->byte_limit))",
        "all <= READ_ONCE(k2->byte_limit) + 8)",
        "schedulers/k2.c",
    ),
    "a floor that nobody asked for": (
        "sched/k2.c",
        "!(READ_ONCE(k2->uses) & K2_USES_FLOOR) || ",
        "",
        "schedulers/k2.c",
    ),
    "last in, first out": (
        "sched/k2.c",
        "list_add_tail(k2_node(e), &ctx->lists[list]);",
        "list_add(k2_node(e), &ctx->lists[list]);",
        "schedulers/k2.c",
    ),
    "nobody wakes": ("sched/k2.c", "k2->wake(k2->argument, ctx);", ";", "schedulers/k2.c"),
    "a tag that nobody gets": (
        "sim/block_layer.cpp",
        "\twake_waiters(queue);\n}",
        "}",
        "block_layer.cpp",
    ),
    "a piece that is lost": (
        "sim/block_layer.cpp",
        "queue.waiters.push_back({ bio.io, bio.sector + done, sectors, {} });",
        ";",
        "block_layer.cpp",
    ),
    "no second run": ("sim/block_layer.cpp", "\t\trun_after_delay();\n", "", "block_layer.cpp"),
    "two at once on a die": (
        "flash/flash.c",
        "start_ns = max(start_ns, d->free_ns);",
        "start_ns = max(start_ns, f->now_ns);",
        "drive.c",
    ),
}


def compile_source(tree: Path, source: str, objects: Path) -> None:
    """An object file of one of the simulator's sources in a tree, under sanitizers."""
    sim = tree / "sim"
    compiler = ["gcc", "-std=gnu11"] if source.endswith(".c") else ["g++", "-std=gnu++20"]
    includes = [f"-I{sim / 'single'}", f"-I{sim / 'include'}", f"-I{sim}"]
    target = objects / f"{Path(source).name}.o"
    subprocess.run([*compiler, *SANITIZED, *includes, "-c", str(sim / source), "-o", str(target)], check=True)


def link(objects: Path) -> Path:
    """The program of all object files in a folder."""
    program = objects / "laws"
    files = [str(file) for file in objects.glob("*.o")]
    subprocess.run(["g++", *SANITIZED, *files, "-o", str(program)], check=True)
    return program


@pytest.fixture(scope="session")
def objects(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All object files."""
    folder = tmp_path_factory.mktemp("objects")
    sim = ROOT / "sim"
    sources = [*sim.glob("*.c"), *sim.glob("schedulers/*.c"), *sim.glob("*.cpp")]
    names = [str(s.relative_to(sim)) for s in sources if s.name != "binding.cpp"]
    laws = os.path.relpath(ROOT / "tests/unit/simulator/laws.cpp", sim)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda name: compile_source(ROOT, name, folder), [*names, laws]))
    return folder


def run(program: Path, first: int, seeds: int, limit_s: float) -> subprocess.CompletedProcess[str]:
    """Its outcome; a program that does not end counts as failed."""
    command = [str(program), str(first), str(seeds)]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=limit_s)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, -1, "", "it does not end")


def test_laws_hold(objects: Path) -> None:
    """Every request completes once, in order, within the bound; no die serves two; no memory error."""
    done = run(link(objects), SEED, SEEDS, 300)
    assert done.returncode == 0, f"TAILGATE_SEED={SEED}: {done.stderr}"


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_noticed(mistake: str, objects: Path, tmp_path: Path) -> None:
    name, right, wrong, source = MISTAKES[mistake]
    for folder in ("sim", "sched", "flash"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    broken = shutil.copytree(objects, tmp_path / "objects")
    file = tmp_path / name
    text = file.read_text(encoding="utf-8")
    assert text.count(right) == 1, f"{mistake}: {name} has {right!r} {text.count(right)} times"
    file.write_text(text.replace(right, wrong), encoding="utf-8")
    compile_source(tmp_path, source, broken)
    assert run(link(broken), 1, 1000, 30).returncode != 0
