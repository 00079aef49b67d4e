# SPDX-License-Identifier: GPL-2.0-only
"""The schedulers on stock kernels: parts, each a shell script in guest/, in few virtual machines.

A part is about k2 unless its first word is another module.

A guest that has run a part already runs the next one faster, so the parts that are wanted of a machine run
one after the other in one boot, until one fails (parts.py); pytest-xdist's groups keep them together. A
part's verdict comes out as it ends; what it needs and tests stands in its script. TAILGATE_SEED replays what
a failed run printed.
"""

import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from tests.vm.again import AGAIN
from tests.vm.parts import VERDICTS, Ended, Result, run_parts

from tailgate.base.paths import ROOT
from tailgate.guest import kernels, labels, machine, modules, qemu

GUEST = Path(__file__).parent / "guest"
TEST_MODULES = Path(__file__).parent / "modules"
SEED = int(os.environ.get("TAILGATE_SEED", secrets.randbelow(1 << 31)))
STOCK_MODULES: tuple[str, ...] = (
    "null_blk",
    "scsi_debug",
    "sd_mod",
    "ext4",
    "xfs",
    "f2fs",
    "crc32c_generic",
    "mq-deadline",
    "kyber-iosched",
    "bfq",
    "loop",
)
#: By machine, what no other one needs, or has.
MORE_MODULES: Mapping[str, tuple[str, ...]] = {
    "backports-smp1": ("nvme-loop",),
    "stable-smp4": ("nvme-tcp", "nvmet-tcp"),
}
PROGRAMS = ("fio", "mke2fs", "mkfs.xfs", "mkfs.f2fs", "chrt", "blkdiscard")


def of(module: str, *parts: str) -> tuple[str, ...]:
    """These parts for another module than k2, as run_part of guest/lib.sh wants them."""
    return tuple(f"{module} {part}" for part in parts)


