# SPDX-License-Identifier: GPL-2.0-only
"""Programs of the host for a guest, with the libraries that they need there.

Debian's fio is linked with client libraries of network storage, which need fifty libraries of 80 MB in all. A
guest has no network, so it gets empty libraries of the same names, whose functions end the program. This
saves a fifth of a second at each start of fio, and a quarter of a GiB of the guest's memory. The program
itself and all other libraries are the host's own files. Without a compiler on the host, the real libraries
are used.
"""

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection, GNUVerSymSection
from elftools.elf.sections import Section, SymbolTableSection

from tailgate.base.errors import UsageError
from tailgate.base.paths import cache_dir
from tailgate.guest.cpio import Tree, file

#: Prefixes of libraries that are replaced: Ceph, Gluster, RDMA, NBD, iSCSI, NFS, HTTP, persistent memory.
NOT_FOR_GUESTS = (
    *("librados.", "librbd.", "libgfapi.", "libibverbs.", "librdmacm.", "libnbd.", "libiscsi.", "libnfs."),
    *("libcurl", "libpmem"),
)
#: Debian's packages of programs, if they have other names.
PACKAGES = {
    "busybox": "busybox-static",
    "chrt": "util-linux",
    "mke2fs": "e2fsprogs",
    "mkfs.ext4": "e2fsprogs",
    "mkfs.f2fs": "f2fs-tools",
    "mkfs.xfs": "xfsprogs",
}


def tree(names: Sequence[str]) -> Tree:
    """These programs in /bin, and their libraries under the paths by which the loader finds them.

    UsageError if one is missing.
    """
    out: Tree = {}
    for name in names:
        program = find(name)
        out[f"bin/{name}"] = file(program.read_bytes(), executable=True)
        for path, library in libraries(program).items():
            out[path.lstrip("/")] = file(library.read_bytes(), executable=True)
    return out


def find(name: str) -> Path:
    """A program of the host. UsageError if it is missing."""
    found = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if not found:
        raise UsageError(
            f"{name} is missing, and the guest needs it: apt-get install {PACKAGES.get(name, name)}"
        )
    return Path(found)


def libraries(program: Path) -> dict[str, Path]:
    """Shared libraries of a program: their paths in the guest, and their files."""
    unwanted = [name for name in _named_libraries(program) if name.startswith(NOT_FOR_GUESTS)]
    real = _loaded(program)
    if not unwanted or not (folder := _stand_ins(program, {n: real[n] for n in unwanted if n in real})):
        return {str(path): path for path in real.values()}
    found = {}
    for name, path in _loaded(program, folder).items():
        found[str(real[name] if path.parent == folder else path)] = path
    return found


@contextlib.contextmanager
def _elf(path: Path) -> Iterator[Mapping[str, Section]]:
    """The sections of an ELF file by name; none of any other file."""
    with path.open("rb") as file:
        try:
            sections = {section.name: section for section in ELFFile(file).iter_sections()}
        except ELFError:
            sections = {}
        yield sections


def _named_libraries(program: Path) -> list[str]:
    """The names of the libraries that a program itself needs."""
    with _elf(program) as sections:
        dynamic = sections.get(".dynamic")
        if not isinstance(dynamic, DynamicSection):
            return []
        tags = dynamic.iter_tags("DT_NEEDED")
        return [tag.needed for tag in tags]  # type: ignore[attr-defined]  # tags of this kind alone have it


def _loaded(program: Path, first: Path | None = None) -> dict[str, Path]:
    """The libraries that the loader finds for a program, by name; it looks in the folder `first` first."""
    environment = dict(os.environ) | ({"LD_LIBRARY_PATH": str(first)} if first else {})
    told = subprocess.run(
        ["ldd", str(program)], capture_output=True, text=True, check=False, env=environment
    ).stdout
    if lost := re.search(r"^\s*(\S+) => not found", told, re.MULTILINE):
        raise UsageError(f"{program} does not run here, {lost[1]} is missing: install its package again")
    return {Path(path).name: Path(path) for path in re.findall(r"(/\S+) \(0x", told)}


def _stand_ins(program: Path, unwanted: dict[str, Path]) -> Path | None:
    """A folder in the cache with empty libraries in place of these; None if they cannot be made."""
    digest = hashlib.sha256(program.read_bytes() + Path(__file__).read_bytes())
    for path in unwanted.values():
        digest.update(path.read_bytes())
    folder = cache_dir() / "stand-ins" / digest.hexdigest()[:16]
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    needed = _needed(program)
    with tempfile.TemporaryDirectory(dir=folder.parent) as name:
        new = Path(name, "new")
        new.mkdir()
        for soname, path in unwanted.items():
            theirs = _defined(path)
            if not _compile(soname, {s: v for s, v in needed.items() if s in theirs}, new):
                return None
        told = subprocess.run(
            ["ldd", "-r", str(program)],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "LD_LIBRARY_PATH": str(new)},
        )
        if re.search("undefined symbol|not found|not defined", told.stdout + told.stderr):
            return None
        try:
            new.rename(folder)
        except OSError:  # another process was faster
            return folder
    return folder


def _functions(sections: Mapping[str, Section], defined: bool) -> Iterator[tuple[int, str]]:
    """Index and name of the functions that an ELF file defines; with `defined` false, of those that it
    needs.
    """
    symbols = sections.get(".dynsym")
    if isinstance(symbols, SymbolTableSection):
        for index, symbol in enumerate(symbols.iter_symbols()):
            if symbol["st_info"]["type"] == "STT_FUNC" and (symbol["st_shndx"] != "SHN_UNDEF") == defined:
                yield index, symbol.name


def _defined(library: Path) -> set[str]:
    """The functions that a library defines."""
    with _elf(library) as sections:
        return {name for _, name in _functions(sections, defined=True)}


def _needed(program: Path) -> dict[str, str]:
    """The functions that a program takes from its libraries, with their versions (empty if they have
    none).
    """
    with _elf(program) as sections:
        numbers, versions = sections.get(".gnu.version"), sections.get(".gnu.version_r")
        if not isinstance(numbers, GNUVerSymSection) or not isinstance(versions, GNUVerNeedSection):
            return {name: "" for _, name in _functions(sections, defined=False)}
        names = {v["vna_other"]: v.name for _, of_library in versions.iter_versions() for v in of_library}
        return {
            name: names.get(numbers.get_symbol(index)["ndx"], "")
            for index, name in _functions(sections, defined=False)
        }


def _compile(soname: str, functions: dict[str, str], folder: Path) -> bool:
    """Make an empty library with these functions; whether that succeeded."""
    source = "".join(f"void {name}(void) {{ __builtin_trap(); }}\n" for name in sorted(functions))
    script = ""
    for version in sorted(set(functions.values()) - {""}):
        names = "".join(f" {name};" for name in sorted(functions) if functions[name] == version)
        script += f"{version} {{ global:{names} }};\n"
    with tempfile.TemporaryDirectory() as scratch:
        code, versions = Path(scratch, "empty.c"), Path(scratch, "versions")
        code.write_text(source)
        versions.write_text(script)
        command = ["gcc", "-shared", "-nostdlib", "-fPIC", "-w", f"-Wl,-soname,{soname}"]
        command += [f"-Wl,--version-script={versions}"] if script else []
        try:
            done = subprocess.run(
                [*command, "-o", str(folder / soname), str(code)], capture_output=True, check=False
            )
        except FileNotFoundError:
            return False
    return done.returncode == 0
