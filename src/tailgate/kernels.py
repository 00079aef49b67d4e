# SPDX-License-Identifier: GPL-2.0-only
"""The guests' kernels: found by Debian's meta packages, unpacked into the cache, never installed.

A kernel is asked for by the label of its suite: `stable` is what `linux-image-amd64` depends on in this
machine's own release, `backports` the same in that release's backports; `stable-rt` and `backports-rt` are
what `linux-image-rt-amd64` depends on there, the same kernels built with PREEMPT_RT. Which versions they are,
apt says; `kernels.json` in the cache records it, and from then on nothing is asked or fetched until a
refresh.

`stable-kasan`, `stable-kcsan`, `backports-kasan` and `backports-kcsan` are debug kernels, built from the
source of the same versions (tailgate.kernel_build). They are built again when their configuration changes,
or when the kernel that they stand for does.

    kernels/kernels.json            label -> release, suite, packages and versions, when; a debug kernel's key
    kernels/<release>/root/         the unpacked packages: image, modules, headers, kbuild
    kernels/<release>/vmlinux       the uncompressed ELF image, which QEMU boots by PVH
    kernels/<release>/btf           the kernel's own type information, raw
    kernels/<release>/symbols       of a debug kernel: the image with what addr2line and gdb read
    sources/<package>_<version>/    of a kernel's source: the folder block/
"""

import argparse
import fcntl
import json
import lzma
import os
import re
import shutil
import struct
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tailgate import kernel_build
from tailgate.cache import cache_dir
from tailgate.errors import UsageError

Progress = Callable[[str], None]

ORDINARY = ("stable", "backports")
RT = ("stable-rt", "backports-rt")
LABELS = (*ORDINARY, *RT)
DEBUG = tuple(f"{label}-{kind}" for label in ORDINARY for kind in kernel_build.KINDS)
# Of a meta package's dependencies only these belong to the kernel; compilers and libraries are the host's.
PARTS = re.compile(r"linux-(image|modules|binary|headers|kbuild)-\S+")


def metas(label: str) -> tuple[str, str]:
    """The meta packages of a label's image and headers."""
    flavour = "rt-amd64" if label in RT else "amd64"
    return f"linux-image-{flavour}", f"linux-headers-{flavour}"


@dataclass(frozen=True)
class Kernel:
    """One unpacked kernel.

    `root` holds `boot`, `lib/modules/<release>` and `usr/src`; `headers` is what Kbuild calls KDIR.
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


@dataclass(frozen=True)
class Package:
    """A Debian package as apt's lists describe it. `size` in bytes, of the .deb."""

    name: str
    version: str
    size: int
    depends: str