#: Parts that await conditions, and nothing else. They run by the host's clock, each virtual CPU in a thread
#: of its own: that finds what goes wrong only when CPUs work at once. The order is that in which they run.
CONDITIONS = (
    *("sysfs", "levels", "inherit", "order", "loads", "paths", "merges", "flush", "scsi", "split", "pieces"),
    *("iocost", "stack", "both", "neighbours", "polled", "unplug", "hotplug", "paged"),
    *("data vflash0", "data nullb0"),
)
#: Parts that judge times, rates, or what K2 has learned from them: they run in virtual time only, where the
#: host's speed changes nothing. Parts that patch the kernel's text (tracepoints) run there too, as emulation
#: in several threads may execute an instruction that is not there any more.
TIMES = (
    *("bounds", "ahead", "flows", "debt", "target", "found", "observe", "reserve", "starve", "returned"),
    *("auto", "discard", "passthrough"),
)
#: Modules that are examples.
EXAMPLES = ("fifo",)
EXAMPLE_CONDITIONS = tuple(part for name in EXAMPLES for part in of(name, "sysfs", "polled", "data vflash0"))
#: The same for mqfq and the examples: what their own code does with requests. Of what modules share
#: (kernel/elevator) k2's parts show most.
OTHER_CONDITIONS = (
    *of("mqfq", "sysfs", "order", "loads", "paths", "merges", "flush", "scsi", "unplug", "hotplug", "churn"),
    *of("mqfq", "polled", "data vflash0", "data nullb0"),
    *EXAMPLE_CONDITIONS,
)
OTHER_TIMES = of("mqfq", "bounds", "returned", "weights", "latecomer", "tags", "policies")
#: Parts that any module takes and that only `make vm-test-all` runs for mqfq.
MORE_OF_OTHERS = of("mqfq", "neighbours", "paged")
#: With failures that the kernel injects.
INJECTING = ("nomem", "failures", "mqfq nomem")
#: With inline encryption, which Debian's kernels are built without.
ENCRYPTING = ("encrypted", "mqfq encrypted")
#: On kernels that look for memory that is overwritten.
SLAB = ("resize", "mqfq resize")
ALL_CONDITIONS = (*CONDITIONS, *OTHER_CONDITIONS)
ALL_TIMES = (*TIMES, *OTHER_TIMES)
#: By machine: each kernel by the host's clock (smp) and in virtual time (icount), with the number of CPUs.
#: A part runs on one of them, and on several if the kernel's version, PREEMPT_RT or the number of CPUs is
#: known to matter to it. `data vflash0`, which does everything at random, and `resize` run on every kernel.
MACHINES: Mapping[str, tuple[str, ...]] = {
    "stable-smp4": (
        *("sysfs", "levels", "order", "loads", "merges", "flush", "split", "iocost", "stack", "neighbours"),
        *("hotplug", "paged", "commands", "data vflash0", "data nullb0"),
        *of("mqfq", "sysfs", "paths", "flush", "scsi", "churn", "polled", "data nullb0"),
        *EXAMPLE_CONDITIONS,
    ),
    "backports-smp1": (
        *("order", "inherit", "paths", "merges", "scsi", "split", "pieces", "stack", "both", "polled"),
        *("unplug", "multipath", "data vflash0"),
    ),
    "stable-rt-smp2": ("levels", "order", "unplug", "data vflash0"),
    "backports-rt-smp2": (
        *("levels", "order", "loads", "hotplug", "data vflash0"),
        *of("mqfq", "order", "loads", "merges", "unplug", "hotplug", "data vflash0"),
    ),
    "stable-icount2": (
        *("bounds", "debt", "observe", "reserve", "returned", "passthrough"),
        *of("mqfq", "returned", "policies"),
    ),
    "backports-icount1": (*ALL_TIMES, "tags", "back"),
    "backports-rt-icount2": ("bounds", "starve", "returned", *of("mqfq", "returned", "latecomer")),
    "stable-slab2": SLAB,
    "stable-rt-slab2": ("resize",),
    "backports-slab2": ("resize",),
    "backports-rt-slab2": ("resize",),
}
#: What a kind of machine adds to the kernel's command line.
APPEND = {"slab": "slub_debug=FZP"}
#: `make vm-test-all`: all parts on all kernels with any number of CPUs.
if "TAILGATE_ALL_MACHINES" in os.environ:
    ALL_CONDITIONS = (*CONDITIONS, *OTHER_CONDITIONS, *MORE_OF_OTHERS)
    MACHINES = {
        **{f"{kernel}-smp{cpus}": ALL_CONDITIONS for kernel in labels.LABELS for cpus in (1, 2, 4)},
        **{f"{kernel}-icount1": (*ALL_TIMES, "tags", "back") for kernel in labels.LABELS},
        **{f"{kernel}-icount2": (*ALL_TIMES, "back") for kernel in labels.LABELS},
        **{f"{kernel}-icount4": ALL_TIMES for kernel in labels.LABELS},
        **{f"{kernel}-slab2": SLAB for kernel in labels.LABELS},
    }

#: How long a guest may be silent, in seconds of the host's CPUs: several times what the longest part takes.
SILENT_S = 1200
#: How long a condition may be awaited: in a guest's own time, and by the clock of a host that is busy.
PATIENCE_S: Mapping[qemu.Mode, int] = {
    "icount": 60,
    "tcg": int(os.environ.get("TAILGATE_PATIENCE_S", 300)),
}
MEMORY_MIB = 1024
OPTIONS = "log_buf_len=4M"
#: `make vm-test-debug`: all parts on kernels that look for faults, with parts for what these can do besides.
if "TAILGATE_DEBUG_KERNELS" in os.environ:
    # SCSI disks first: once a file max_sectors_kb was written, lockdep reports the locks of 6.12 itself when
    # a SCSI disk is found and gets a scheduler, mq-deadline too.
    ALL_CONDITIONS = tuple(sorted(ALL_CONDITIONS, key=lambda part: not part.endswith("scsi")))
    MACHINES = {
        **{
            f"{kernel}-smp2": (
                *ALL_CONDITIONS,
                *((*INJECTING, *ENCRYPTING) if kernel.endswith("kasan") else ()),
            )
            for kernel in labels.DEBUG
        },
        **{f"{kernel}-icount2": ALL_TIMES for kernel in labels.DEBUG},
        **{f"{kernel}-icount1": ("tags",) for kernel in labels.DEBUG},
        **{f"{kernel}-slab2": SLAB for kernel in labels.DEBUG},
    }
    # Not built; only parts with another number of CPUs have them.
    STOCK_MODULES = tuple(name for name in STOCK_MODULES if name not in ("xfs", "f2fs"))
    # An instrumented kernel is about five times as slow, also in virtual time, and needs memory for its own
    # accounts.
    SILENT_S *= 6
    PATIENCE_S = {mode: 6 * seconds for mode, seconds in PATIENCE_S.items()}
    MEMORY_MIB = 2048
    # KASAN reports more than the first fault.
    OPTIONS += f" kasan_multi_shot {qemu.BY_THE_HOSTS_CLOCK}"
    # Of which slabs allocations may fail: 6.1 takes that from its command line only.
    APPEND = {**APPEND, "stable-kasan-smp": "slub_debug=A,bio-*"}


