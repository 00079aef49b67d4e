# SPDX-License-Identifier: GPL-2.0-only
"""Virtual machines: how jobs end, what comes out while they run, and that nothing stays behind."""

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tailgate.guest import kernels, kvm, labels, machine, qemu
from tailgate.guest.kernels import Kernel
from tailgate.guest.machine import Job, Outcome
from tailgate.guest.qemu import VirtualMachine

pytestmark = pytest.mark.vm

#: Far longer than anything here takes on a host that is busy.
PATIENCE_S = 300
FOREVER = "echo started > /tmp/r; emit started /tmp/r; while :; do :; done"


@pytest.fixture(scope="module", params=labels.LABELS)
def kernel(request: pytest.FixtureRequest) -> Kernel:
    return kernels.resolve([request.param], print)[0]


@pytest.fixture(scope="module")
def newest() -> Kernel:
    return kernels.resolve(["backports"], print)[0]


class Guest:
    """Runs jobs in a folder, and keeps what they send."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.records: dict[str, str] = {}

    def run(self, where: VirtualMachine, job: Job) -> Outcome:
        self.records = {}

        def keep(name: str, content: bytes) -> None:
            self.records[name] = content.decode()

        return machine.run(where, job, self.out, keep)


@pytest.fixture
def guest(tmp_path: Path) -> Iterator[Guest]:
    yield Guest(tmp_path / "out")
    assert not machines_of(tmp_path)


def machines_of(folder: Path) -> list[int]:
    """The QEMUs that work for this folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes()
        except OSError:
            continue
        if command.startswith(qemu.QEMU.encode()) and str(folder).encode() in command:
            found.append(int(process.name))
    return found


