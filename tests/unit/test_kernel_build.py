# SPDX-License-Identifier: GPL-2.0-only
"""Debug kernels: a build is checked, resumed and found again. Their source here is a few lines of make."""

import json
import subprocess
from pathlib import Path

import pytest

from tailgate.base.errors import UsageError
from tailgate.guest import apt, kernel_build, kernels
from tailgate.guest.kernel_build import KernelSource

SOURCE = KernelSource("linux-source-9.1", "9.1.7-2", "kasan")
#: A kernel's build as far as it is looked at from outside; it compiles the host's `true`.
MAKEFILE = """\
allnoconfig:
	@grep -v CONFIG_GONE $(KCONFIG_ALLCONFIG) > .config
	@mkdir -p include/config scripts && echo 9.1.7-kasan > include/config/kernel.release
	@for f in Kbuild Kconfig Module.symvers include/a.h scripts/b.c scripts/b.o; do echo > $$f; done
vmlinux: once.o
	@cp /bin/true vmlinux
once.o:
	@echo compiled >> ../compiled
	@test ! -e ../broken || { echo "a.c:1: error: it is broken"; false; }
	@touch once.o
modules:
modules_install:
	@mkdir -p $(INSTALL_MOD_PATH)/lib/modules/9.1.7-kasan
"""


@pytest.fixture
def configurations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "configurations"
    folder.mkdir()
    (folder / "base.config").write_text("# all of it\nCONFIG_SMP=y\n")
    (folder / "kasan.config").write_text("CONFIG_KASAN=y\n# CONFIG_KCSAN is not set\n")
    monkeypatch.setattr(kernel_build, "CONFIGURATIONS", folder)
    monkeypatch.setattr(kernel_build, "check_host", lambda _: None)
    return folder


@pytest.fixture
def deb(tmp_path: Path) -> Path:
    """A package of a source, as Debian makes them."""
    tree = tmp_path / "linux-source-9.1"
    tree.mkdir()
    (tree / "Makefile").write_text(MAKEFILE)
    (tree / "block").mkdir()
    (tree / "block/kyber-iosched.c").write_text("int kyber;\n")
    package = tmp_path / "package"
    (package / "usr/src").mkdir(parents=True)
    (package / "DEBIAN").mkdir()
    control = (
        "Package: linux-source-9.1\nVersion: 9.1.7-2\nArchitecture: all\nMaintainer: n\nDescription: d\n"
    )
    (package / "DEBIAN/control").write_text(control)
    packed = package / "usr/src/linux-source-9.1.tar.xz"
    subprocess.run(["tar", "-cJf", str(packed), "-C", str(tmp_path), tree.name], check=True)
    subprocess.run(["dpkg-deb", "--build", str(package), str(tmp_path / "source.deb")], check=True)
    return tmp_path / "source.deb"


def test_every_option_must_be_taken() -> None:
    config = 'CONFIG_A=y\nCONFIG_B=m\n# CONFIG_C is not set\nCONFIG_E="x"\n'
    assert (
        kernel_build.lost_options('# a comment\nCONFIG_A=y\nCONFIG_E="x"\n# CONFIG_D is not set\n', config)
        == []
    )
    wanted = "CONFIG_B=y\nCONFIG_C=y\nCONFIG_D=y\n# CONFIG_A is not set\n"
    assert kernel_build.lost_options(wanted, config) == wanted.splitlines()


def test_our_configurations_name_an_option_once() -> None:
    for kind in kernel_build.KINDS:
        lines = [
            line
            for line in KernelSource("s", "v", kind).configuration().splitlines()
            if line.startswith("CONFIG")
        ]
        names = [line.partition("=")[0] for line in lines]
        assert len(names) == len(set(names))


@pytest.mark.usefixtures("configurations")
def test_key_stands_for_options_and_version(configurations: Path) -> None:
    key = SOURCE.key()
    assert key == SOURCE.key()
    assert key != KernelSource("linux-source-9.1", "9.1.8-1", "kasan").key()
    base = configurations / "base.config"
    base.write_text(f"# why\n\n{base.read_text()}")
    assert key == SOURCE.key()
    for option in "CONFIG_PCI=y\n", "# CONFIG_PCI is not set\n":
        base.write_text("CONFIG_SMP=y\n" + option)
        assert key != SOURCE.key()


@pytest.mark.usefixtures("configurations")
def test_build(tmp_path: Path, deb: Path) -> None:
    said: list[str] = []
    release, out = kernel_build.build(SOURCE, lambda: deb, tmp_path / "work", said.append)
    assert release == "9.1.7-kasan"
    headers = out / "root/lib/modules/9.1.7-kasan/build"
    assert {f.name for f in headers.rglob("*") if f.is_file()} >= {"a.h", "Module.symvers", "Makefile"}
    assert (headers / "scripts/b.c").is_file()
    assert not (headers / "scripts/b.o").exists()
    assert "CONFIG_KASAN=y" in (out / "root/boot/config-9.1.7-kasan").read_text()
    assert (out / "vmlinux").is_file()
    assert (out / "symbols").is_file()
    assert said[-1].startswith("built 9.1.7-kasan in ")


