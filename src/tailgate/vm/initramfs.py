# SPDX-License-Identifier: GPL-2.0-only
"""The guest's file system: archives that the kernel unpacks at boot, or init when it gets its job.

The base is what all jobs have: init, busybox, and programs of the host with their libraries. It is kept in
the cache under a name made from all that goes into it. What comes on top: stock modules with all that they
depend on and the indexes that modprobe reads, and the job with its own files and modules.

An archive depends on names and contents alone (sorted, no times, no owners), because in virtual time its
bytes decide the figures' last digits. Format: the kernel's
Documentation/driver-api/early-userspace/buffer-format.rst.
"""

import gzip
import hashlib
import lzma
import os
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tailgate.cache import cache_dir
from tailgate.errors import UsageError
from tailgate.kernels import Kernel

GUEST = Path(__file__).parent / "guest"
FOLDERS = ("bin", "cg", "dev", "etc", "lib/modules/extra", "proc", "root", "sbin", "sys", "tmp")
UNPACK: Mapping[str, Callable[[bytes], bytes]] = {
    ".xz": lzma.decompress,
    ".gz": gzip.decompress,
    ".zst": lambda data: subprocess.run(["zstd", "-dcq"], input=data, capture_output=True, check=True).stdout,
}


@dataclass(frozen=True)
class Node:
    """A file, folder or symbolic link: what it holds, and its mode as in stat(2)."""

    mode: int
    content: bytes = b""


Tree = dict[str, Node]  # by path, without a leading slash

FOLDER = Node(stat.S_IFDIR | 0o755)


def file(content: bytes, executable: bool = False) -> Node:
    """A regular file."""
    return Node(stat.S_IFREG | (0o755 if executable else 0o644), content)


def link(target: str) -> Node:
    """A symbolic link."""
    return Node(stat.S_IFLNK | 0o777, target.encode())


def archive(tree: Mapping[str, Node]) -> bytes:
    """A newc archive of these files and the folders that they lie in."""
    whole = dict(tree)
    for path in tree:
        for parent in Path(path).parents:
            if str(parent) != ".":
                whole.setdefault(str(parent), FOLDER)
    out = bytearray()
    for number, path in enumerate(sorted(whole), 1):
        _append(out, number, path, whole[path])
    _append(out, 0, "TRAILER!!!", Node(0))
    out += bytes(-len(out) % 512)
    return bytes(out)


def _append(out: bytearray, number: int, path: str, node: Node) -> None:
    name = path.encode() + b"\0"
    links = 2 if stat.S_ISDIR(node.mode) else 1
    # inode, mode, uid, gid, links, time, size, device twice, name's size, checksum
    fields = (number, node.mode, 0, 0, links, 0, len(node.content), 0, 0, 0, 0, len(name), 0)
    out += b"070701" + b"".join(b"%08X" % f for f in fields) + name
    out += bytes(-len(out) % 4)
    out += node.content
    out += bytes(-len(out) % 4)


# --- init, busybox, programs -------------------------------------------------------------------------------


def base(programs: Sequence[str]) -> Path:
    """The archive of everything that is the same for every kernel, from the cache.

    `programs` are looked up on the host by name. UsageError if one is missing.
    """
    wanted = {name: _which(name) for name in ("busybox", *programs)}
    sources = {f"bin/{name}": path.resolve() for name, path in wanted.items()}
    for path in wanted.values():
        for library in libraries(path):
            sources[library.lstrip("/")] = Path(library).resolve()
    ours = [f for f in sorted(GUEST.iterdir()) if f.is_file()]
    key = _key([*sources, *(f.name for f in ours)], [*sources.values(), *ours])

    def make() -> bytes:
        tree: Tree = dict.fromkeys(FOLDERS, FOLDER)
        applets = subprocess.run(["busybox", "--list"], capture_output=True, text=True, check=True)
        tree |= {f"bin/{name}": link("busybox") for name in applets.stdout.split()}
        tree["sbin/modprobe"] = link("../bin/busybox")  # the kernel calls it by this path
        tree |= {name: file(path.read_bytes(), executable=True) for name, path in sources.items()}
        tree |= {f"bin/{f.name}": file(f.read_bytes(), executable=True) for f in ours if f.name != "init"}
        tree["init"] = file((GUEST / "init").read_bytes(), executable=True)
        return archive(tree)

    return _cached(f"base-{key}", make)


def shell_only(init: str) -> bytes:
    """The archive of a guest that has busybox and this init."""
    busybox = file(_which("busybox").read_bytes(), executable=True)
    tree = {"bin/busybox": busybox, "dev": FOLDER, "init": file(init.encode(), executable=True)}
    return archive(tree | {f"bin/{name}": link("busybox") for name in ("dd", "mount")})


def _which(program: str) -> Path:
    found = shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if not found:
        package = {"busybox": "busybox-static", "mke2fs": "e2fsprogs", "mkfs.xfs": "xfsprogs"}.get(
            program, program
        )
        raise UsageError(f"{program} is missing, and the guest needs it: apt-get install {package}")
    return Path(found)


