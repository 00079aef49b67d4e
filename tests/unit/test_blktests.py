# SPDX-License-Identifier: GPL-2.0-only
"""What blktests' files say, which differences count, how a run goes on after a guest died; no guest runs."""

import io
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tailgate.base.errors import UsageError
from tailgate.guest.kernels import Kernel
from tailgate.guest.machine import Job, Outcome
from tailgate.guest.qemu import VirtualMachine
from tailgate.main import main
from tailgate.upkeep.blktests import command, guests
from tailgate.upkeep.blktests.store import Store
from tailgate.upkeep.blktests.verdicts import (
    Complaint,
    Result,
    Verdict,
    compare,
    complaints,
    died,
    parse,
    unpack,
)

# --- parsing -----------------------------------------------------------------------------------------------

PASSED = b"status\tpass\ndescription\tsome test\nruntime\t0.073s\ndate\t2026-01-01 00:00:00\nexit_status\t0\n"
FAILED = PASSED.replace(b"pass", b"fail") + b"reason\toutput\n"
NOT_RUN = b"status\tnot run\ndescription\tsome test\ndate\t2026-01-01 00:00:00\n"
REPORT = """\
[  123.1] run blktests block/038 at 2026-11-22 21:47:18
[  123.694334] ------------[ cut here ]------------
[  123.695218] WARNING: CPU: 2 PID: 1559 at fs/proc/generic.c:397 proc_register+0x16e/0x200
[  123.696116] Modules linked in: null_blk k2(OE) [last unloaded: null_blk]
[  123.703110] Call Trace:
[  123.703111]  k2_init_hctx+0x1a/0x20 [k2]
"""


def files(**others: bytes) -> dict[str, bytes]:
    return {"seconds": b"7\n", "code": b"0\n", "output": b"", "dmesg": b"", **others}


def test_a_verdict_for_each_place() -> None:
    sent = files() | {
        "results/nodev_tr_loop/nvme/003": PASSED,
        "results/nodev_tr_tcp/nvme/003": FAILED,
        "results/nodev_tr_tcp/nvme/003.out.bad": b"status\tnonsense\n",
        "results/nodev_tr_loop/nvme/004": FAILED,
    }
    result = parse("nvme/003", sent)
    assert result.seconds == 7
    assert result.verdicts == {
        "nodev_tr_loop": Verdict("pass"),
        "nodev_tr_tcp": Verdict("fail", "output"),
    }
    assert result.failed


def test_exit_status_is_a_reason() -> None:
    failed = PASSED.replace(b"status\tpass", b"status\tfail\nreason\texit").replace(
        b"status\t0", b"status\t32"
    )
    assert (
        parse("a/001", files() | {"results/nodev/a/001": failed}).verdicts["nodev"].reason == "exit status 32"
    )


def test_what_is_left_out_has_its_reason() -> None:
    output = b"loop/010 (check)    [not run]\n    command parted is not available\n    kernel too old\n"
    result = parse("loop/010", files(output=output) | {"results/nodev/loop/010": NOT_RUN})
    assert result.verdicts == {
        "nodev": Verdict("not run", "command parted is not available kernel too old"),
    }
    assert not result.failed


def test_a_group_that_is_left_out_is_not_a_failure() -> None:
    output = b"zbd/***      [not run]\n    kernel option BLK_DEV_ZONED has not been enabled\n"
    assert not parse("zbd/001", files(output=output)).failed


def test_a_run_without_any_verdict_is_a_failure() -> None:
    result = parse("loop/001", files(output=b"./check: bash version is older than 4.3\n"))
    assert result.verdicts[""] == Verdict("fail", "./check: bash version is older than 4.3")


def test_a_test_for_drives_that_are_not_there_is_not_a_failure() -> None:
    """nvme/032 needs an NVMe drive; without one blktests prints nothing and reports success."""
    assert parse("nvme/032", files()).verdicts[""].status == "not run"
    assert parse("nvme/032", files(code=b"1\n")).failed