def resolve(labels: Sequence[str], progress: Progress, *, refresh: bool = False) -> list[Kernel]:
    """The kernels of these suites, in this order, from the cache or else from Debian's archive.

    Works without a network when they are cached. `refresh` asks apt's lists for a newer version first.
    Several processes may call it at once: one prepares, the others wait. `progress` gets a line a stage.

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
                if refresh or not _is_ready(stock, folder):  # another process may have been here before us
                    _prepare(stock, folder, progress)
                if not _is_ready(label, folder):
                    _prepare_debug(label, folder, progress)
    found = cached_kernels()
    return [found[label] for label in labels]


def stands_for(label: str) -> str:
    """The label of the stock kernel that a debug kernel is of the same version as."""
    return label.rpartition("-")[0]


def _is_ready(label: str, folder: Path) -> bool:
    """Whether a kernel is cached; of a debug kernel, whether it is the one that would be built now."""
    cached = cached_kernels()
    if label not in cached or label in LABELS:
        return label in cached
    return stands_for(label) in cached and _records(folder)[label]["key"] == _source(label, folder).key()


def cached_kernels() -> dict[str, Kernel]:
    """The kernels that are ready for use in the cache, by label; asks nobody."""
    folder = cache_dir() / "kernels"
    kernels = {}
    for label, record in _records(folder).items():
        kernel = _kernel(label, str(record["release"]), folder)
        if kernel.btf.is_file():  # a release's folder appears whole or not at all, unless a user removes it
            kernels[label] = kernel
    return kernels


def _kernel(label: str, release: str, folder: Path) -> Kernel:
    at = folder / release
    root = at / "root"
    headers = root / "usr/src" / f"linux-headers-{release}"
    return Kernel(label, release, root, vmlinux=at / "vmlinux", btf=at / "btf", headers=headers)


def _records(folder: Path) -> dict[str, dict[str, object]]:
    try:
        records: dict[str, dict[str, object]] = json.loads((folder / "kernels.json").read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return {}
    return records


@contextmanager
def _locked(folder: Path, progress: Progress) -> Iterator[None]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / "lock").open("w")
    except OSError as e:
        raise UsageError(f"cannot write to the cache {folder} ({e.strerror}): set TAILGATE_CACHE") from e
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("kernels: waiting for another tailgate that prepares them")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _prepare(label: str, folder: Path, progress: Progress) -> None:
    """Bring one kernel into the cache and record it. The caller holds the lock."""
    start = time.monotonic()
    suite, packages = find_packages(label, _apt_cache)
    release = image_release(packages)
    versions = {p.name: p.version for p in packages}
    known = [r for r in _records(folder).values() if r["release"] == release and r["packages"] == versions]
    if not (known and (folder / release / "btf").is_file()):
        debs = _download(label, packages, folder / "download", progress)
        work = folder / f".unpacking-{release}"
        shutil.rmtree(work, ignore_errors=True)
        try:
            unpack(debs, release, work, lambda what: progress(f"kernel {label}: {what}"))
        except OSError as e:
            raise UsageError(f"cannot unpack kernel {label} below {folder}: {e.strerror}") from e
        shutil.rmtree(folder / release, ignore_errors=True)
        work.rename(folder / release)
        shutil.rmtree(folder / "download")
    _record(label, folder, release=release, suite=suite, meta=metas(label)[0], packages=versions)
    progress(f"kernel {label}: {release} ready after {time.monotonic() - start:.0f} s")


def _record(label: str, folder: Path, **record: object) -> None:
    """Note in kernels.json what a label is now."""
    record["resolved"] = datetime.now(UTC).isoformat(timespec="seconds")
    text = json.dumps({**_records(folder), label: record}, indent=2, sort_keys=True) + "\n"
    (folder / "kernels.json.new").write_text(text)
    (folder / "kernels.json.new").rename(folder / "kernels.json")


def _source(label: str, folder: Path) -> kernel_build.Source:
    """The source of a stock kernel that is cached, or of the one that a debug kernel stands for."""
    stock, kind = (label, "") if label in LABELS else (stands_for(label), label.rpartition("-")[2])
    record = _records(folder)[stock]
    packages = record["packages"]
    assert isinstance(packages, dict)
    kernel = _kernel(label, str(record["release"]), folder)
    return kernel_build.Source(
        f"linux-source-{kernel.series}", packages[f"linux-image-{kernel.release}"], kind
    )


def block_layer(label: str, progress: Progress) -> tuple[str, Path]:
    """The source of a cached kernel's folder block/: the package's version, and the folder in the cache."""
    source = _source(label, cache_dir() / "kernels")
    folder = cache_dir() / "sources"
    if (tree := folder / f"{source.package}_{source.version}").is_dir():
        return source.version, tree / "block"
    package = find_source(source, _apt_cache)
    tree = folder / f"{package.name}_{package.version}"
    # not the lock of the kernels: the build of a debug kernel holds that for an hour
    with _locked(folder, progress):
        if not tree.is_dir():
            deb = _download(label, [package], folder / "download", progress)[0]
            work = folder / "unpacking"
            work.mkdir(exist_ok=True)
            kernel_build.unpack_source(deb, source, work, tree, progress, "block")
            shutil.rmtree(work)
            shutil.rmtree(folder / "download")
    return package.version, tree / "block"


def _prepare_debug(label: str, folder: Path, progress: Progress) -> None:
    """Build a debug kernel into the cache and record it. The caller holds the lock."""
    source = _source(label, folder)
    work = folder / f".building-{label}-{source.key()}"
    for other in folder.glob(f".building-{label}-*"):
        if other != work:
            shutil.rmtree(other)

    package = find_source(source, _apt_cache)
    if package.version != source.version:
        progress(f"kernel {label}: apt has no {source.package} {source.version}, but {package.version}")

    def fetch() -> Path:
        return _download(label, [package], folder / "download", progress)[0]

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
    shutil.rmtree(folder / "download", ignore_errors=True)
    _record(label, folder, release=release, packages={package.name: package.version}, key=source.key())


# --- what apt knows ---------------------------------------------------------------------------------------


def find_packages(label: str, apt_cache: Callable[[Sequence[str]], str]) -> tuple[str, list[Package]]:
    """The suite behind a label and the packages that make up its kernel, as apt's lists have them.

    `apt_cache` runs apt-cache with these arguments and returns what it prints.
    """
    codename = _codename(Path("/etc/os-release").read_text())
    image_meta, headers_meta = metas(label)
    if label.startswith("backports"):
        suites = [f"{codename}-backports"]
    else:  # one release in three archives: the newest counts, which mostly is the security one
        suites = [codename, f"{codename}-security", f"{codename}-updates"]
        suites += [suite.replace(codename, "stable") for suite in suites]
    offered = suite_versions(apt_cache(["madison", image_meta]), suites)
    if not offered:
        raise UsageError(
            f"apt knows no {image_meta} of {suites[0]}: run `make setup-demo`, which sets the archives up"
        )
    version = offered[0]
    found: dict[str, Package] = {}
    wanted = [(image_meta, version), (headers_meta, version)]
    while wanted:
        name, version = wanted.pop(0)
        package = parse_package(apt_cache(["show", f"{name}={version}"]), name)
        found[name] = package
        for dependency, exact in kernel_parts(package.depends):
            if dependency not in found:
                choice = exact or _choose(apt_cache(["madison", dependency]), suites, version, dependency)
                wanted.append((dependency, choice))
    return suites[0], [p for p in found.values() if p.name not in (image_meta, headers_meta)]


def find_source(source: kernel_build.Source, apt_cache: Callable[[Sequence[str]], str]) -> Package:
    """The package of a kernel's source: of this version, or else the newest that apt has of the series."""
    offered = [
        line.split("|")[1].strip()
        for line in apt_cache(["madison", source.package]).splitlines()
        if line.endswith(" Packages")
    ]
    if not offered:
        raise UsageError(f"apt knows no {source.package}: run `sudo apt-get update`")
    version = source.version if source.version in offered else offered[0]
    return parse_package(apt_cache(["show", f"{source.package}={version}"]), source.package)


