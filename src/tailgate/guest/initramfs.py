# SPDX-License-Identifier: GPL-2.0-only
"""The content of the guest's file system: init and busybox, stock modules, and a job's files."""

import gzip
import lzma
import stat
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from tailgate.base.errors import UsageError
from tailgate.guest import programs
from tailgate.guest.cpio import FOLDER, Tree, archive, file, link
from tailgate.guest.kernels import Kernel

INSIDE = Path(__file__).parent / "inside"
FOLDERS = ("bin", "cg", "dev", "etc", "lib/modules/extra", "proc", "root", "sbin", "sys", "tmp")
UNPACK: Mapping[str, Callable[[bytes], bytes]] = {
    ".xz": lzma.decompress,
    ".gz": gzip.decompress,
    ".zst": lambda data: subprocess.run(["zstd", "-dcq"], input=data, capture_output=True, check=True).stdout,
}


def system() -> Tree:
    """The part that every guest has: init, busybox, and Tailgate's commands."""
    busybox = programs.find("busybox")
    applets = subprocess.run([str(busybox), "--list"], capture_output=True, text=True, check=True)
    tree: Tree = dict.fromkeys(FOLDERS, FOLDER)
    tree |= {f"bin/{name}": link("busybox") for name in applets.stdout.split()}
    tree["bin/busybox"] = file(busybox.read_bytes(), executable=True)
    tree["sbin/modprobe"] = link("../bin/busybox")  # the kernel calls it by this path
    for ours in INSIDE.iterdir():
        at = ours.name if ours.name == "init" else f"bin/{ours.name}"
        tree[at] = file(ours.read_bytes(), executable=True)
    return tree


def shell_only(init: str) -> bytes:
    """The archive of a guest that has busybox and this init."""
    busybox = file(programs.find("busybox").read_bytes(), executable=True)
    tree = {"bin/busybox": busybox, "dev": FOLDER, "init": file(init.encode(), executable=True)}
    return archive(tree | {f"bin/{name}": link("busybox") for name in ("dd", "mount")})


# --- stock modules -----------------------------------------------------------------------------------------


def stock_modules(kernel: Kernel, names: Iterable[str]) -> Tree:
    """These modules of the kernel, the modules that they need, and indexes. Names are those of modprobe.

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
    """Modules that others request at run time without linking to them; ext4, for example, requests a checksum
    by alias.
    """
    asked = {_module(name) for name in names}
    wanted: set[str] = set()
    for line in modules_softdep.splitlines():
        words = line.split()
        if words[:1] == ["softdep"] and _module(words[1]) in asked:
            wanted.update(word for word in words[2:] if not word.endswith(":"))
    aliases = (line.split() for line in modules_alias.splitlines())
    return sorted({words[2] for words in aliases if words[:1] == ["alias"] and words[1] in wanted})


def closure(modules_dep: str, modules_builtin: str, names: Iterable[str]) -> dict[str, list[str]]:
    """The files of these modules and of all modules that they need, each with the files it needs, sorted.

    A module that is built into the kernel needs no file. UsageError for a module in neither index.
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


def job(
    script: str,
    files: Mapping[str, Path | bytes],
    module_files: Sequence[Path] = (),
    names: Sequence[str] = (),
) -> Tree:
    """The files of a job, with these programs of the host.

    Files of the host keep their execute permission, bytes have none.
    """
    tree = programs.tree(names)
    tree["root/job"] = file(script.encode())
    for module in module_files:
        tree[f"lib/modules/extra/{module.name}"] = file(module.read_bytes())
    for path, content in files.items():
        if isinstance(content, Path):
            executable = bool(content.stat().st_mode & stat.S_IXUSR)
            tree[path.lstrip("/")] = file(content.read_bytes(), executable)
        else:
            tree[path.lstrip("/")] = file(content)
    return tree
