# SPDX-License-Identifier: GPL-2.0-only
"""Finding guest kernels in apt's lists, and taking their packages' content apart; no network."""

import gzip
import json
import lzma
import os
import platform
import queue
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tests.unit.programs import WATCHDOG_S

from tailgate.base.errors import UsageError
from tailgate.base.paths import cache_dir
from tailgate.guest import apt, kernels, packages

MADISON = """\
 linux-image-amd64 | 9.12.5-1~bpo | http://mirror/debian bookworm-backports/main amd64 Packages
 linux-image-amd64 |  9.1.7-2 | http://mirror/debian-security bookworm-security/main amd64 Packages
 linux-image-amd64 |  9.1.6-1 | http://mirror/debian bookworm/main amd64 Packages
linux-signed | 9.1.6+1 | http://mirror/debian bookworm/main Sources
"""


def fake_apt(stable: bool = True, flavour: str = "amd64") -> Callable[[Sequence[str]], str]:
    """An apt-cache that knows one kernel of a flavour in each suite, made like Debian's."""

    def record(name: str, version: str, depends: str, size: int) -> str:
        return (
            f"Package: {name}\nVersion: {version}\nDepends: {depends}\nSize: {size}\nDescription: x\n y: z\n"
        )

    abi, v = ("9.1.0-7", "9.1.7-2") if stable else ("9.12.5+deb12", "9.12.5-1~bpo")
    r, common = f"{abi}-{flavour}", f"{abi}-common{'-rt' if flavour != 'amd64' else ''}"
    alternatives = f"linux-image-{r} (= {v}) | linux-image-{r}-unsigned (= {v})"
    headers_need = f"linux-headers-{common} (= {v}), {alternatives}, linux-kbuild-9 (>= 9.0), gcc-12"
    shown = {
        f"linux-image-{flavour}={v}": record(f"linux-image-{flavour}", v, f"linux-image-{r} (= {v})", 1),
        f"linux-headers-{flavour}={v}": record(f"linux-headers-{flavour}", v, f"linux-headers-{r}", 1),
        f"linux-image-{r}={v}": record(f"linux-image-{r}", v, "kmod, initramfs-tools | other", 70),
        f"linux-headers-{r}={v}": record(f"linux-headers-{r}", v, headers_need, 2),
        f"linux-headers-{common}={v}": record(f"linux-headers-{common}", v, "", 8),
        f"linux-kbuild-9={v}": record("linux-kbuild-9", v, "libc6 (>= 2.34)", 3),
    }

    def run(arguments: Sequence[str]) -> str:
        if arguments[0] == "madison":
            return MADISON.replace("linux-image-amd64", arguments[1])
        return shown.get(arguments[1], "")

    return run


@pytest.fixture
def on_bookworm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apt, "codename", lambda: "bookworm")


@pytest.mark.usefixtures("on_bookworm")
@pytest.mark.parametrize(
    ("label", "suite", "release", "common"),
    [
        ("stable", "bookworm", "9.1.0-7-amd64", "9.1.0-7-common"),
        ("backports", "bookworm-backports", "9.12.5+deb12-amd64", "9.12.5+deb12-common"),
        ("stable-rt", "bookworm", "9.1.0-7-rt-amd64", "9.1.0-7-common-rt"),
        ("backports-rt", "bookworm-backports", "9.12.5+deb12-rt-amd64", "9.12.5+deb12-common-rt"),
    ],
)
def test_meta_package_leads_to_the_kernels_own_packages(
    label: str, suite: str, release: str, common: str
) -> None:
    flavour = "rt-amd64" if label.endswith("-rt") else "amd64"
    archive = fake_apt(stable=label.startswith("stable"), flavour=flavour)
    found_suite, packages = apt.find_packages(label, archive)
    assert found_suite == suite
    assert apt.image_release(packages) == release
    assert {p.name for p in packages} == {
        f"linux-image-{release}",
        f"linux-headers-{release}",
        f"linux-headers-{common}",
        "linux-kbuild-9",
    }
    assert sum(p.size for p in packages) == 83


