# SPDX-License-Identifier: GPL-2.0-only
"""flash/ in user space: promises on random drives and loads, known times on small ones; their loss is seen.

TAILGATE_SEED replays what a failed run printed.
"""

import shutil
import subprocess
from pathlib import Path

import pytest
from tests.unit.programs import GCC, ROOT, SANITIZED, SEED, complains, hangs, mutate, run_program

SEEDS = 1500

#: Mistakes in flash/ that some property must notice: what stands there, and what stands there instead.
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
        "if (!f->programs.count)\n\t\t\tflash_program(f);\n\t\treturn;",
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
    "garbage collection that takes no time": ("f->open_units * f->drain_unit_ns", "0"),
    "garbage collection that is idle in the past": (
        "max(f->drained_ns, start_ns) + f->open",
        "f->drained_ns + f->open",
    ),
    "no stalls": ("f->drained_ns += f->stall_ns;", ""),
    "a stall each time": ("f->stall_left = f->stall_programs;\n\t}", "f->stall_left = 1;\n\t}"),
    "a stall that is not dilated": ("f->stall_ns = k * p->stall_ns;", "f->stall_ns = p->stall_ns;"),
    "no rare writes": ("end += f->write_rare_ns;", ";"),
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
    "a cache that is never emptied": ("f->slc_used -= drained;", ";"),
    "an erase too few": ("!d->programs_left--", "!d->programs_left-- && f->statistics.programs & 1"),
    "a heap out of order": ("heap[child + 1].at_ns < heap[child].at_ns", "0"),
}
#: Mistakes after which a command waits for ever.
MISTAKES_THAT_HANG = ("room that is not given back", "nobody programs what waits")


def compile_properties(out: Path, *flags: str, first: Path = ROOT) -> Path:
    """Compile tests/unit/flash/properties.c; `first` is searched for flash/ before the checkout."""
    program = out / "properties"
    warnings = ["-Wno-unused-parameter", "-Wno-override-init"]
    includes = [f"-I{first}", f"-I{ROOT}", f"-I{ROOT / 'sim/include'}"]
    source = ROOT / "tests/unit/flash/properties.c"
    subprocess.run([*GCC, "-O1", *warnings, *flags, *includes, str(source), "-o", str(program)], check=True)
    return program


def test_promises_hold(tmp_path: Path) -> None:
    """Every command completes once, a die does one operation at a time, limits hold, equal input gives equal
    output.
    """
    said = run_program(compile_properties(tmp_path, *SANITIZED), SEED, SEEDS)
    assert not said, f"TAILGATE_SEED={SEED}: {said}"


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_noticed(mistake: str, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "flash", tmp_path / "flash")
    mutate(tmp_path / "flash", *MISTAKES[mistake])
    wrong = compile_properties(tmp_path, "-w", first=tmp_path)
    if mistake not in MISTAKES_THAT_HANG:
        assert complains(wrong, 1, 300)
        return
    (tmp_path / "right").mkdir()
    assert hangs(compile_properties(tmp_path / "right", "-w"), wrong, 1, 300)