def _codename(os_release: str) -> str:
    named = re.search(r'^VERSION_CODENAME="?(\w+)', os_release, re.MULTILINE)
    if not named or not re.search(r'^ID="?debian\b', os_release, re.MULTILINE):
        raise UsageError("this is no Debian release, and Debian's kernels are needed: use Debian 12 or later")
    return named[1]


def suite_versions(madison: str, suites: Sequence[str]) -> list[str]:
    """The versions that `apt-cache madison` lists for these suites, newest first as it prints them."""
    versions = []
    for line in madison.splitlines():
        _, _, rest = line.partition("|")
        version, _, origin = rest.partition("|")
        words = origin.split()  # address, suite/component, architecture, "Packages"
        if words and words[-1] == "Packages" and words[1].rpartition("/")[0] in suites:
            versions.append(version.strip())
    return versions


def _choose(madison: str, suites: Sequence[str], preferred: str, name: str) -> str:
    offered = suite_versions(madison, suites)
    if not offered:
        raise UsageError(f"apt knows no {name} of {suites[0]}: run `sudo apt-get update`")
    return preferred if preferred in offered else offered[0]


def parse_package(record: str, name: str) -> Package:
    """The fields that we need of one record of `apt-cache show`."""
    fields = dict(re.findall(r"^(\w[\w-]*): (.*)$", record.split("\n\n")[0], re.MULTILINE))
    if fields.get("Package") != name:
        raise UsageError(f"apt knows no {name}: run `sudo apt-get update`")
    return Package(name, fields["Version"], int(fields["Size"]), fields.get("Depends", ""))


def kernel_parts(depends: str) -> list[tuple[str, str | None]]:
    """The kernel's own packages among dependencies: name, and the version if exactly one will do.

    Of alternatives the first counts, as for apt.
    """
    parts = []
    for alternatives in depends.split(","):
        first = alternatives.split("|")[0].strip()
        name = first.split(" ")[0]
        if PARTS.fullmatch(name):
            exact = re.search(r"\(= ([^)]+)\)", first)
            parts.append((name, exact[1] if exact else None))
    return parts