@pytest.mark.usefixtures("on_bookworm")
def test_unknown_suite_names_the_way_out() -> None:
    with pytest.raises(UsageError, match="bookworm-backports: run `make setup-demo`"):
        apt.find_packages("backports", lambda _: "")


def test_unknown_label() -> None:
    with pytest.raises(UsageError, match="'testing': use stable, backports, "):
        kernels.resolve(["testing"], print)


def test_only_debian_has_suites(monkeypatch: pytest.MonkeyPatch) -> None:
    system = {"ID": "debian", "VERSION_CODENAME": "trixie"}
    monkeypatch.setattr(platform, "freedesktop_os_release", lambda: system)
    assert apt.codename() == "trixie"
    for key, value in (("ID", "ubuntu"), ("VERSION_CODENAME", "")):
        monkeypatch.setattr(platform, "freedesktop_os_release", lambda k=key, v=value: system | {k: v})
        with pytest.raises(UsageError, match="use Debian 12 or later"):
            apt.codename()


def test_the_newest_version_of_the_suites_comes_first() -> None:
    """By Debian's rules, under which ~ sorts before everything."""
    lines = (f"x | {v} | http://m bookworm/main amd64 Packages\n" for v in ("9.9-1", "9.10-1~rc1", "9.10-1"))
    assert apt.suite_versions("".join(lines), ["bookworm"]) == ["9.10-1", "9.10-1~rc1", "9.9-1"]


def test_what_a_package_needs_of_the_kernel() -> None:
    record = (
        "Package: p\nVersion: 1:2-3\nSize: 7\n"
        "Depends: linux-kbuild-9 (>= 9.0), linux-image-9 (= 9.1-2) | linux-image-9-unsigned (= 9.1-2),\n"
        " gcc-12, linux-headers-9-common:amd64 (=9.1-2)\nDescription: x\n y: z\n\n"
        "Package: p\nVersion: 1:1-1\nSize: 5\n"
    )
    parts = (("linux-kbuild-9", None), ("linux-image-9", "9.1-2"), ("linux-headers-9-common", "9.1-2"))
    assert apt.parse_package(record, "p") == apt.Package("p", "1:2-3", 7, parts)
    with pytest.raises(UsageError, match="apt knows no p"):
        apt.parse_package("", "p")


def put_in_cache(cache: Path, label: str, release: str) -> None:
    (cache / "kernels" / release).mkdir(parents=True)
    (cache / "kernels" / release / "btf").touch()
    records = {label: {"release": release, "packages": {}}}
    (cache / "kernels/kernels.json").write_text(json.dumps(records))


def test_cached_kernel_asks_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAILGATE_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    put_in_cache(tmp_path, "backports", "9.12.5+deb12-amd64")
    said: list[str] = []
    (kernel,) = kernels.resolve(["backports"], said.append)
    assert (kernel.label, kernel.series, said) == ("backports", "9.12", [])
    assert kernel.headers == kernel.root / "usr/src/linux-headers-9.12.5+deb12-amd64"


def test_record_without_its_folder_is_not_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAILGATE_CACHE", str(tmp_path))
    put_in_cache(tmp_path, "stable", "9.1.0-7-amd64")
    assert set(kernels.cached_kernels()) == {"stable"}
    (tmp_path / "kernels/9.1.0-7-amd64/btf").unlink()
    assert kernels.cached_kernels() == {}


@pytest.mark.parametrize("lib", ["lib", "usr/lib"])
def test_relocated_headers_find_each_other(tmp_path: Path, lib: str) -> None:
    """Wherever the cache lies, and whether or not the release has merged /lib into /usr/lib."""
    arch, common = (tmp_path / f"usr/src/linux-headers-9.1.0-7-{part}" for part in ("amd64", "common"))
    modules = tmp_path / lib / "modules/9.1.0-7-amd64"
    for folder in (arch, common, modules):
        folder.mkdir(parents=True)
    if lib != "lib":
        (tmp_path / "lib").symlink_to(lib)
    (arch / "Makefile").write_text(
        "O = /usr/src/linux-headers-9.1.0-7-amd64\ninclude /usr/src/linux-headers-9.1.0-7-common/Makefile\n"
    )
    (common / "Makefile").write_text("all:\n\t@echo $(O)\n")
    (modules / "build").symlink_to("/usr/src/linux-headers-9.1.0-7-amd64")
    packages.relocate_headers(tmp_path, "9.1.0-7-amd64")
    command = ["make", "-s", "-C", str(modules / "build")]
    made = subprocess.run(
        command, capture_output=True, text=True, check=True, env={"PATH": os.environ["PATH"]}
    )
    assert made.stdout.strip() == str(arch)