def wait_for(condition: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


SURROUNDINGS = """
echo to the log
for f in proc sys dev tmp dev/shm sys/kernel/debug sys/kernel/tracing cg; do
	mountpoint -q /$f 2> /dev/null || grep -q " /$f " /proc/mounts || fail "/$f is not mounted"
done
modprobe ext4 && modprobe mq-deadline && grep -q ext4 /proc/filesystems || fail "no ext4"
[ "$(cat /lab/data)" = content ] || fail "no data"
fio --version > /tmp/version && emit version /tmp/version
nproc > /tmp/n && emit "a name with blanks" /tmp/n
mark half
before=$(idle_sample); sleep 1; after=$(idle_sample)
echo "$before $after" > /tmp/idle && emit idle /tmp/idle
"""


@pytest.mark.parametrize("smp", [1, 2])
def test_job_finds_all_that_it_needs(guest: Guest, kernel: Kernel, smp: int) -> None:
    job = Job(SURROUNDINGS, files={"/lab/data": b"content\n"}, modules=["ext4", "mq-deadline"])
    outcome = guest.run(VirtualMachine(kernel, smp=smp), job)
    assert (outcome.code, outcome.reason, outcome.complaint) == (0, "ok", "")
    assert guest.records["version"].startswith("fio-")
    assert guest.records["a name with blanks"] == f"{smp}\n"
    now, idle, later, idle_later = map(int, guest.records["idle"].split())
    assert 1.0e9 < later - now < 1.1e9
    assert 0.9 * smp < (idle_later - idle) / 1e9 < 1.1 * smp
    assert list(outcome.marks) == ["begin", "half", "end"]
    assert outcome.marks["end"] == outcome.virtual_s >= outcome.marks["half"] + 1
    assert "to the log" in outcome.log.read_text().splitlines()
    assert "Linux version" in (guest.out / "dmesg").read_text()


def test_emulation_by_the_hosts_clock(guest: Guest, newest: Kernel) -> None:
    outcome = guest.run(VirtualMachine(newest, mode="tcg", smp=2), Job("nproc > /tmp/n; emit n /tmp/n"))
    assert outcome.reason == "ok", outcome.complaint
    assert guest.records == {"n": "2\n"}


@pytest.mark.parametrize(("script", "code"), [("exit 7", 7), ("fail went wrong", 1), ("false", 1)])
def test_exit_status(guest: Guest, newest: Kernel, script: str, code: int) -> None:
    outcome = guest.run(VirtualMachine(newest), Job(script))
    assert (outcome.code, outcome.reason) == (code, "job failed")
    assert ("went wrong" in outcome.complaint) == ("fail" in script)


def test_kernel_warning(guest: Guest, kernel: Kernel) -> None:
    """Also where a thread of its own prints what the kernel says, as under PREEMPT_RT."""
    outcome = guest.run(VirtualMachine(kernel), Job("echo '<4>WARNING: CPU: 0 at a test' > /dev/kmsg"))
    assert (outcome.code, outcome.reason) == (99, "kernel warning")
    assert "at a test" in outcome.complaint


def test_panic_keeps_what_was_sent(guest: Guest, kernel: Kernel) -> None:
    script = "echo 1 > /tmp/r; emit r /tmp/r; echo c > /proc/sysrq-trigger; sleep 100; emit never /tmp/r"
    outcome = guest.run(VirtualMachine(kernel), Job(script))
    assert (outcome.code, outcome.reason) == (125, "kernel died")
    assert "sysrq triggered crash" in outcome.complaint
    assert guest.records == {"r": "1\n"}


FREEZE = """
modprobe brd && modprobe ext4 && mke2fs /dev/ram0 > /dev/null && mkdir /tmp/m || fail setup
mount -t ext4 /dev/ram0 /tmp/m || fail mount
fsfreeze --freeze /tmp/m || fail "not frozen"
touch /tmp/m/file
"""


def test_hang_is_found_at_once(guest: Guest, newest: Kernel) -> None:
    """A task that waits for a frozen file system: a panic after half a minute, which costs nothing."""
    outcome = guest.run(VirtualMachine(newest), Job(FREEZE, modules=["brd", "ext4"]))
    assert (outcome.code, outcome.reason) == (125, "kernel died")
    assert "INFO: task touch" in outcome.complaint
    assert outcome.cpu_s < 30


def test_virtual_time_out(guest: Guest, newest: Kernel) -> None:
    outcome = guest.run(VirtualMachine(newest), Job("sleep 1000", limit_s=300))
    assert (outcome.code, outcome.reason) == (124, "virtual timeout")
    assert outcome.cpu_s < 30  # a tenth


@pytest.mark.parametrize("sent", [1, 3])
@pytest.mark.parametrize(("cpu", "times"), [(1.0, 1), (0.01, machine.IDLE)], ids=["spins", "has no CPU"])
def test_a_guest_may_not_be_silent(
    guest: Guest, newest: Kernel, monkeypatch: pytest.MonkeyPatch, sent: int, cpu: float, times: int
) -> None:
    """It may take longer than its limit, but not without a word; and longer if the host gives it no CPU."""
    limit_s = 1000
    clock = itertools.count()

    def wall_s(_: qemu.Process) -> float:
        """Nearly the limit passes with each record; all of it, and more, after the last."""
        late = next(clock) * times if len(guest.records) == sent else 0
        return 0.9 * limit_s * times * len(guest.records) + late

    monkeypatch.setattr(qemu.Process, "wall_s", property(wall_s))
    monkeypatch.setattr(qemu.Process, "cpu_s", property(lambda self: cpu * self.wall_s))
    script = "".join(f"echo {i} > /tmp/r; emit r{i} /tmp/r; " for i in range(1, sent)) + FOREVER
    outcome = guest.run(VirtualMachine(newest), Job(script, silent_s=limit_s))
    assert (outcome.code, outcome.reason) == (124, "silent for too long")
    assert outcome.wall_s > 0.9 * limit_s * times * sent
    assert len(guest.records) == sent
    assert guest.records["started"] == "started\n"


def test_records_come_while_the_guest_runs(tmp_path: Path, newest: Kernel) -> None:
    script = "seq 100000 > /tmp/big\n"
    script += "for i in 1 2 3; do echo $i > /tmp/r; emit r$i /tmp/r; emit big$i /tmp/big; done\n"
    got = []

    def take(name: str, content: bytes) -> None:
        got.append((name, len(content)))
        if name == "started":
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        machine.run(VirtualMachine(newest), Job(script + FOREVER), tmp_path, take)
    names = [f"{kind}{i}" for i in (1, 2, 3) for kind in ("r", "big")]
    assert [name for name, _ in got] == [*names, "started"]
    assert {size for name, size in got if name.startswith("big")} == {588895}
    assert not machines_of(tmp_path)


def test_side_by_side(tmp_path: Path, newest: Kernel) -> None:
    def work(number: int) -> tuple[str, dict[str, str]]:
        guest = Guest(tmp_path / str(number))
        script = f"sleep 1; echo {number} > /tmp/r; emit r /tmp/r"
        return guest.run(VirtualMachine(newest), Job(script)).reason, guest.records

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(work, (1, 2))) == [("ok", {"r": "1\n"}), ("ok", {"r": "2\n"})]