def image_release(packages: Sequence[Package]) -> str:
    """The kernel release that the image package carries in its name."""
    return next(p.name.removeprefix("linux-image-") for p in packages if p.name.startswith("linux-image-"))


def _apt_cache(arguments: Sequence[str]) -> str:
    return _run(["apt-cache", *arguments], env={"LC_ALL": "C"}).decode()


def _run(command: Sequence[str], data: bytes | None = None, env: Mapping[str, str] | None = None) -> bytes:
    program = shutil.which(command[0], path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if not program:
        raise UsageError(f"{command[0]} is missing: run `make setup-demo`")
    done = subprocess.run(
        [program, *command[1:]],
        input=data,
        capture_output=True,
        check=False,
        env={**os.environ, **(env or {})},
    )
    # apt-cache fails for a package that it does not know; its empty answer says so as well
    if done.returncode and command[0] != "apt-cache":
        lines = done.stderr.decode(errors="replace").strip().splitlines() or ["no reason given"]
        raise UsageError(f"{command[0]} failed: {lines[-1]}")
    return done.stdout


def _download(label: str, packages: Sequence[Package], into: Path, progress: Progress) -> list[Path]:
    """Fetch packages by apt, which checks their signatures; what is there already is not fetched again."""
    into.mkdir(exist_ok=True)
    total = sum(p.size for p in packages)
    progress(f"kernel {label}: {len(packages)} packages, {total / 1e6:.0f} MB to download")
    for name in set(_apt_names(into)) - {p.name for p in packages}:
        for stray in into.glob(f"{name}_*"):
            stray.unlink()
    command = ["apt-get", "download", "-q", "-o", "Acquire::Retries=3", "-o", "APT::Sandbox::User="]
    command += [f"{p.name}={p.version}" for p in packages]
    start = shown = time.monotonic()
    with subprocess.Popen(
        command,
        cwd=into,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**os.environ, "LC_ALL": "C"},
    ) as apt:
        while apt.poll() is None:
            time.sleep(0.1)
            now = time.monotonic()
            if now - shown > 5:
                shown = now
                have = sum(f.stat().st_size for f in into.iterdir())
                left = (now - start) * (total / have - 1) if have else 0
                progress(f"kernel {label}: {have / 1e6:.0f} of {total / 1e6:.0f} MB, about {left:.0f} s left")
        assert apt.stderr is not None
        complaints = apt.stderr.read().decode(errors="replace")
    if apt.returncode:
        reason = next((line for line in complaints.splitlines() if line.startswith("E:")), "no reason given")
        raise UsageError(
            f"the download of kernel {label} failed ({reason.removeprefix('E:').strip()}): "
            "check the network, run `sudo apt-get update`, then try again"
        )
    return sorted(into.glob("*.deb"))


def _apt_names(folder: Path) -> Iterator[str]:
    for deb in folder.glob("*.deb"):
        yield deb.name.split("_")[0]


# --- what the packages hold -------------------------------------------------------------------------------


def unpack(debs: Sequence[Path], release: str, into: Path, progress: Progress) -> None:
    """Unpack a kernel's packages and derive from them what a release's folder holds."""
    root = into / "root"
    root.mkdir(parents=True)
    progress(f"unpacking {len(debs)} packages")
    for deb in debs:
        _run(["dpkg-deb", "--extract", str(deb), str(root)])
    if not (root / "lib").exists():  # later releases put everything below usr
        (root / "lib").symlink_to("usr/lib")
    relocate_headers(root, release)
    progress("extracting the image and its type information")
    image_of, elf = unpack_image(find_image(root, release).read_bytes())
    if image_of != release:
        raise UsageError(
            f"the image of {release} says that it is {image_of}: remove {into.parent} and try again"
        )
    (into / "vmlinux").write_bytes(elf)
    (into / "btf").write_bytes(elf_section(elf, ".BTF"))
    progress("indexing modules")
    _run(["depmod", "--basedir", str(root), release])


