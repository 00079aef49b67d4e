# SPDX-License-Identifier: GPL-2.0-only
"""What the host makes of what a guest says; no guest runs."""

import itertools
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailgate.base.errors import UsageError
from tailgate.guest import qemu, snapshot
from tailgate.guest.channel import End, Mark, Message, Reader, Record, TimeOut
from tailgate.guest.machine import Story, kernel_complaint

SENT = b"M 1.50 begin\nR 7 a name\nab\ncde\nR 0 empty\nD 3 dmesg\nxyzM 2.00 end\nE 3\n"
MESSAGES: list[Message] = [
    Mark("begin", 1.5),
    Record("a name", b"ab\ncde\n"),
    Record("empty", b""),
    Record("dmesg", b"xyz", ours=True),
    Mark("end", 2.0),
    End(3),
]


@given(cuts=st.lists(st.integers(0, len(SENT))))
def test_messages_arrive_however_the_bytes_come(cuts: list[int]) -> None:
    ends = [0, *sorted(cuts), len(SENT)]
    reader = Reader()
    got = [m for a, b in itertools.pairwise(ends) for m in reader.feed(SENT[a:b])]
    assert got == MESSAGES


def test_torn_record_is_not_delivered() -> None:
    assert Reader().feed(b"R 3 whole\nabcR 9 torn\nabc") == [Record("whole", b"abc")]


def test_record_is_delivered_with_its_last_byte() -> None:
    reader = Reader()
    assert reader.feed(b"R 3 name\nab") == []
    assert reader.feed(b"c") == [Record("name", b"abc")]


def test_strange_bytes_are_refused() -> None:
    with pytest.raises(ValueError, match="not a message"):
        Reader().feed(b"hello\n")


WARNING = """\
[    0.526746] acpi PNP0A03:00: fail to add MMCONFIG information
WARNING: this is the job's own line
[   21.000000] ------------[ cut here ]------------
[   21.000001] WARNING: CPU: 0 PID: 1 at block/blk-mq.c:1 f+0x1/0x2
[   21.000002] Call Trace:
"""


def test_only_the_kernels_lines_are_complaints() -> None:
    assert kernel_complaint(WARNING).startswith("[   21.000001] WARNING: CPU: 0")
    assert kernel_complaint("WARNING: from fio\nBUG: from a script\n") == ""


@pytest.mark.parametrize(
    "line",
    [
        "INFO: task fio:123 blocked for more than 30 seconds.",
        "watchdog: BUG: soft lockup - CPU#0 stuck for 4s!",
        "Kernel panic - not syncing: sysrq triggered crash",
        "UBSAN: array-index-out-of-bounds in block/k2.c:1:2",
        "BUG: sleeping function called from invalid context at x.c:1",
        "BUG: scheduling while atomic: fio/123/0x00000002",
        "[ BUG: Invalid wait context ]",
        "Oops: 0000 [#1] PREEMPT SMP NOPTI",
        "list_add corruption. next->prev should be prev",
        "refcount_t: underflow; use-after-free.",
        "BUG: KASAN: slab-use-after-free in k2_show_statistics+0x1/0x2 [k2]",
        "BUG kmalloc-64 (Tainted: G           O      ): Right Redzone overwritten",
        "WARNING: possible circular locking dependency detected",
        "WARNING: possible irq lock inversion dependency detected",
        "WARNING: inconsistent lock state",
        "WARNING: suspicious RCU usage",
        "INFO: trying to register non-static key.",
        "turning off the locking correctness validator.",
        "BUG: MAX_LOCKDEP_CHAINS too low!",
        "ODEBUG: free active (active state 0) object: 00000000aaaaaaaa object type: hrtimer hint: k2_timer",
    ],
)
def test_complaints(line: str) -> None:
    assert kernel_complaint(f"[   12.345678] {line}\n")


RACE = """\
[   50.1] ==================================================================
[   50.1] BUG: KCSAN: data-race in {title}
[   50.1]
[   50.1] write to 0xffff888003a4d0a8 of 4 bytes by interrupt on cpu 0:
{first}
[   50.1]
[   50.1] read (marked) to 0xffff888003a4d0a8 of 4 bytes by task 91 on cpu 1:
{second}
[   50.1]
[   50.1] value changed: 0x00000001 -> 0x00000002
[   50.1]
[   50.1] Reported by Kernel Concurrency Sanitizer on:
[   50.1] CPU: 1 UID: 0 PID: 91 Comm: fio Tainted: G           O       6.12.95-kcsan #1
[   50.1] ==================================================================
"""