def test_a_timeout_fails_the_whole_test() -> None:
    sent = files(code=b"timeout\n", seconds=b"900\n") | {"results/nodev_tr_loop/nvme/002": PASSED}
    assert parse("nvme/002", sent).verdicts[""] == Verdict("timeout", "after 900 s")


def test_archives_are_unpacked() -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, content in {"./code": b"0\n", "./results/nodev/a/001": PASSED}.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
        folder = tarfile.TarInfo("./results")
        folder.type = tarfile.DIRTYPE
        tar.addfile(folder)
    assert unpack(out.getvalue()) == {"code": b"0\n", "results/nodev/a/001": PASSED}


def test_no_report_no_complaint() -> None:
    assert complaints("") == ()
    assert complaints("[    1.000000] null_blk: disk nullb1 created\nWARNING: a test's own line\n") == ()


def test_a_report_is_one_complaint() -> None:
    (complaint,) = complaints(REPORT)
    assert complaint.headline.startswith("WARNING: CPU: 2 PID: 1559 at fs/proc/generic.c:397")
    assert "k2_init_hctx" in complaint.text
    assert "run blktests" not in complaint.text


def test_equal_reports_are_counted() -> None:
    again = REPORT.replace("CPU: 2 PID: 1559", "CPU: 0 PID: 77").replace("0x16e", "0x16f")
    other = "[  200.000000] BUG kmalloc-64 (Tainted: G): Redzone overwritten\n"
    found = complaints(REPORT + again + other + REPORT)
    assert [complaint.count for complaint in found] == [3, 1]
    assert found[1].headline.startswith("BUG kmalloc-64")


def test_a_report_with_other_modules_in_it_is_another_one() -> None:
    hung = "[ 1.0] INFO: task fio:123 blocked for more than 120 seconds.\n[ 1.0]  io_schedule+0x46/0x70\n"
    ours = hung.replace("123", "124") + "[ 1.0]  k2_dispatch+0x12/0x340 [k2]\n"
    found = complaints(hung + ours + hung + ours)
    assert [(complaint.count, complaint.names("k2")) for complaint in found] == [(2, False), (2, True)]


def test_different_places_are_different_complaints() -> None:
    assert len(complaints(REPORT + REPORT.replace("proc_register", "proc_remove"))) == 2


def test_who_is_in_a_report() -> None:
    (complaint,) = complaints(REPORT)
    assert complaint.names("k2")
    assert not complaint.names("mq-deadline")
    linked_only = "\n".join(complaint.text.splitlines()[:2])
    assert not replace(complaint, text=linked_only).names("k2")


def test_a_dead_guest_says_why() -> None:
    result = died("block/040", 12.0, "died", "[   20.0] Oops: int3: 0000 [#1] SMP\n[   20.1] Call Trace:\n")
    assert result.verdicts[""] == Verdict("died", "Oops: int3: 0000 [#1] SMP")
    assert died("a/001", 1.0, "timeout", "").verdicts[""] == Verdict("timeout", "without a word")


# --- comparing ---------------------------------------------------------------------------------------------


def ran(*statuses: str, where: str = "nodev", reports: Sequence[Complaint] = ()) -> list[Result]:
    return [Result("block/001", 1.0, {where: Verdict(status)}, reports) for status in statuses]


def counted(ours: Sequence[Result], theirs: Sequence[Result]) -> list[bool]:
    return [difference.counts for difference in compare("block/001", ours, theirs, "k2")]


@pytest.mark.parametrize(
    ("ours", "theirs", "wanted"),
    [
        (["pass"], ["pass"], []),
        (["fail"], ["fail"], []),
        (["not run"], ["not run"], []),
        (["fail"], ["pass"], [True]),
        (["fail", "fail", "fail"], ["pass", "pass", "pass"], [True]),
        (["fail", "pass", "fail"], ["pass", "pass", "pass"], [True]),
        (["fail", "pass", "pass"], ["pass", "pass", "pass"], [False]),
        (["fail", "fail", "fail"], ["pass", "fail"], [False]),
        (["pass"], ["fail"], [False]),
        (["not run"], ["pass"], [False]),
        (["timeout"], ["pass"], [True]),
        (["died"], ["not run"], [True]),
        (["died"], ["fail"], [False]),
    ],
)
def test_what_counts(ours: list[str], theirs: list[str], wanted: list[bool]) -> None:
    assert counted(ran(*ours), ran(*theirs)) == wanted