def bzimage(payload: bytes, release: str) -> bytes:
    """The few fields of a bzImage that are read, around a payload."""
    image = bytearray(2048)
    image[0x202:0x206] = b"HdrS"
    image[0x1F1] = 1  # setup sectors, beside the boot sector
    struct.pack_into("<H", image, 0x20E, 0x300)
    struct.pack_into("<II", image, 0x248, 512, len(payload))
    text = f"{release} (debian) #1\0".encode()
    image[0x500 : 0x500 + len(text)] = text
    return bytes(image[: 1024 + 512]) + payload


@pytest.mark.parametrize(
    "payload",
    [
        lzma.compress(b"content", lzma.FORMAT_XZ, lzma.CHECK_CRC32) + b"\7\0\0\0",
        gzip.compress(b"content"),
    ],
    ids=["xz", "gzip"],
)
def test_image_is_unpacked(payload: bytes) -> None:
    assert packages.unpack_image(bzimage(payload, "9.1.0-7-amd64")) == ("9.1.0-7-amd64", b"content")


def test_unknown_packing_and_no_image() -> None:
    with pytest.raises(UsageError, match="packed in an unknown way"):
        packages.unpack_image(bzimage(b"????", "9.1.0-7-amd64"))
    with pytest.raises(UsageError, match="no x86 bzImage"):
        packages.unpack_image(bytes(4096))


def test_elf_section(tmp_path: Path) -> None:
    source, program = tmp_path / "x.c", tmp_path / "x.o"
    source.write_text('__attribute__((section(".BTF"))) const char types[] = "type information";\n')
    subprocess.run(["gcc", "-c", "-o", str(program), str(source)], check=True)
    elf = program.read_bytes()
    assert packages.elf_section(elf, ".BTF") == b"type information\0"
    with pytest.raises(UsageError, match=r"has no \.missing"):
        packages.elf_section(elf, ".missing")
    with pytest.raises(UsageError, match="no ELF file"):
        packages.elf_section(b"MZ" + elf, ".BTF")


@pytest.mark.parametrize("variable", ["TAILGATE_CACHE", "XDG_CACHE_HOME", "HOME"])
def test_the_cache_is_where_the_user_wants_it(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As setup/host.sh and setup/stages.sh have it."""
    for other in ("TAILGATE_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv(variable, str(tmp_path))
    below = {"TAILGATE_CACHE": "", "XDG_CACHE_HOME": "tailgate", "HOME": ".cache/tailgate"}[variable]
    assert cache_dir() == tmp_path / below


@pytest.mark.parametrize("text", ["", "[]", '{"stable": {}}', '{"stable": 1}'])
def test_damaged_list_of_kernels_is_an_empty_one(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAILGATE_CACHE", str(tmp_path))
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels/kernels.json").write_text(text)
    assert kernels.cached_kernels() == {}


def test_one_prepares_kernels_and_the_other_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAILGATE_CACHE", str(tmp_path))
    said: queue.Queue[str] = queue.Queue()
    with kernels._locked(tmp_path, said.put):
        other = threading.Thread(target=lambda: enter(tmp_path, said))
        other.start()
        assert said.get(timeout=WATCHDOG_S) == "kernels: waiting for another tailgate that prepares them"
        time.sleep(0.2)
        assert said.empty()
    other.join()
    assert said.get_nowait() == "entered"


def enter(folder: Path, said: "queue.Queue[str]") -> None:
    with kernels._locked(folder, said.put):
        said.put("entered")