def race(first: list[str], second: list[str]) -> str:
    """A report of KCSAN, from the functions of both stacks."""

    def frames(functions: list[str]) -> str:
        named = (
            f"[   50.1]  {name.partition(' ')[0]}+0x57/0xb0 {name.partition(' ')[2]}" for name in functions
        )
        return "\n".join(line.rstrip() for line in named)

    return RACE.format(title=f"{first[0]} / {second[0]}", first=frames(first), second=frames(second))


THEIRS = race(["jiffies_update", "tick_timer", "asm_interrupt", "k2_insert [k2]"], ["ep_poll", "do_epoll"])


@pytest.mark.parametrize(
    "ours",
    [
        race(["k2_insert [k2]", "blk_mq_insert"], ["ep_poll", "do_epoll"]),
        race(["ep_poll", "do_epoll"], ["list_del", "vf_done [vflash]", "hrtimer"]),
    ],
)
def test_races_in_our_modules_count(ours: str) -> None:
    found = kernel_complaint(THEIRS + ours + THEIRS)
    assert found.splitlines()[0] == ours.splitlines()[1]


@pytest.mark.parametrize(
    "first", [["wq_worker_running", "vf_wait_until_idle [vflash]"], ["blk_mq_run_hw_queue", "k2_run [k2]"]]
)
def test_what_the_kernel_does_below_our_functions_does_not_count(first: list[str]) -> None:
    assert kernel_complaint(race(first, ["insert_work", "queue_work"])) == ""


def test_races_of_the_kernel_alone_do_not_count() -> None:
    assert kernel_complaint(THEIRS) == ""
    after = kernel_complaint(THEIRS + "[   51.0] BUG: KASAN: wild-memory-access in f\n" + THEIRS)
    assert after.startswith("[   51.0] BUG: KASAN")


def test_harmless_lines() -> None:
    for line in ("k2: loading out-of-tree module taints kernel.", "I/O error, dev nullb0, sector 0 op 0x0"):
        assert not kernel_complaint(f"[   12.345678] {line}\n")


@pytest.mark.parametrize(
    ("said", "log", "code", "reason"),
    [
        ([End(0)], "", 0, "ok"),
        ([End(7)], "", 7, "job failed"),
        ([End(0)], WARNING, 99, "kernel warning"),
        ([End(7)], WARNING, 7, "job failed"),
        ([TimeOut()], "", 124, "virtual timeout"),
        ([Mark("begin", 1.0)], "", 125, "kernel died"),
    ],
)
def test_reasons(tmp_path: Path, said: list[Message], log: str, code: int, reason: str) -> None:
    story = Story()
    for message in said:
        story.add(message)
    (tmp_path / "log").write_text(log)
    outcome = story.outcome(tmp_path / "log")
    assert (outcome.code, outcome.reason) == (code, reason)


def test_what_the_console_has_not_shown_yet_counts(tmp_path: Path) -> None:
    story = Story()
    story.add(End(0))
    (tmp_path / "log").touch()
    (tmp_path / "dmesg").write_text(WARNING)
    outcome = story.outcome(tmp_path / "log")
    assert outcome.reason == "kernel warning"
    assert outcome.complaint.startswith("[   21.000001] WARNING: CPU: 0")


def test_too_large_a_job_is_the_users_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="reach the guest"):
        snapshot.write_window(tmp_path / "window", 1, 0, bytes(snapshot.WINDOW_MIB << 20))
    assert not (tmp_path / "window").exists()


def test_snapshots_time_is_rounded() -> None:
    """However often QEMU's main loop skipped idle time while the snapshot was made, the time is the same."""

    def state(skipped_ns: int) -> bytes:
        section = b"\x05\x0ctimer/icount\0\0\0\x01" + skipped_ns.to_bytes(8, "big") + (7).to_bytes(8, "big")
        return b"before" + section + b"after"

    for skipped_ns in (19_998_550_369, 20_001_242_241, 20_003_934_113):
        assert snapshot._round_time(state(skipped_ns)) == state(20_050_000_000)
    assert snapshot._round_time(b"no such section") == b"no such section"


def test_a_qemu_that_has_ended_is_ended_again(tmp_path: Path) -> None:
    """Its exit is not reaped before we look, so the kernel's error is not ours."""
    with qemu.Process(["true"], tmp_path / "errors", qemu.Process.stops) as process:
        os.waitid(os.P_PID, process._process.pid, os.WEXITED | os.WNOWAIT)
    assert process._process.returncode == 0