def test_places_are_compared_one_by_one() -> None:
    ours = [Result("nvme/003", 1.0, {"tr_loop": Verdict("pass"), "tr_tcp": Verdict("fail", "output")})]
    theirs = [Result("nvme/003", 1.0, {"tr_loop": Verdict("pass"), "tr_tcp": Verdict("pass")})]
    (difference,) = compare("nvme/003", ours, theirs, "k2")
    assert (difference.where, difference.counts, difference.reasons) == ("tr_tcp", True, ["output"])


def test_a_dead_guest_is_compared_with_the_worst_of_all_places() -> None:
    ours = ran("died", where="")
    theirs = [Result("block/001", 1.0, {"sda": Verdict("pass"), "nodev": Verdict("fail")})]
    assert counted(ours, theirs) == [False]
    assert counted(ours, ran("pass")) == [True]


def test_a_report_with_the_scheduler_in_it_counts_whatever_the_verdicts() -> None:
    (report,) = complaints(REPORT)
    assert counted(ran("fail", reports=[report]), ran("fail")) == [True]
    assert counted(ran("pass", reports=[report]), ran("pass")) == [True]
    assert counted(ran("fail"), ran("fail", reports=[report])) == []


# --- results on disk ---------------------------------------------------------------------------------------


def test_results_come_back_in_their_order(tmp_path: Path) -> None:
    store = Store(tmp_path, tmp_path / "record.json")
    assert store.results("block/001") == []
    results = [*ran("pass"), Result("block/001", 2.5, {"": Verdict("died", "why")}, complaints(REPORT))]
    for result in results:
        store.add(result, {"results/nodev/block/001": PASSED})
    assert Store(tmp_path, tmp_path / "record.json").results("block/001") == results
    assert store.results("block/002") == []
    assert (tmp_path / "block-001.2/files/results/nodev/block/001").read_bytes() == PASSED


@pytest.mark.parametrize("text", [None, "", "{"])
def test_a_result_that_was_not_finished_is_none(tmp_path: Path, text: str | None) -> None:
    (tmp_path / "block-001.1/files").mkdir(parents=True)
    if text is not None:
        (tmp_path / "block-001.1/result.json").write_text(text)
    store = Store(tmp_path, tmp_path / "record.json")
    assert store.results("block/001") == []
    store.add(ran("pass")[0], {})
    assert len(store.results("block/001")) == 1


def test_another_machine_goes_on_from_the_record(tmp_path: Path) -> None:
    record = tmp_path / "claims" / "k2-1234.json"
    here, there = (Store(tmp_path / machine / "k2-1234", record) for machine in ("here", "there"))
    here.recall()
    results = [*ran("pass"), Result("block/001", 2.5, {"": Verdict("died", "why")}, complaints(REPORT))]
    here.add(results[0], {"dmesg": b"much"})
    there.recall()
    here.add(results[1], {})
    for _ in range(2):
        there.recall()
    assert there.results("block/001") == results
    there.add(Result("block/002", 1, {}), {})
    here.recall()
    assert here.results("block/002") == there.results("block/002") != []


@pytest.mark.parametrize("text", ["", "1", "[1]", '[{"test": "a"}]'])
def test_a_damaged_record_is_told(tmp_path: Path, text: str) -> None:
    record = tmp_path / "record.json"
    record.write_text(text)
    with pytest.raises(UsageError, match="is damaged"):
        Store(tmp_path / "k2-1234", record).recall()


# --- guests ------------------------------------------------------------------------------------------------

Says = tuple[str, bytes]


