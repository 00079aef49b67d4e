# SPDX-License-Identifier: GPL-2.0-only
"""The findings of `tailgate doctor` about this host.

There are two groups: `vm`, needs of the virtual machines, and `host`, whether this host's own kernel and
drives could be a target. Nothing is changed or loaded, and no drive is opened.
"""

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tailgate.base.errors import UsageError
from tailgate.base.paths import cache_dir
from tailgate.guest import kvm
from tailgate.guest.kernels import Kernel, cached_kernels
from tailgate.guest.labels import LABELS
from tailgate.guest.modules import kernel_compiler
from tailgate.guest.qemu import MAJOR_MIN, QEMU, major

CACHE_MIB_MIN = 2048  # four unpacked kernels, and the packages of one while they are unpacked

Status = Literal["ok", "warn", "missing"]
Group = Literal["vm", "host"]


@dataclass(frozen=True)
class Finding:
    """One line: what was checked, the result, and a remedy if the result is bad."""

    group: Group
    topic: str
    status: Status
    text: str
    fix: str = ""


@dataclass(frozen=True)
class BlockDevice:
    """A block device with a request queue, as sysfs shows it. `size_gb` in 10^9 bytes."""

    name: str
    model: str
    size_gb: float
    rotational: bool
    scheduler: str
    schedulers: tuple[str, ...]
    hw_queues: int
    nr_requests: int


# --- virtual machines -------------------------------------------------------------------------------------


def virtual_machines() -> Iterator[Finding]:
    """The needs of booting a guest and of building its modules."""
    yield qemu(_version([QEMU, "--version"]))
    yield kvm_finding()
    for topic, command, package in (
        ("fio", ["fio", "--version"], "fio"),
        ("busybox", ["busybox"], "busybox-static"),
        ("make", ["make", "--version"], "make"),
    ):
        yield program(topic, _version(command), package)
    kernels = cached_kernels()
    for label in LABELS:
        yield guest(label, kernels.get(label))
    for compiler in sorted({kernel_compiler(k) for k in kernels.values()} or {"gcc"}):
        yield program("compiler", _version([compiler, "--version"]), compiler)
    yield cache_space(cache_dir(), lambda at: shutil.disk_usage(at).free)
    cpus = len(os.sched_getaffinity(0))
    yield Finding("vm", "processors", "ok", f"{cpus}; a machine in virtual time keeps one busy")