def relocate_headers(root: Path, release: str) -> None:
    """Let the unpacked headers find each other where they are, not where the package would put them.

    The architecture's Makefile includes the common one by an absolute path below /usr/src; in the
    modules' folder two links point there. `scripts` and `tools` are relative links already.
    """
    makefile = root / "usr/src" / f"linux-headers-{release}" / "Makefile"
    text = makefile.read_text().replace("/usr/src/", "$(usr-src)/")
    makefile.write_text(f"usr-src := $(abspath $(dir $(lastword $(MAKEFILE_LIST)))..)\n{text}")
    for link in (root / "lib/modules" / release).iterdir():
        if link.is_symlink() and (to := str(link.readlink())).startswith("/usr/src/"):
            link.unlink()
            link.symlink_to(os.path.relpath(root.resolve() / to[1:], link.parent.resolve()))


def find_image(root: Path, release: str) -> Path:
    """The compressed image among unpacked packages; later releases keep it beside the modules."""
    for image in (root / f"boot/vmlinuz-{release}", root / "lib/modules" / release / "vmlinuz"):
        if image.is_file():
            return image
    raise UsageError(f"Debian's packages of {release} hold no image where one is known to be")


def unpack_image(image: bytes) -> tuple[str, bytes]:
    """Release and uncompressed ELF of a bzImage (offsets: kernel's Documentation/arch/x86/boot.rst)."""
    if image[0x202:0x206] != b"HdrS":
        raise UsageError("the kernel image is no x86 bzImage: only amd64 guests are known")
    at = struct.unpack_from("<H", image, 0x20E)[0] + 0x200
    release = image[at : image.index(b"\0", at)].split()[0].decode()
    start = (image[0x1F1] + 1) * 512 + struct.unpack_from("<I", image, 0x248)[0]  # setup + payload_offset
    payload = image[start : start + struct.unpack_from("<I", image, 0x24C)[0]]
    # All but gzip are followed by the unpacked size, four bytes that the formats know nothing of.
    if payload.startswith(b"\xfd7zXZ\0"):
        elf = lzma.LZMADecompressor().decompress(payload)
    elif payload.startswith(b"\x1f\x8b"):
        elf = zlib.decompressobj(31).decompress(payload)
    elif payload.startswith(b"\x28\xb5\x2f\xfd"):
        elf = _run(["zstd", "-dcq"], payload[:-4])
    elif payload.startswith(b"\x02\x21\x4c\x18"):
        elf = _run(["lz4", "-dcq"], payload[:-4])
    else:
        raise UsageError(f"the image of {release} is packed in an unknown way ({payload[:4].hex()})")
    return release, elf


def elf_section(elf: bytes, name: str) -> bytes:
    """The content of a section of a 64-bit little-endian ELF file."""
    if elf[:6] != b"\x7fELF\x02\x01":
        raise UsageError("the kernel image holds no 64-bit ELF file: only amd64 guests are known")
    table = struct.unpack_from("<Q", elf, 0x28)[0]
    size, count, names = struct.unpack_from("<HHH", elf, 0x3A)

    def section(index: int) -> tuple[int, int, int]:
        """Offset of the name, offset and size of the content."""
        at = table + index * size
        return struct.unpack_from("<I", elf, at)[0], *struct.unpack_from("<QQ", elf, at + 0x18)

    _, strings, _ = section(names)
    for index in range(count):
        name_at, start, length = section(index)
        at = strings + name_at
        if elf[at : elf.index(b"\0", at)] == name.encode():
            return elf[start : start + length]
    raise UsageError(f"the kernel image has no {name}: it was built without what the modules' build checks")


def main(arguments: Sequence[str] | None = None) -> int:
    """`python -m tailgate.kernels [--refresh] [LABEL...]`: what `make` calls."""
    parser = argparse.ArgumentParser(
        prog="tailgate.kernels", description="bring guest kernels into the cache"
    )
    parser.add_argument("--refresh", action="store_true", help="look for newer versions")
    parser.add_argument("label", nargs="*", default=["backports"], help=", ".join((*LABELS, *DEBUG)))
    options = parser.parse_args(arguments)
    try:
        for kernel in resolve(
            options.label, lambda line: print(line, file=sys.stderr, flush=True), refresh=options.refresh
        ):
            print(f"{kernel.label}: {kernel.release}")
    except UsageError as e:
        print(f"tailgate: {e}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