class ComplaintError(Exception):
    """The kernel complained during a part: its guest is of no use for the next."""


def own_modules(kernel: kernels.Kernel) -> list[Path]:
    """Modules of tests/vm/modules for a kernel, built with kernel/Makefile."""
    folder = ROOT / "build" / f"{kernel.release}-tests"
    sources = folder / "checkout" / "kernel"
    (sources / "compat").mkdir(parents=True, exist_ok=True)
    for file in (ROOT / "kernel/Makefile", *TEST_MODULES.iterdir()):
        copy_if_changed(file, sources / file.name)
    for file in (ROOT / "kernel/compat").iterdir():
        copy_if_changed(file, sources / "compat" / file.name)
    return sorted(modules.build(kernel, out=folder / "built", checkout=folder / "checkout").glob("*.ko"))


def copy_if_changed(source: Path, to: Path) -> None:
    """Copy a file, so that what is made from it is made again only when it has changed."""
    if not to.exists() or to.read_bytes() != source.read_bytes():
        shutil.copy(source, to)


def boot(name: str, programs: Path, out: Path, parts: Sequence[str], ended: Ended) -> str:
    """Boot a machine for these parts, as run_parts() wants it."""
    label, _, kind = name.rpartition("-")
    mode: qemu.Mode = "icount" if kind.startswith("icount") else "tcg"
    kernel = kernels.resolve([label], print)[0]
    built = modules.build(kernel)

    def take(record: str, content: bytes) -> None:
        said, _, log = content.decode(errors="replace").partition("--- kernel log\n")
        verdict = VERDICTS[said.split()[0]]
        complaint = machine.kernel_complaint(log)
        ended(record.removeprefix("part "), Result("fail" if complaint else verdict, said + complaint))
        if complaint:
            raise ComplaintError

    settings = f"SEED={SEED} PATIENCE_S={PATIENCE_S[mode]}"
    where = qemu.VirtualMachine(
        kernel,
        mode=mode,
        smp=int(kind[-1]),
        memory_mib=MEMORY_MIB,
        append=" ".join([OPTIONS, *(APPEND.get(key, "") for key in (kind[:-1], name[:-1]))]),
    )
    job = machine.Job(
        "\n".join([settings, ". /root/k2/lib.sh", *(f"run_part {part}" for part in parts)]),
        files={f"root/k2/{file.name}": file for file in [*GUEST.glob("*.sh"), *programs.iterdir()]},
        modules=(*STOCK_MODULES, *MORE_MODULES.get(name, ())),
        module_files=[*sorted(built.glob("*.ko")), *own_modules(kernel)],
        programs=PROGRAMS,
        limit_s=3600 * len(parts),
        silent_s=SILENT_S,
    )
    try:
        outcome = machine.run(where, job, out, take)
    except ComplaintError:
        return ""
    if outcome.reason == "stopped":
        raise RuntimeError("stopped")
    return "" if outcome.reason == "ok" else f"{outcome.reason}\n{outcome.complaint}"