@pytest.mark.usefixtures("configurations")
def test_failed_build_says_why_and_goes_on_later(tmp_path: Path, deb: Path) -> None:
    work = tmp_path / "work"

    def never() -> Path:
        raise AssertionError("the source is there already")

    work.mkdir()
    (work / "broken").touch()
    kernel_build.unpack_source(deb, SOURCE, work, work / "source", print)
    with pytest.raises(UsageError, match=r"a\.c:1: error: it is broken \(see .*/log\)"):
        kernel_build.build(SOURCE, never, work, print)
    (work / "broken").unlink()
    kernel_build.build(SOURCE, never, work, print)
    kernel_build.build(SOURCE, never, work, print)
    assert (work / "compiled").read_text() == "compiled\n" * 2


def test_option_that_a_source_does_not_know(tmp_path: Path, deb: Path, configurations: Path) -> None:
    (configurations / "kasan.config").write_text("CONFIG_KASAN=y\nCONFIG_GONE=y\n")
    with pytest.raises(UsageError, match=r"linux-source-9\.1 9\.1\.7-2 does not take CONFIG_GONE=y"):
        kernel_build.build(SOURCE, lambda: deb, tmp_path / "work", print)


def test_missing_programs_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match=r"bison, .*dwarves.* run `setup/host.sh check-debug`"):
        kernel_build.check_host(tmp_path)


MADISON = """\
 linux-source-9.1 |  9.1.8-1 | http://mirror/debian-security bookworm-security/main amd64 Packages
 linux-source-9.1 |  9.1.7-2 | http://mirror/debian bookworm/main amd64 Packages
linux | 9.1.9-1 | http://mirror/debian bookworm/main Sources
"""


@pytest.mark.parametrize(("wanted", "chosen"), [("9.1.7-2", "9.1.7-2"), ("9.1.5-1", "9.1.8-1")])
def test_source_of_the_same_version_or_else_the_newest(wanted: str, chosen: str) -> None:
    def apt_cache(arguments: list[str] | tuple[str, ...] | object) -> str:
        assert isinstance(arguments, list)
        if arguments[0] == "madison":
            return MADISON
        name, _, version = arguments[1].partition("=")
        return f"Package: {name}\nVersion: {version}\nSize: 1\n"

    assert apt.find_source(KernelSource("linux-source-9.1", wanted, "kasan"), apt_cache).version == chosen


def test_no_source_names_the_way_out() -> None:
    with pytest.raises(UsageError, match=r"apt knows no linux-source-9\.1: run `sudo apt-get update`"):
        apt.find_source(SOURCE, lambda _: "")


def test_debug_kernel_is_built_once_for_a_configuration(
    tmp_path: Path, configurations: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[KernelSource] = []

    def build(source: KernelSource, fetch: object, work: Path, progress: object) -> tuple[str, Path]:
        built.append(source)
        (work / "result").mkdir(parents=True)
        (work / "result/vmlinux").touch()
        return "9.1.7-kasan", work / "result"

    folder = tmp_path / "kernels"
    (folder / "9.1.0-7-amd64").mkdir(parents=True)
    (folder / "9.1.0-7-amd64/btf").touch()
    stock = {"release": "9.1.0-7-amd64", "packages": {"linux-image-9.1.0-7-amd64": "9.1.7-2"}}
    (folder / "kernels.json").write_text(json.dumps({"stable": stock}))
    monkeypatch.setenv("TAILGATE_CACHE", str(tmp_path))
    monkeypatch.setattr(kernel_build, "build", build)
    monkeypatch.setattr(kernels, "elf_section", lambda *_: b"")
    monkeypatch.setattr(kernels, "run_apt_cache", lambda a: MADISON if a[0] == "madison" else SHOWN)
    for _ in range(2):
        (kernel,) = kernels.resolve(["stable-kasan"], print)
        assert (kernel.label, kernel.release) == ("stable-kasan", "9.1.7-kasan")
    assert built == [SOURCE]
    (configurations / "kasan.config").write_text("CONFIG_KASAN=y\n")
    kernels.resolve(["stable-kasan"], print)
    assert built == [SOURCE, SOURCE]
    assert not list(folder.glob(".building*"))


SHOWN = "Package: linux-source-9.1\nVersion: 9.1.7-2\nSize: 1\n"


def test_one_folder_of_a_source_is_fetched_once(
    tmp_path: Path, deb: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAILGATE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache/kernels").mkdir(parents=True)
    record = {"release": "9.1.0-amd64", "packages": {"linux-image-9.1.0-amd64": "9.1.7-2"}}
    (tmp_path / "cache/kernels/kernels.json").write_text(json.dumps({"stable": record}))
    package = apt.Package("linux-source-9.1", "9.1.7-2", 1, ())
    asked = []

    def download(label: str, packages: object, into: Path, progress: object) -> list[Path]:
        asked.append(label)
        into.mkdir()
        return [deb]

    monkeypatch.setattr(kernels, "find_source", lambda *_: package)
    monkeypatch.setattr(kernels, "download", download)
    for _ in range(2):
        version, block = kernels.block_layer("stable", lambda _: None)
        assert version == "9.1.7-2"
        assert (block / "kyber-iosched.c").read_text() == "int kyber;\n"
        assert not (block.parent / "Makefile").exists()
    assert asked == ["stable"]
