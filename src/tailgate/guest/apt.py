# SPDX-License-Identifier: GPL-2.0-only
"""Debian's kernel packages: which ones apt lists, and their download from the archive."""

import os
import platform
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from debian.deb822 import Packages
from debian.debian_support import Version

from tailgate.base.errors import UsageError
from tailgate.base.progress import Tell
from tailgate.guest import kernel_build
from tailgate.guest.labels import RT

# Of a meta package's dependencies, only these are part of the kernel; compilers and libraries are the host's.
PARTS = re.compile(r"linux-(image|modules|binary|headers|kbuild)-\S+")


def metas(label: str) -> tuple[str, str]:
    """The meta packages of a label's image and headers."""
    flavour = "rt-amd64" if label in RT else "amd64"
    return f"linux-image-{flavour}", f"linux-headers-{flavour}"


@dataclass(frozen=True)
class Package:
    """A Debian package as apt's lists describe it.

    `size` is the size of the .deb in bytes. `parts` are the kernel packages that it depends on, with a
    version where only one version will do.
    """

    name: str
    version: str
    size: int
    parts: tuple[tuple[str, str | None], ...]


def find_packages(label: str, apt_cache: Callable[[Sequence[str]], str]) -> tuple[str, list[Package]]:
    """The suite behind a label and the packages that make up its kernel, as apt's lists have them.

    `apt_cache` runs apt-cache with these arguments and returns what it prints.
    """
    release = codename()
    image_meta, headers_meta = metas(label)
    if label.startswith("backports"):
        suites = [f"{release}-backports"]
    else:  # the release may be in three archives: the newest version counts, mostly the security archive's
        suites = [release, f"{release}-security", f"{release}-updates"]
        suites += [suite.replace(release, "stable") for suite in suites]
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
        for dependency, exact in package.parts:
            if dependency not in found:
                choice = exact or _choose(apt_cache(["madison", dependency]), suites, version, dependency)
                wanted.append((dependency, choice))
    return suites[0], [p for p in found.values() if p.name not in (image_meta, headers_meta)]


def find_source(source: kernel_build.KernelSource, apt_cache: Callable[[Sequence[str]], str]) -> Package:
    """The package of a kernel's source in this version; if apt lacks it, the newest of the series."""
    offered = [
        line.split("|")[1].strip()
        for line in apt_cache(["madison", source.package]).splitlines()
        if line.endswith(" Packages")
    ]
    if not offered:
        raise UsageError(f"apt knows no {source.package}: run `sudo apt-get update`")
    version = source.version if source.version in offered else offered[0]
    return parse_package(apt_cache(["show", f"{source.package}={version}"]), source.package)


def codename() -> str:
    """The name of the Debian release that this host runs. UsageError for any other system."""
    try:
        system = platform.freedesktop_os_release()
    except OSError:
        system = {}
    name = system.get("VERSION_CODENAME", "")
    if system.get("ID") != "debian" or not name:
        raise UsageError("this is no Debian release, and Debian's kernels are needed: use Debian 12 or later")
    return name


def suite_versions(madison: str, suites: Sequence[str]) -> list[str]:
    """The versions that `apt-cache madison` lists for these suites, newest first."""
    versions = []
    for line in madison.splitlines():
        _, _, rest = line.partition("|")
        version, _, origin = rest.partition("|")
        words = origin.split()  # address, suite/component, architecture, "Packages"
        if words and words[-1] == "Packages" and words[1].rpartition("/")[0] in suites:
            versions.append(version.strip())
    return sorted(versions, key=Version, reverse=True)


def _choose(madison: str, suites: Sequence[str], preferred: str, name: str) -> str:
    offered = suite_versions(madison, suites)
    if not offered:
        raise UsageError(f"apt knows no {name} of {suites[0]}: run `sudo apt-get update`")
    return preferred if preferred in offered else offered[0]


def parse_package(record: str, name: str) -> Package:
    """The package of this name, from what `apt-cache show` prints. UsageError if that is empty."""
    fields = Packages(record)  # its first paragraph
    if fields.get("Package") != name:
        raise UsageError(f"apt knows no {name}: run `sudo apt-get update`")
    parts = []
    for dependency, *_ in fields.relations["depends"] or ():  # of alternatives, the first, as apt does
        if PARTS.fullmatch(dependency["name"]):
            relation, version = dependency["version"] or (None, None)
            parts.append((str(dependency["name"]), version if relation == "=" else None))
    return Package(name, fields["Version"], int(fields["Size"]), tuple(parts))


def image_release(packages: Sequence[Package]) -> str:
    """The kernel release that the image package carries in its name."""
    return next(p.name.removeprefix("linux-image-") for p in packages if p.name.startswith("linux-image-"))


def run_apt_cache(arguments: Sequence[str]) -> str:
    return run(["apt-cache", *arguments], env={"LC_ALL": "C"}).decode()


def run(command: Sequence[str], data: bytes | None = None, env: Mapping[str, str] | None = None) -> bytes:
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
    # For an unknown package apt-cache fails, and its output is empty, which the callers detect.
    if done.returncode and command[0] != "apt-cache":
        lines = done.stderr.decode(errors="replace").strip().splitlines() or ["no reason given"]
        raise UsageError(f"{command[0]} failed: {lines[-1]}")
    return done.stdout


def download(label: str, packages: Sequence[Package], into: Path, progress: Tell) -> list[Path]:
    """Fetch packages with apt, which checks their signatures. Packages that are already there are kept."""
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
