# SPDX-License-Identifier: GPL-2.0-only
"""What apt knows of Debian's kernels, and their packages from its archive."""

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tailgate.base.errors import UsageError
from tailgate.guest import kernel_build
from tailgate.guest.kernel_build import Progress
from tailgate.guest.labels import RT

# Of a meta package's dependencies only these belong to the kernel; compilers and libraries are the host's.
PARTS = re.compile(r"linux-(image|modules|binary|headers|kbuild)-\S+")


def metas(label: str) -> tuple[str, str]:
    """The meta packages of a label's image and headers."""
    flavour = "rt-amd64" if label in RT else "amd64"
    return f"linux-image-{flavour}", f"linux-headers-{flavour}"


@dataclass(frozen=True)
class Package:
    """A Debian package as apt's lists describe it. `size` in bytes, of the .deb."""

    name: str
    version: str
    size: int
    depends: str


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
    # apt-cache fails for a package that it does not know; its empty answer says so as well
    if done.returncode and command[0] != "apt-cache":
        lines = done.stderr.decode(errors="replace").strip().splitlines() or ["no reason given"]
        raise UsageError(f"{command[0]} failed: {lines[-1]}")
    return done.stdout


def download(label: str, packages: Sequence[Package], into: Path, progress: Progress) -> list[Path]:
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
