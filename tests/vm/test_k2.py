# SPDX-License-Identifier: GPL-2.0-only
"""The scheduler k2 on stock kernels: parts, each a shell script in guest/, in few virtual machines.

A boot costs as much as several parts, so the parts that are wanted of a machine run one after the other in
one boot; pytest-xdist's groups keep them together. A part's verdict comes out as it ends; what it needs and
tests stands in its script. TAILGATE_SEED replays what a failed run printed.
"""

import json
import os
import secrets
import subprocess
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tailgate import kernels, modules
from tailgate.vm import machine

GUEST = Path(__file__).parent / "guest"
SEED = int(os.environ.get("TAILGATE_SEED", secrets.randbelow(1 << 31)))
STOCK_MODULES = (
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
)
PROGRAMS = ("fio", "mke2fs", "mkfs.xfs", "mkfs.f2fs", "chrt", "blkdiscard")

#: The parts in the order in which they run.
FUNCTIONAL = (
    *("sysfs", "levels", "inherit", "order", "loads", "paths", "merges", "flush", "scsi", "passthrough"),
    *("bounds", "ahead", "flows", "debt", "target", "observe", "reserve", "starve"),
    *("split", "pieces", "auto", "discard", "gate"),
    *("neighbours", "unplug", "hotplug", "data vflash0", "data nullb0"),
)
#: Of these a kernel with PREEMPT_RT shows nothing that one without has not.
ORDINARY_ONLY = {"sysfs", "passthrough", "neighbours"}
#: By machine: each kernel, with one CPU, with four, and under PREEMPT_RT with two.
MACHINES: Mapping[str, tuple[str, ...]] = {
    "stable-smp4": FUNCTIONAL,
    "backports-smp1": FUNCTIONAL,
    **{f"{kernel}-smp2": tuple(p for p in FUNCTIONAL if p not in ORDINARY_ONLY) for kernel in kernels.RT},
    # in virtual time, which takes its time
    "backports-icount1": ("tags", "back"),
    "backports-icount2": ("back",),
    "backports-rt-icount1": ("tags",),
}
#: `make vm-test-all`: all parts on all kernels with any number of CPUs.
if "TAILGATE_ALL_MACHINES" in os.environ:
    MACHINES = {
        **{f"{kernel}-smp{cpus}": FUNCTIONAL for kernel in kernels.LABELS for cpus in (1, 2, 4)},
        **{f"{kernel}-icount1": ("tags", "back") for kernel in kernels.LABELS},
        **{f"{kernel}-icount2": ("back",) for kernel in kernels.LABELS},
    }

#: Real-time latency with few scheduler tags may be so much above that with many.
TAGS_TOLERANCE = 1.2


@dataclass(frozen=True)
class Part:
    """How a part ended: "ok", "skip", "fail"."""

    verdict: str
    said: str
    records: Mapping[str, bytes]


@dataclass
class Boot:
    """A machine with the parts that run on it."""

    name: str
    parts: list[str]
    results: dict[str, Future[Part]] = field(default_factory=dict)
    cpu_s: float = 0.0

    def run(self, programs: Path, out: Path) -> None:
        """Boot it. Each part's result is there as soon as it has ended."""
        label, _, kind = self.name.rpartition("-")
        kernel = kernels.resolve([label], print)[0]
        built = modules.build(kernel)
        records: dict[str, bytes] = {}

        def keep(name: str, content: bytes) -> None:
            if not name.startswith("part "):
                records[name] = content
                return
            verdict, said = content.decode(errors="replace").split("\n", 1)
            part = Part(verdict.split()[0], f"{verdict}\n{said}", dict(records))
            records.clear()
            self.results[name.removeprefix("part ")].set_result(part)

        try:
            outcome = machine.run(
                machine.Machine(
                    kernel,
                    mode="icount" if kind.startswith("icount") else "tcg",
                    smp=int(kind[-1]),
                    append="log_buf_len=4M",
                ),
                machine.Job(
                    "\n".join(
                        [f"SEED={SEED}", ". /root/k2/lib.sh", *(f"run_part {part}" for part in self.parts)]
                    ),
                    files={
                        f"root/k2/{file.name}": file for file in [*GUEST.glob("*.sh"), *programs.iterdir()]
                    },
                    modules=STOCK_MODULES,
                    module_files=[built / "k2.ko", built / "vflash.ko"],
                    programs=PROGRAMS,
                    limit_s=1200,
                    wall_s=1200,
                ),
                out,
                keep,
            )
            self.cpu_s = outcome.cpu_s
            ending = Part("fail", f"the machine ended before: {outcome.reason}\n{outcome.complaint}", {})
        except BaseException as e:  # whoever waits for a result must hear of it
            ending = Part("fail", f"the machine could not run: {e!r}", {})
        for result in self.results.values():
            if not result.done():
                result.set_result(ending)


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
def boots(
    request: pytest.FixtureRequest, programs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], Boot]]:
    """A machine by its name, with the selected parts; it starts when it is first asked for."""
    chosen: dict[str, Boot] = {}
    for item in request.session.items:
        if isinstance(item, pytest.Function) and item.originalname == "test_part":
            name, part = str(item.callspec.params["machine_name"]), str(item.callspec.params["part"])
            # else each worker boots the machine, and runs all of its parts, for those that it was given
            assert "PYTEST_XDIST_WORKER" not in os.environ or item.nodeid.endswith(f"@{name}")
            boot = chosen.setdefault(name, Boot(name, []))
            boot.parts.append(part)
            boot.results[part] = Future()
    out = tmp_path_factory.mktemp("boots")
    started: set[str] = set()
    with ThreadPoolExecutor(1) as pool:

        def start(name: str) -> Boot:
            if name not in started:
                started.add(name)
                pool.submit(chosen[name].run, programs, out / name)
            return chosen[name]

        try:
            yield start
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            machine.stop_all()


@pytest.mark.vm
@pytest.mark.parametrize(
    ("machine_name", "part"),
    [
        pytest.param(name, part, marks=pytest.mark.xdist_group(name))
        for name, parts in MACHINES.items()
        for part in parts
    ],
)
def test_part(boots: Callable[[str], Boot], machine_name: str, part: str) -> None:
    result = boots(machine_name).results[part].result()
    print(f"TAILGATE_SEED={SEED}\n{result.said}")
    if result.verdict == "skip":
        pytest.skip(result.said)
    assert result.verdict == "ok", f"{machine_name}, {part} (TAILGATE_SEED={SEED}):\n{result.said}"
    if part == "tags":
        check_tags(result.records)


def check_tags(records: Mapping[str, bytes]) -> None:
    """Real-time p99 with 64 and 8 scheduler tags is near that with 1023."""
    p99_us = {}
    for name, content in records.items():
        rt = next(job for job in json.loads(content)["jobs"] if job["jobname"] == "rt")
        bins = {int(ns): n for ns, n in rt["read"]["clat_ns"]["bins"].items()}
        p99_us[int(name.split(".")[1])] = percentile(bins, 0.99) / 1000
    print("nr_requests: real-time p99 in us:", p99_us)
    for tags in (64, 8):
        assert p99_us[tags] < p99_us[1023] * TAGS_TOLERANCE, p99_us


def percentile(bins: Mapping[int, int], share: float) -> int:
    """The value at this share of the samples, from the number of samples by value."""
    left = share * sum(bins.values())
    for value in sorted(bins):
        left -= bins[value]
        if left <= 0:
            return value
    raise ValueError("no samples")