def _version(command: list[str]) -> str | None:
    """The first line that a program prints about itself; None if it does not run."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return next(iter((done.stdout or done.stderr).splitlines()), "") if done.returncode == 0 else None


def qemu(version: str | None) -> Finding:
    """QEMU, judged by what `--version` printed."""
    fix = "make setup-demo"
    if version is None:
        return Finding("vm", "QEMU", "missing", "qemu-system-x86_64 is not there", fix)
    if major(version) < MAJOR_MIN:
        return Finding("vm", "QEMU", "missing", f"{version}: {MAJOR_MIN} or later is needed", fix)
    return Finding("vm", "QEMU", "ok", re.sub(r".*?version ([\d.]+).*", r"\1", version))


def kvm_finding() -> Finding:
    """Whether KVM works, tested by booting under it each time; the existence of /dev/kvm proves nothing."""
    try:
        works = kvm.works(again=True)
    except UsageError as e:
        return Finding("vm", "KVM", "warn", f"not tried: {e}", "guests run in virtual time instead")
    if works:
        return Finding(
            "vm",
            "KVM",
            "ok",
            "a guest boots under it: runs are fast, and differ; with TAILGATE_KVM=0 they do not",
        )
    return Finding(
        "vm", "KVM", "ok", "does not work here; guests run in virtual time, with the same figures each time"
    )


def program(topic: str, version: str | None, package: str) -> Finding:
    """A program that PATH must have, judged by its output."""
    if version is None:
        return Finding("vm", topic, "missing", f"no {topic} that runs", f"apt-get install {package}")
    return Finding("vm", topic, "ok", version)


def guest(label: str, kernel: Kernel | None) -> Finding:
    """A guest kernel of the cache."""
    topic = f"guest {label}"
    if kernel is None:
        fix = f".venv/bin/python -m tailgate.guest.kernels {label}"
        return Finding("vm", topic, "warn", "not in the cache; fetched when first needed", fix)
    return Finding("vm", topic, "ok", kernel.release)


def cache_space(cache: Path, free: Callable[[Path], int]) -> Finding:
    """Free space where the cache is or will be."""
    at = next(p for p in (cache, *cache.parents) if p.exists())
    mib = free(at) // 2**20
    if mib < CACHE_MIB_MIN:
        text = f"{cache}: {mib} MiB free, {CACHE_MIB_MIN} are needed for the guests' kernels"
        return Finding("vm", "cache", "warn", text, "set TAILGATE_CACHE to a folder with more room")
    return Finding("vm", "cache", "ok", f"{cache}: {mib / 1024:.0f} GiB free")


# --- this machine as a target -----------------------------------------------------------------------------


def this_kernel(root: Path, release: str | None = None) -> Iterator[Finding]:
    """Whether modules can be built for the running kernel and loaded. `root` differs from / in tests only."""
    release = release or platform.release()
    yield Finding("host", "kernel", "ok", release)
    if not (root / "proc/modules").exists():
        yield Finding(
            "host", "modules", "missing", "this kernel loads no modules", "boot a distribution's kernel"
        )
        return
    headers = root / "lib/modules" / release / "build"
    if (headers / "Makefile").exists():
        yield Finding("host", "headers", "ok", str(headers))
    else:
        fix = f"apt-get install linux-headers-{release}"
        yield Finding("host", "headers", "missing", f"{headers} is not there", fix)
    if (root / "sys/kernel/btf/vmlinux").exists():
        yield Finding("host", "type info", "ok", "/sys/kernel/btf/vmlinux")
    else:
        text = "no /sys/kernel/btf/vmlinux, by which the build checks the kernel's private structures"
        yield Finding("host", "type info", "missing", text, "boot a kernel with CONFIG_DEBUG_INFO_BTF")
    yield loading(root)


def loading(root: Path) -> Finding:
    """Whether the running kernel takes a module without a signature."""
    sign = "sign the modules with a key that the firmware knows (mokutil), or turn Secure Boot off"
    lockdown = re.search(r"\[(\w+)\]", _read(root / "sys/kernel/security/lockdown"))
    secure = secure_boot(root)
    if _read(root / "proc/sys/kernel/modules_disabled") == "1":
        return Finding("host", "loading", "missing", "kernel.modules_disabled is set", "boot again")
    if _read(root / "sys/module/module/parameters/sig_enforce") == "Y":
        return Finding("host", "loading", "missing", "only signed modules are taken", sign)
    if lockdown and lockdown[1] != "none":
        text = f"the kernel is locked down ({lockdown[1]}): only signed modules are taken"
        return Finding("host", "loading", "missing", text, sign)
    state = {True: "on", False: "off", None: "not there"}[secure]
    if os.geteuid() != 0:
        return Finding("host", "loading", "warn", f"needs root (Secure Boot is {state})", "run as root")
    return Finding("host", "loading", "ok", f"unsigned modules load, with a taint (Secure Boot is {state})")


def secure_boot(root: Path) -> bool | None:
    """Secure Boot's state by the firmware's variable; None without EFI."""
    for variable in (root / "sys/firmware/efi/efivars").glob("SecureBoot-*"):
        try:
            return variable.read_bytes()[4:5] == b"\1"  # the value follows four bytes of attributes
        except OSError:
            return None
    return None


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def drives(root: Path) -> Iterator[BlockDevice]:
    """Block devices with hardware queues; loop, zram and similar devices are left out."""
    for block in sorted((root / "sys/block").glob("*")):
        if "virtual" in block.resolve().parts and not block.name.startswith("nullb"):
            continue
        queue = block / "queue"
        offered = _read(queue / "scheduler").split()
        if not offered:
            continue
        active = next((s for s in offered if s.startswith("[")), "none")
        yield BlockDevice(
            name=block.name,
            model=_read(block / "device/model"),
            size_gb=round(int(_read(block / "size") or 0) * 512 / 1e9, 1),
            rotational=_read(queue / "rotational") == "1",
            scheduler=active.strip("[]"),
            schedulers=tuple(s.strip("[]") for s in offered),
            hw_queues=len(list((block / "mq").glob("*"))),
            nr_requests=int(_read(queue / "nr_requests") or 0),
        )


def drive_findings(root: Path) -> Iterator[Finding]:
    """The drives, and the rules that set their scheduler at boot."""
    any_drive = False
    for d in drives(root):
        any_drive = True
        text = (
            f"{d.size_gb:g} GB {'rotating' if d.rotational else 'flash'}{f', {d.model}' if d.model else ''}: "
            f"scheduler {d.scheduler} of {' '.join(d.schedulers)}; {d.hw_queues} hardware "
            f"queue{'' if d.hw_queues == 1 else 's'}, nr_requests {d.nr_requests}"
        )
        yield Finding("host", f"/dev/{d.name}", "ok", text)
    if not any_drive:
        yield Finding(
            "host", "drives", "warn", "no block device with hardware queues", "use virtual machines"
        )
    rules = list(scheduler_rules(root))
    for path, line in rules:
        text = f"{path} sets a scheduler: {line}"
        fix = "a scheduler written to sysfs lasts until udev runs this rule again"
        yield Finding("host", "udev", "warn", text, fix)
    if not rules:
        yield Finding(
            "host", "udev", "ok", "no rule sets a scheduler: the kernel's default stands after boot"
        )


def scheduler_rules(root: Path) -> Iterator[tuple[Path, str]]:
    """udev rules that write `queue/scheduler`: file and line. A file in /etc hides files of the same name
    elsewhere.
    """
    seen = set()
    for folder in ("etc/udev/rules.d", "run/udev/rules.d", "usr/lib/udev/rules.d", "lib/udev/rules.d"):
        for path in sorted((root / folder).glob("*.rules")):
            if path.name in seen:
                continue
            seen.add(path.name)
            for line in _read(path).splitlines():
                if "queue/scheduler" in line and not line.lstrip().startswith("#"):
                    yield Path("/") / path.relative_to(root), line.strip()