def libraries(program: Path) -> list[str]:
    """The shared libraries of a program of the host, under the paths by which its loader finds them."""
    told = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False)
    if lost := re.search(r"^\s*(\S+) => not found", told.stdout, re.MULTILINE):
        raise UsageError(f"{program} does not run here, {lost[1]} is missing: install its package again")
    return re.findall(r"(/\S+) \(0x", told.stdout)


# --- stock modules -----------------------------------------------------------------------------------------


def stock_modules(kernel: Kernel, names: Iterable[str]) -> Tree:
    """These modules of the kernel with all that they need, and their indexes. Names are those of modprobe.

    UsageError for a module that the kernel does not have.
    """
    folder = kernel.root / "lib/modules" / kernel.release
    dep, builtin, alias, softdep = (
        (folder / f"modules.{index}").read_text() for index in ("dep", "builtin", "alias", "softdep")
    )
    wanted = closure(dep, builtin, [*names, *soft_needs(softdep, alias, names)])
    tree: Tree = {}
    for name in wanted:
        packed = (folder / name).read_bytes()
        tree[_plain(name)] = file(UNPACK.get(Path(name).suffix, bytes)(packed))
    lines = [f"{_plain(name)}: {' '.join(map(_plain, needs))}\n" for name, needs in wanted.items()]
    tree["modules.dep"] = file("".join(lines).encode())
    tree["modules.builtin"] = file(builtin.encode())
    inside = {_module(name) for name in wanted}
    aliases = [line for line in alias.splitlines(keepends=True) if line.rpartition(" ")[2].strip() in inside]
    tree["modules.alias"] = file("".join(aliases).encode())
    return {f"lib/modules/{kernel.release}/{name}": node for name, node in tree.items()}


def soft_needs(modules_softdep: str, modules_alias: str, names: Iterable[str]) -> list[str]:
    """What modules ask for when they run, without linking to it, such as ext4 a checksum by its alias."""
    asked = {_module(name) for name in names}
    wanted: set[str] = set()
    for line in modules_softdep.splitlines():
        words = line.split()
        if words[:1] == ["softdep"] and _module(words[1]) in asked:
            wanted.update(word for word in words[2:] if not word.endswith(":"))
    aliases = (line.split() for line in modules_alias.splitlines())
    return sorted({words[2] for words in aliases if words[:1] == ["alias"] and words[1] in wanted})


def closure(modules_dep: str, modules_builtin: str, names: Iterable[str]) -> dict[str, list[str]]:
    """Module files with the files that each needs, for these modules and all that they need, sorted.

    Of what is built into the kernel nothing is needed. UsageError for a module in neither index.
    """
    needs = {}
    by_name = {}
    for line in modules_dep.splitlines():
        path, _, rest = line.partition(":")
        needs[path] = rest.split()
        by_name[_module(path)] = path
    builtin = {_module(path) for path in modules_builtin.split()}
    found: dict[str, list[str]] = {}
    for name in names:
        plain = _module(name)
        if plain in by_name:
            path = by_name[plain]
            found |= {p: needs[p] for p in (path, *needs[path])}
        elif plain not in builtin:
            raise UsageError(f"the guest's kernel has no module {name}: check the name")
    return dict(sorted(found.items()))


def _plain(path: str) -> str:
    """A module's path once it is unpacked."""
    return path.removesuffix(Path(path).suffix) if Path(path).suffix in UNPACK else path


def _module(path: str) -> str:
    """A module's name as the kernel has it."""
    return Path(_plain(path)).name.removesuffix(".ko").replace("-", "_")


# --- the job -----------------------------------------------------------------------------------------------


def job(script: str, files: Mapping[str, Path | bytes], module_files: Sequence[Path]) -> Tree:
    """What a job brings along. Files of the host keep their execute permission, bytes have none."""
    tree: Tree = {"root/job": file(script.encode())}
    for module in module_files:
        tree[f"lib/modules/extra/{module.name}"] = file(module.read_bytes())
    for path, content in files.items():
        if isinstance(content, Path):
            executable = bool(content.stat().st_mode & stat.S_IXUSR)
            tree[path.lstrip("/")] = file(content.read_bytes(), executable)
        else:
            tree[path.lstrip("/")] = file(content)
    return tree


# --- the cache ---------------------------------------------------------------------------------------------


def _key(names: Iterable[str], files: Iterable[Path]) -> str:
    """Stands for these names, the content of these files, and the code that makes archives of them."""
    digest = hashlib.sha256()
    for path in (*files, Path(__file__)):
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    digest.update("\0".join(names).encode())
    return digest.hexdigest()[:16]


def _cached(name: str, make: Callable[[], bytes]) -> Path:
    folder = cache_dir() / "initramfs"
    path = folder / f"{name}.cpio"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as new:
            new.write(make())
        Path(new.name).replace(path)
    return path