class Machines:
    """The machines of this session; each runs its parts when one of them is first asked for."""

    def __init__(self, parts: Mapping[str, Sequence[str]], programs: Path, out: Path) -> None:
        self._parts = parts
        self._programs = programs
        self._out = out
        self._boots = 0
        self._results: dict[str, dict[str, Future[Result]]] = {}
        self._pool = ThreadPoolExecutor(1)

    def result(self, name: str, part: str) -> Result:
        """Of this part, in turn with the others of its machine."""
        if name not in self._results:
            self._results[name] = {part: Future() for part in self._parts[name]}
            self._pool.submit(self._run, name)
        return self._results[name][part].result()

    def alone(self, name: str, part: str) -> Result:
        """Of this part, in a boot of its own."""
        results: list[Result] = []
        run_parts([part], partial(self._boot, name), lambda _, result: results.append(result))
        return results[0]

    def stop(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        machine.stop_all()

    def _boot(self, name: str, parts: Sequence[str], ended: Ended) -> str:
        self._boots += 1
        return boot(name, self._programs, self._out / f"{self._boots}-{name}", parts, ended)

    def _run(self, name: str) -> None:
        results = self._results[name]
        try:
            run_parts(self._parts[name], partial(self._boot, name), lambda p, r: results[p].set_result(r))
        except BaseException as e:  # a test that waits for a result must hear of it
            for result in results.values():
                if not result.done():
                    result.set_exception(e)


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The guest's own programs, static."""
    out = tmp_path_factory.mktemp("programs")
    for source in GUEST.glob("*.c"):
        command = [
            "gcc",
            "-O2",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-static",
            "-pthread",
            "-o",
            str(out / source.stem),
        ]
        subprocess.run([*command, str(source)], check=True)
    return out


@pytest.fixture(scope="session")
def machines(
    request: pytest.FixtureRequest, programs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Machines]:
    """All machines, with the selected parts."""
    chosen: dict[str, list[str]] = {}
    for item in request.session.items:
        if isinstance(item, pytest.Function) and item.originalname == "test_part":
            name, part = str(item.callspec.params["machine_name"]), str(item.callspec.params["part"])
            # else each worker boots the machine, and runs all of its parts, for those that it was given
            assert "PYTEST_XDIST_WORKER" not in os.environ or item.nodeid.endswith(f"@{name}")
            chosen.setdefault(name, []).append(part)
    all_of_them = Machines(chosen, programs, tmp_path_factory.mktemp("boots"))
    try:
        yield all_of_them
    finally:
        all_of_them.stop()


@pytest.mark.vm
@pytest.mark.parametrize(
    ("machine_name", "part"),
    [
        pytest.param(name, part, marks=pytest.mark.xdist_group(name))
        for name, parts in MACHINES.items()
        for part in parts
    ],
)
def test_part(request: pytest.FixtureRequest, machines: Machines, machine_name: str, part: str) -> None:
    run = machines.alone if request.node.stash.get(AGAIN, False) else machines.result
    result = run(machine_name, part)
    print(f"TAILGATE_SEED={SEED}\n{result.said}")
    if result.verdict == "skip":
        pytest.skip(result.said)
    assert result.verdict == "ok", f"{machine_name}, {part} (TAILGATE_SEED={SEED}):\n{result.said}"


@pytest.mark.vm
def test_a_guest_that_fails_takes_no_other_part_down(programs: Path, tmp_path: Path) -> None:
    """The parts behind one that fails, complains, hangs or kills its guest run in a new guest."""
    boots: list[Sequence[str]] = []

    def boot_next(parts: Sequence[str], ended: Ended) -> str:
        boots.append(parts)
        return boot("backports-icount1", programs, tmp_path / str(len(boots)), parts, ended)

    ways = ("succeed", "fail", "complain", "hang", "crash", "succeed too")
    results: dict[str, Result] = {}
    run_parts([f"harness {way}" for way in ways], boot_next, results.__setitem__)
    verdicts = [result.verdict for result in results.values()]
    assert verdicts == ["ok", "fail", "fail", "fail", "fail", "ok"], results
    assert [len(parts) for parts in boots] == [6, 4, 3, 2, 1]
    words = ("on purpose", "WARNING: CPU: 0 on purpose", "a condition that never holds", "kernel died")
    for way, word in zip(ways[1:5], words, strict=True):
        assert word in results[f"harness {way}"].said
