# SPDX-License-Identifier: GPL-2.0-only
"""The guests' kernels: found by Debian's meta packages, unpacked into the cache, never installed.

A kernel is identified by the label of its suite. `stable` is the kernel that `linux-image-amd64` depends on
in this host's own release, `backports` the one in that release's backports. `stable-rt` and `backports-rt`
are the kernels that `linux-image-rt-amd64` depends on there, built with PREEMPT_RT. apt states their
versions; `kernels.json` in the cache records them, and from then on nothing is asked or fetched until a
refresh.

`stable-kasan`, `stable-kcsan`, `backports-kasan` and `backports-kcsan` are debug kernels, built from the
source of the same versions (kernel_build.py). They are built again when their configuration or the stock
kernel's version changes.

    kernels/kernels.json            label -> release, suite, packages and versions, when; a debug kernel's key
    kernels/<release>/root/         the unpacked packages: image, modules, headers, kbuild
    kernels/<release>/vmlinux       the uncompressed ELF image, which QEMU boots by PVH
    kernels/<release>/btf           the kernel's own type information, raw
    kernels/<release>/symbols       debug kernels only: the image with the symbols that addr2line and gdb read
    sources/<package>_<version>/    the folder block/ of a kernel's source
"""

import json
import re
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from filelock import FileLock, Timeout

from tailgate.base import command
from tailgate.base.errors import UsageError
from tailgate.base.paths import cache_dir, replace_text
from tailgate.base.progress import Tell
from tailgate.guest import kernel_build
from tailgate.guest.apt import download, find_packages, find_source, image_release, metas, run_apt_cache
from tailgate.guest.labels import DEBUG, LABELS
from tailgate.guest.packages import elf_section, unpack


@dataclass(frozen=True)
class Kernel:
    """One unpacked kernel.

    `root` has `boot`, `lib/modules/<release>` and `usr/src`; `headers` is Kbuild's KDIR.
    """

    label: str
    release: str
    root: Path
    vmlinux: Path
    btf: Path
    headers: Path

    @property
    def series(self) -> str:
        """The release's first two numbers, as in "6.12"."""
        return ".".join(re.findall(r"\d+", self.release)[:2])


def resolve(labels: Sequence[str], progress: Tell, *, refresh: bool = False) -> list[Kernel]:
    """The kernels with these labels, in this order, from the cache or else from Debian's archive.

    Works without a network if they are cached. `refresh` first looks for a newer version in apt's lists.
    Several processes may call it at once: one prepares, the others wait. `progress` gets a line for each
    stage.

    Raises UsageError for an unknown label, a suite that apt does not know, a failed download.
    """
    for label in labels:
        if label not in (*LABELS, *DEBUG):
            raise UsageError(f"no guest kernel is called '{label}': use {', '.join((*LABELS, *DEBUG))}")
    folder = cache_dir() / "kernels"
    if refresh or not all(_is_ready(label, folder) for label in labels):
        with _locked(folder, progress):
            for label in dict.fromkeys(labels):
                stock = label if label in LABELS else stands_for(label)
                if refresh or not _is_ready(stock, folder):  # another process may have prepared it meanwhile
                    _prepare(stock, folder, progress)
                if not _is_ready(label, folder):
                    _prepare_debug(label, folder, progress)
    found = cached_kernels()
    return [found[label] for label in labels]


def stands_for(label: str) -> str:
    """The label of the stock kernel with the same version as a debug kernel."""
    return label.rpartition("-")[0]


def _is_ready(label: str, folder: Path) -> bool:
    """Whether a kernel is cached; for a debug kernel, whether the cached one has the present
    configuration.
    """
    cached = cached_kernels()
    if label not in cached or label in LABELS:
        return label in cached
    return stands_for(label) in cached and _records(folder)[label].get("key") == _source(label, folder).key()


def cached_kernels() -> dict[str, Kernel]:
    """The kernels that are ready for use in the cache, by label; uses no network."""
    folder = cache_dir() / "kernels"
    kernels = {}
    for label, record in _records(folder).items():
        kernel = _kernel(label, str(record["release"]), folder)
        if kernel.btf.is_file():  # a release's folder is complete, unless a user has removed files
            kernels[label] = kernel
    return kernels


def _kernel(label: str, release: str, folder: Path) -> Kernel:
    at = folder / release
    root = at / "root"
    headers = root / "usr/src" / f"linux-headers-{release}"
    return Kernel(label, release, root, vmlinux=at / "vmlinux", btf=at / "btf", headers=headers)


def _records(folder: Path) -> dict[str, dict[str, object]]:
    """The content of kernels.json; damaged parts are ignored."""
    try:
        records = json.loads((folder / "kernels.json").read_text())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return {}
    whole = records.items() if isinstance(records, dict) else ()
    return {label: r for label, r in whole if isinstance(r, dict) and {"release", "packages"} <= r.keys()}


@contextmanager
def _locked(folder: Path, progress: Tell) -> Iterator[None]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / "lock")
        try:
            held = lock.acquire(blocking=False)
        except Timeout:
            progress("kernels: waiting for another tailgate that prepares them")
            held = lock.acquire()
    except OSError as e:
        raise UsageError(f"cannot write to the cache {folder} ({e.strerror}): set TAILGATE_CACHE") from e
    with held:
        yield