def archive(status: bytes, test: str) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, content in (files() | {f"results/nodev/{test}": status}).items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return out.getvalue()


def ended(test: str, status: bytes = PASSED) -> list[Says]:
    return [("begin", f"{test}\n".encode()), ("end", archive(status, test))]


class Guests:
    """Replaces machines: each sends what it is given, and ends with a reason."""

    def __init__(self, *lives: tuple[str, list[Says], str]) -> None:
        self.lives = iter(lives)
        self.asked: list[list[str]] = []

    def run(
        self, machine: VirtualMachine, job: Job, out: Path, on_record: Callable[[str, bytes], None]
    ) -> Outcome:
        tests = job.files["/root/tests"]
        assert isinstance(tests, bytes)
        self.asked.append(tests.decode().split())
        reason, says, console = next(self.lives)
        out.mkdir(parents=True, exist_ok=True)
        (out / "log").write_text(console)
        for name, content in says:
            on_record(name, content)
        assert reason in ("ok", "kernel died", "silent for too long", "stopped")
        return Outcome(0, reason, console, 1.0, 1.0, 1.0, {}, out / "log")  # type: ignore[arg-type]


@pytest.fixture
def guest(tmp_path: Path) -> guests.Guest:
    (tmp_path / "boot").mkdir()
    (tmp_path / "boot/config-1").write_text("CONFIG_NVME_TARGET_LOOP=m\n")
    kernel = Kernel("stable", "1", tmp_path, tmp_path, tmp_path, tmp_path)
    return guests.Guest(kernel, "k2", None, tmp_path, tmp_path, tmp_path, tmp_path)


TESTS = ["block/001", "block/002", "block/003"]


def judged(
    guest: guests.Guest, lives: Guests, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[str, str]]:
    monkeypatch.setattr("tailgate.guest.machine.run", lives.run)
    results: list[Result] = []

    def keep(result: Result, sent: Mapping[str, bytes]) -> None:
        results.append(result)

    guests.run(guest, TESTS, 60, tmp_path / "out", keep)
    for result in results:
        yield result.test, "+".join(verdict.status for verdict in result.verdicts.values())


