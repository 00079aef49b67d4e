# SPDX-License-Identifier: GPL-2.0-only
"""The guest's disks, kept in the cache: Debian with the programs for the tests, modules, the checkout."""

import hashlib
import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from filelock import FileLock

from tailgate.base.errors import UsageError
from tailgate.base.paths import ROOT, cache_dir
from tailgate.base.progress import Tell
from tailgate.guest import apt, scratch
from tailgate.guest.kernels import Kernel

#: Programs for the tests of the groups, for udev and for the guest's own scripts.
PACKAGES = (
    *("bash", "bc", "blktrace", "bsdextrautils", "btrfs-progs", "cryptsetup-bin", "diffutils", "dmsetup"),
    *("dosfstools", "e2fsprogs", "expect", "f2fs-tools", "fdisk", "fio", "gawk", "iproute2", "jq", "kmod"),
    *("libcap2-bin", "libstdc++6", "liburing2", "mdadm", "nbd-client", "nbd-server", "ncurses-bin"),
    *("nvme-cli", "parted", "pciutils", "procps", "python3-minimal", "sg3-utils", "udev", "util-linux"),
    *("util-linux-extra", "uuid-runtime", "xfsprogs", "xxd"),
)
#: Size of a sparse disk for the tests' files, some of which have 1 GiB.
WORK_GIB = 8
#: Size of a disk for tests that need a whole one.
SCRATCH_GIB = 1
#: Parts of a checkout that are not copied: its own results and configuration must have no effect here.
NOT_COPIED = (".git", "results", "config")


def folder() -> Path:
    """The folder of the images."""
    at = cache_dir() / "blktests"
    at.mkdir(parents=True, exist_ok=True)
    return at


def make(kernel: Kernel, source: Path, progress: Tell) -> dict[str, Path]:
    """All disks of a guest by name; missing ones are made. Other commands wait meanwhile."""
    with FileLock(folder() / "lock"):
        return {
            "work": checkout(source, progress),
            "root": root(progress),
            "modules": modules(kernel, progress),
            "scratch": scratch_disk(),
        }


def root(progress: Tell) -> Path:
    """A disk with Debian, of the host's own release and from its mirror. The first time takes minutes."""
    suite = apt.codename()
    image = folder() / f"root-{_digest(suite, *PACKAGES)}.ext2"
    if image.exists():
        return image
    if not shutil.which("mmdebstrap"):
        raise UsageError("mmdebstrap is missing: run `setup/host.sh blktests`")
    progress(f"blktests: making a root of Debian {suite} (once, a few minutes)")
    mirrors = _run(["sh", str(ROOT / "setup/host.sh"), "print-mirrors", "/etc/apt", suite])
    with scratch.folder() as place:
        sources, new = place / "mirrors.sources", place / "root.ext2"
        sources.write_text(mirrors)
        include = f"--include={','.join(PACKAGES)}"
        # Without privileges mmdebstrap works in a user namespace, where this format needs no mount or loop
        # device.
        command = ["mmdebstrap", "--quiet", "--variant=minbase", "--format=ext2", include]
        _run([*command, suite, str(new), str(sources)])
        new.rename(image)
    return image


def modules(kernel: Kernel, progress: Tell) -> Path:
    """A disk with all of a kernel's own modules."""
    with kernel.vmlinux.open("rb") as file:
        key = _digest(kernel.release, hashlib.file_digest(file, "sha256").hexdigest())
    image = folder() / f"modules-{kernel.release}-{key}.ext4"
    if not image.exists():
        progress(f"blktests: a disk with the modules of {kernel.release}")
        tree = kernel.root / "lib/modules"
        size_mib = int(_run(["du", "--summarize", "--block-size=M", str(tree)]).partition("M")[0])
        _make_disk(image, tree, size_mib * 5 // 4 + 64)
    return image


def check_checkout(source: Path) -> None:
    """UsageError if the folder is not a checkout of blktests."""
    if not all(
        (source / name).is_file() for name in ("check", "common/rc", "tests/block/rc", "src/Makefile")
    ):
        raise UsageError(f"{source} is no checkout of blktests: give one, as in BLKTESTS=../blktests")


def checkout(source: Path, progress: Tell) -> Path:
    """A disk with a copy of the checkout, its programs compiled, and space to work.

    The host compiles them: the guest's Debian is the host's own release, so the libraries agree.
    """
    image = folder() / f"work-{checkout_key(source)}.ext4"
    if image.exists():
        return image
    progress("blktests: compiling the programs of the tests")
    with scratch.folder() as place:
        copy = place / "blktests"
        shutil.copytree(source, copy, symlinks=True, ignore=lambda at, names: _ignored(source, at, names))
        _run(["make", "-C", str(copy / "src")])
        disk = place / "disk"
        disk.mkdir()
        copy.rename(disk / "blktests")
        _make_disk(image, disk, WORK_GIB << 10)
    return image


def scratch_disk() -> Path:
    """An empty disk for tests that want one to themselves."""
    image = folder() / f"scratch-{SCRATCH_GIB}G"
    if not image.exists():
        with image.open("wb") as file:
            file.truncate(SCRATCH_GIB << 30)
    return image


def checkout_key(source: Path) -> str:
    """A hash of a checkout's content."""
    digest = hashlib.sha256(str(WORK_GIB).encode())
    for path in sorted(source.rglob("*")):
        name = path.relative_to(source)
        if name.parts[0] not in NOT_COPIED and path.is_file():
            digest.update(f"{name}\0{path.stat().st_mode}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _ignored(source: Path, at: str, names: Sequence[str]) -> list[str]:
    return [name for name in names if Path(at) == source and name in NOT_COPIED]


def _make_disk(image: Path, tree: Path, size_mib: int) -> None:
    """An ext4 file system with a folder's content; needs no privileges."""
    new = image.with_suffix(".new")
    new.unlink(missing_ok=True)
    command = ["mke2fs", "-q", "-F", "-t", "ext4", "-E", "root_owner=0:0,lazy_itable_init=1", "-d", str(tree)]
    _run([*command, str(new), f"{size_mib}M"])
    new.rename(image)


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _run(command: Sequence[str]) -> str:
    """The output of a program; UsageError with its last line if it fails. It is ended if this process is
    stopped.
    """
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
    except FileNotFoundError as e:
        raise UsageError(f"{command[0]} is missing: run `setup/host.sh blktests`") from e
    with process:
        try:
            output, _ = process.communicate()
        except BaseException:
            os.killpg(process.pid, signal.SIGTERM)  # mmdebstrap has processes of its own, and cleans up
            raise
    if process.returncode:
        lines = [line for line in output.splitlines() if line.strip()]
        error = next((line for line in lines if "rror" in line), lines[-1] if lines else "no reason given")
        raise UsageError(f"{' '.join(command[:3])} failed: {error}")
    return output
