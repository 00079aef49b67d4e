# SPDX-License-Identifier: GPL-2.0-only
"""flash/ in user space: promises on random drives and loads, known times on small ones; their loss is seen.

TAILGATE_SEED replays what a failed run printed.
"""

import os
import secrets
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SEED = int(os.environ.get("TAILGATE_SEED", secrets.randbelow(1 << 31)))
SEEDS = 1500
SANITIZED = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")

#: Mistakes in flash.c that some property must notice: what stands there, and what stands there instead.
MISTAKES = {
    "two at once on a die": ("start_ns = max(start_ns, d->free_ns);", "start_ns = max(start_ns, f->now_ns);"),
    "a slot too many": ("f->slots_used < f->slots)", "f->slots_used <= f->slots)"),
    "a slot that is not given back": ("f->slots_used--;", "f->slots_used -= c->op != FLASH_DISCARD;"),
    "a queue that keeps its turn": (
        "f->queue_next = queue + 1 < f->queue_count ? queue + 1 : 0;",
        "f->queue_next = queue;",
    ),
    "no fetch after a completion": ("f->slots_used--;\n\t\t\tflash_fetch(f);", "f->slots_used--;"),
    "what is late happens late": ("f->now_ns = due;", "f->now_ns = now_ns;"),
    "room that is not given back": ("f->buffered_units -= flash_pop", "f->buffered_units -= 0 * flash_pop"),
    "programs that wait for a busy die": (
        "f->open_die = flash_first_free(f);",
        "",
    ),
    "a full buffer": ("<= f->buffer_units ||", "< f->buffer_units ||"),
    "nobody programs what waits": (
        "if (!f->programs.count)\n\t\t\tflash_program(f, f->now_ns);\n\t\treturn;",
        "return;",
    ),
    "a flush that does not wait": (
        "max(f->programmed_ns, f->now_ns) + f->flush_ns",
        "f->now_ns + f->flush_ns",
    ),
    "a discard whose size does not matter": ("c->sectors * f->discard_kib_ns", "0 * f->discard_kib_ns"),
    "reads beside a discard": (
        "max(f->controller_free_ns, f->now_ns) + f->read_half",
        "f->now_ns + f->read_half",
    ),
    "writes beside a discard": (
        "max(f->link_in_free_ns, max(f->controller_free_ns, f->now_ns))",
        "max(f->link_in_free_ns, f->now_ns)",
    ),
    "two discards at once": (
        "f->controller_free_ns = max(f->controller_free_ns, f->now_ns)",
        "f->controller_free_ns = f->now_ns",
    ),
    "a discard's size that is not dilated": ("k * p->discard_kib_ns", "p->discard_kib_ns"),
    "a write through the buffer that does not wait": ("end = max(end, programmed);", ""),
    "reads that pass in order": (
        "!(f->in_order || flash_is_write(c))",
        "!flash_is_write(c)",
    ),
    "a time that is not dilated": ("f->erase_ns = k * p->erase_ns;", "f->erase_ns = p->erase_ns;"),
    "writes as fast as reads": ("c->sectors * f->write_transfer_ns", "c->sectors * f->transfer_ns"),
    "reads as slow as writes": (
        "first->command->sectors * f->transfer_ns",
        "first->command->sectors * f->write_transfer_ns",
    ),
    "writes that take no time where nothing is said": (
        "(p->write_transfer_ns ? p->write_transfer_ns : p->transfer_ns)",
        "p->write_transfer_ns",
    ),
    "a time of writes that is not dilated": ("k * (p->write_transfer_ns", "(p->write_transfer_ns"),
    "two on the link": ("max(first->at_ns, f->link_out_free_ns)", "first->at_ns"),
    "neighbours fetched again": ("unit & f->page_mask && f->places", "0 && f->places"),
    "trimmed units that are read": ("if (!die) /* trimmed */", "if (0)"),
    "neighbours that cost nothing": ("ns += f->read_unit_ns", "ns += 0"),
    "a cache without end": ("f->slc_used++;", ""),
    "a cache that is never emptied": ("f->slc_used -= min(", "f->slc_used -= 0 * min("),
    "an erase too few": ("!d->programs_left--", "!d->programs_left-- && f->statistics.programs & 1"),
    "a heap out of order": ("heap[child + 1].at_ns < heap[child].at_ns", "0"),
}


def compile_properties(out: Path, *flags: str, first: Path = ROOT) -> Path:
    """Compile tests/unit/flash/properties.c; `first` is where flash/ is looked for first."""
    program = out / "properties"
    command = ["gcc", "-std=gnu11", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Wno-override-init", *flags]
    command += [f"-I{first}", f"-I{ROOT}", f"-I{ROOT / 'sim/include'}"]
    subprocess.run([*command, str(ROOT / "tests/unit/flash/properties.c"), "-o", str(program)], check=True)
    return program


def run(program: Path, first: int, seeds: int, limit_s: float) -> subprocess.CompletedProcess[str]:
    """Its outcome; a program that does not end counts as failed."""
    command = [str(program), str(first), str(seeds)]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=limit_s)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, -1, "", "it does not end")


def test_promises_hold(tmp_path: Path) -> None:
    """Every command completes once, no die serves two, slots and buffer are kept, the same gives the same."""
    done = run(compile_properties(tmp_path, "-Werror", *SANITIZED), SEED, SEEDS, 300)
    assert done.returncode == 0, f"TAILGATE_SEED={SEED}: {done.stderr}"


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_noticed(mistake: str, tmp_path: Path) -> None:
    right, wrong = MISTAKES[mistake]
    folder = tmp_path / "flash"
    folder.mkdir()
    source = (ROOT / "flash/flash.c").read_text(encoding="utf-8")
    assert source.count(right) == 1, f"{mistake}: flash.c has {right!r} {source.count(right)} times"
    (folder / "flash.c").write_text(source.replace(right, wrong), encoding="utf-8")
    (folder / "flash.h").write_text((ROOT / "flash/flash.h").read_text(encoding="utf-8"), encoding="utf-8")
    done = run(compile_properties(tmp_path, "-O1", "-w", first=tmp_path), 1, 300, 5)
    assert done.returncode != 0