def test_one_guest_runs_all(guest: guests.Guest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lives = Guests(("ok", [says for test in TESTS for says in ended(test)], ""))
    assert list(judged(guest, lives, tmp_path, monkeypatch)) == [(test, "pass") for test in TESTS]
    assert lives.asked == [TESTS]


@pytest.mark.parametrize(("reason", "verdict"), [("kernel died", "died"), ("silent for too long", "timeout")])
def test_a_lost_guest_costs_the_test_that_ran(
    reason: str, verdict: str, guest: guests.Guest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lives = Guests(
        (reason, [*ended(TESTS[0]), ("begin", b"block/002\n")], "[ 1.0] Oops\n"),
        ("ok", ended(TESTS[2]), ""),
    )
    got = list(judged(guest, lives, tmp_path, monkeypatch))
    assert got == [("block/001", "pass"), ("block/002", verdict), ("block/003", "pass")]
    assert lives.asked == [TESTS, TESTS[2:]]


def test_a_guest_that_leaves_after_a_failure_is_booted_again(
    guest: guests.Guest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lives = Guests(("ok", ended(TESTS[0], FAILED), ""), ("ok", [*ended(TESTS[1]), *ended(TESTS[2])], ""))
    got = list(judged(guest, lives, tmp_path, monkeypatch))
    assert [status for _, status in got] == ["fail", "pass", "pass"]
    assert lives.asked == [TESTS, TESTS[1:]]


def test_only_what_the_console_says_of_the_test_is_its_own(
    guest: guests.Guest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "tailgate.guest.machine.run",
        Guests(
            (
                "kernel died",
                [("begin", b"block/001\n")],
                "[ 1.0] WARNING: of another\n[ 2.0] run blktests block/001 at\n[ 3.0] BUG: ours\n",
            ),
        ).run,
    )
    results: list[Result] = []
    guests.run(guest, TESTS[:1], 60, tmp_path / "out", lambda result, sent: results.append(result))
    assert [complaint.headline for complaint in results[0].complaints] == ["BUG: ours"]


def test_a_guest_that_never_begins_is_an_error(
    guest: guests.Guest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match=r"first test \(no root\)"):
        list(judged(guest, Guests(("ok", [], "no root\n")), tmp_path, monkeypatch))


def test_a_stopped_guest_charges_no_test(
    guest: guests.Guest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(guests.StoppedError):
        list(judged(guest, Guests(("stopped", [("begin", b"block/001\n")], "")), tmp_path, monkeypatch))


def test_what_decides_verdicts_is_in_the_name(guest: guests.Guest, tmp_path: Path) -> None:
    monkey = [guest, replace(guest, scheduler="kyber"), replace(guest, mode="kvm")]
    for disk in (guest.root, guest.work):
        disk.touch()
    assert len({tuple(each.identity(60)) for each in monkey}) == 3
    assert guest.identity(60) != guest.identity(61)


# --- the command -------------------------------------------------------------------------------------------


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    names = ("check", "common/rc", "src/Makefile", "tests/block/rc", "tests/block/002", "tests/block/001")
    for name in (*names, "tests/block/001.out", "tests/loop/rc", "tests/loop/001"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


def test_groups_and_tests_are_selected(checkout: Path) -> None:
    assert command.select(checkout, ["loop", "block"]) == ["loop/001", "block/001", "block/002"]
    assert command.select(checkout, ["block/002", "block"]) == ["block/002", "block/001"]


@pytest.mark.parametrize("name", ["nvme", "block/003", "block/rc", "block/001.out", "../tests"])
def test_what_is_not_there_is_an_error(checkout: Path, name: str) -> None:
    with pytest.raises(UsageError, match="has no test or group"):
        command.select(checkout, [name])


def test_a_folder_that_is_no_checkout_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no checkout of blktests"):
        command.select(tmp_path, ["block"])


def test_schedulers_that_the_kernel_brings_along(tmp_path: Path) -> None:
    folder = tmp_path / "lib/modules/1"
    folder.mkdir(parents=True)
    (folder / "modules.dep").write_text(
        "kernel/drivers/block/null_blk.ko:\nkernel/block/kyber-iosched.ko.xz:\nkernel/block/bfq.ko:\n"
    )
    (folder / "modules.builtin").write_text("kernel/block/mq-deadline.ko\n")
    kernel = Kernel("stable", "1", tmp_path, tmp_path, tmp_path, tmp_path)
    names = ("mq-deadline", "kyber", "bfq", "null_blk", "none", "k")
    assert [name for name in names if command.is_stock(kernel, name)] == ["mq-deadline", "kyber", "bfq"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--kernel", "stable", "CHECKOUT", "nvme", "--scheduler", "kyber"], "has no test or group nvme"),
        (["CHECKOUT", "--scheduler", "mq-deadline"], "choose another"),
        (["CHECKOUT", "--limit", "long"], "--limit: expected a valid integer, got 'long'"),
        (
            ["CHECKOUT", "block", "--kernel", "newest"],
            "no guest kernel is called 'newest': use stable, backports",
        ),
    ],
)
def test_arguments_come_in_any_order_and_errors_in_one_line(
    checkout: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["blktests", *(word.replace("CHECKOUT", str(checkout)) for word in arguments)]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert message in line


def test_the_report_names_differences_and_complaints() -> None:
    ours, theirs = ran("fail", "fail", reports=complaints(REPORT)), ran("pass", "pass")
    differences = compare("block/001", ours, theirs, "k2")
    text = "\n".join(
        command.lines(command.KernelResults("stable", "k2", {"block/001": (ours, theirs)}, differences))
    )
    assert "differences that count: 1\n" in text
    assert "block/001 (nodev): k2 fail, fail; mq-deadline pass, pass" in text
    assert "    block/001: WARNING: CPU: 2 PID: 1559" in text