def test_stop_all(guest: Guest, newest: Kernel) -> None:
    timer = threading.Timer(2, machine.stop_all)
    timer.start()
    outcome = guest.run(VirtualMachine(newest), Job(FOREVER))
    assert (outcome.code, outcome.reason) == (130, "stopped")


PARENT = """
import signal
import sys
from pathlib import Path
from tailgate.guest import kernels, machine, qemu
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started the tests may ignore it
where = qemu.VirtualMachine(kernels.resolve(["backports"], lambda line: None)[0])
try:
    machine.run(where, machine.Job(sys.argv[2]), Path(sys.argv[1]), lambda *_: print("record", flush=True))
except KeyboardInterrupt:
    sys.exit(130)
"""


@pytest.mark.parametrize(
    ("number", "status"),
    [(signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM), (signal.SIGKILL, -signal.SIGKILL)],
)
def test_nothing_stays_behind(tmp_path: Path, number: signal.Signals, status: int) -> None:
    command = [sys.executable, "-c", PARENT, str(tmp_path), FOREVER]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "record\n"
        assert len(machines_of(tmp_path)) == 1
        os.killpg(parent.pid, number)
        try:
            assert parent.wait(PATIENCE_S) == status
        finally:
            parent.kill()
    wait_for(lambda: not machines_of(tmp_path))


FIO = """
modprobe null_blk queue_mode=2 irqmode=2 completion_nsec=100000 gb=1 bs=4096 submit_queues=1 hw_queue_depth=8
cd /tmp && fio --output-format=json+ --output=/tmp/fio.json \\
	--filename=/dev/nullb0 --direct=1 --rw=randread --bs=4k --number_ios=200 \\
	--name=rt --ioengine=psync --thinktime=1ms --thinktime_blocks=1 \\
	--name=background --ioengine=libaio --iodepth=32 --numjobs=2 || fail fio
emit fio.json /tmp/fio.json
idle_sample > /tmp/idle; emit idle /tmp/idle
"""


@pytest.mark.parametrize("label", ["backports", "backports-rt"])
def test_virtual_time_is_the_same_each_time(
    guest: Guest, label: str, same_twice: Callable[[Callable[[], str]], str]
) -> None:
    """Also where interrupts and timers are threads."""
    (kernel,) = kernels.resolve([label], print)

    def measure() -> str:
        outcome = guest.run(VirtualMachine(kernel), Job(FIO, modules=["null_blk"]))
        assert outcome.reason == "ok", outcome.complaint
        return guest.records["fio.json"]

    rt = json.loads(same_twice(measure))["jobs"][0]
    assert rt["read"]["total_ios"] == 200
    assert 100_000 < rt["read"]["clat_ns"]["min"] < 130_000


def test_snapshots_are_the_same_whenever_they_are_made(
    guest: Guest,
    newest: Kernel,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    same_twice: Callable[[Callable[[], str]], str],
) -> None:
    times = itertools.count()

    def measure() -> str:
        monkeypatch.setenv("TAILGATE_CACHE", str(tmp_path / f"cache{next(times)}"))
        assert guest.run(VirtualMachine(newest), Job(FIO, modules=["null_blk"])).reason == "ok"
        return guest.records["fio.json"] + guest.records["idle"]

    same_twice(measure)


def test_slices_bound_the_wait_for_a_busy_neighbour(guest: Guest, newest: Kernel) -> None:
    script = """
	taskset 2 sh -c 'while :; do :; done' &
	before=$(awk '$1 == "0:" { print $2 }' /proc/interrupts); sleep 0.1
	after=$(awk '$1 == "0:" { print $2 }' /proc/interrupts)
	echo $((after - before)) > /tmp/n; emit ticks /tmp/n"""
    outcome = guest.run(VirtualMachine(newest, smp=2, slice_us=50), Job(script))
    assert outcome.reason == "ok", outcome.complaint
    assert 1900 < int(guest.records["ticks"]) < 2200


def test_kvm_is_found_out_by_trying(tmp_path: Path, newest: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    works = kvm.works()
    monkeypatch.setattr(kvm, "boots", lambda: pytest.fail("tried again"))
    assert kvm.works() == works
    if works:
        assert (
            Guest(tmp_path).run(VirtualMachine(newest, mode="kvm"), Job("true", silent_s=60)).reason == "ok"
        )