def _prepare(label: str, folder: Path, progress: Tell) -> None:
    """Bring one kernel into the cache and record it. The caller holds the lock."""
    start = time.monotonic()
    suite, packages = find_packages(label, run_apt_cache)
    release = image_release(packages)
    versions = {p.name: p.version for p in packages}
    known = [r for r in _records(folder).values() if r["release"] == release and r["packages"] == versions]
    if not (known and (folder / release / "btf").is_file()):
        debs = download(label, packages, folder / ".download", progress)
        work = folder / f".unpacking-{release}"
        shutil.rmtree(work, ignore_errors=True)
        try:
            unpack(debs, release, work, lambda what: progress(f"kernel {label}: {what}"))
        except OSError as e:
            raise UsageError(f"cannot unpack kernel {label} below {folder}: {e.strerror}") from e
        shutil.rmtree(folder / release, ignore_errors=True)
        work.rename(folder / release)
        shutil.rmtree(folder / ".download")
    _record(label, folder, release=release, suite=suite, meta=metas(label)[0], packages=versions)
    progress(f"kernel {label}: {release} ready after {time.monotonic() - start:.0f} s")


def _record(label: str, folder: Path, **record: object) -> None:
    """Record in kernels.json the kernel that a label stands for now."""
    record["resolved"] = datetime.now(UTC).isoformat(timespec="seconds")
    text = json.dumps({**_records(folder), label: record}, indent=2, sort_keys=True) + "\n"
    replace_text(folder / "kernels.json", text)


def _source(label: str, folder: Path) -> kernel_build.KernelSource:
    """The source of a cached stock kernel, or of the stock kernel with a debug kernel's version."""
    stock, kind = (label, "") if label in LABELS else (stands_for(label), label.rpartition("-")[2])
    record = _records(folder)[stock]
    packages = record["packages"]
    assert isinstance(packages, dict)
    kernel = _kernel(label, str(record["release"]), folder)
    return kernel_build.KernelSource(
        f"linux-source-{kernel.series}", packages[f"linux-image-{kernel.release}"], kind
    )


def block_layer(label: str, progress: Tell) -> tuple[str, Path]:
    """The folder block/ of a cached kernel's source: the package's version, and the folder's copy in the
    cache.
    """
    source = _source(label, cache_dir() / "kernels")
    folder = cache_dir() / "sources"
    if (tree := folder / f"{source.package}_{source.version}").is_dir():
        return source.version, tree / "block"
    package = find_source(source, run_apt_cache)
    tree = folder / f"{package.name}_{package.version}"
    # a lock of its own: the build of a debug kernel holds the kernels' lock for an hour
    with _locked(folder, progress):
        if not tree.is_dir():
            deb = download(label, [package], folder / ".download", progress)[0]
            work = folder / ".unpacking"
            work.mkdir(exist_ok=True)
            kernel_build.unpack_source(deb, source, work, tree, progress, "block")
            shutil.rmtree(work)
            shutil.rmtree(folder / ".download")
    return package.version, tree / "block"


def _prepare_debug(label: str, folder: Path, progress: Tell) -> None:
    """Build a debug kernel into the cache and record it. The caller holds the lock."""
    source = _source(label, folder)
    work = folder / f".building-{label}-{source.key()}"
    for other in folder.glob(f".building-{label}-*"):
        if other != work:
            shutil.rmtree(other)

    package = find_source(source, run_apt_cache)
    if package.version != source.version:
        progress(f"kernel {label}: apt has no {source.package} {source.version}, but {package.version}")

    def fetch() -> Path:
        return download(label, [package], folder / ".download", progress)[0]

    try:
        release, result = kernel_build.build(
            source, fetch, work, lambda what: progress(f"kernel {label}: {what}")
        )
        (result / "btf").write_bytes(elf_section((result / "vmlinux").read_bytes(), ".BTF"))
        shutil.rmtree(folder / release, ignore_errors=True)
        result.rename(folder / release)
        shutil.rmtree(work)
    except OSError as e:
        raise UsageError(f"cannot build kernel {label} below {folder}: {e.strerror}") from e
    shutil.rmtree(folder / ".download", ignore_errors=True)
    _record(label, folder, release=release, packages={package.name: package.version}, key=source.key())


def main(
    labels: Annotated[
        list[str] | None,
        typer.Argument(metavar="LABEL", help=f"Of {', '.join((*LABELS, *DEBUG))}.", show_default="backports"),
    ] = None,
    refresh: Annotated[bool, command.flag("--refresh", "Look for newer versions.")] = False,
) -> int:
    """Bring the kernels of guests into the cache. Debug kernels are built, which takes an hour."""
    progress = partial(print, file=sys.stderr, flush=True)
    for kernel in resolve(labels or ["backports"], progress, refresh=refresh):
        print(f"{kernel.label}: {kernel.release}")
    return command.OK


if __name__ == "__main__":
    app = command.application()
    app.command()(main)
    sys.exit(command.run(app, "python -m tailgate.guest.kernels"))
