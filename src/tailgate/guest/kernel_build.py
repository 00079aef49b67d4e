# SPDX-License-Identifier: GPL-2.0-only
"""Debug kernels: Debian's source of a guest's kernel, built with a configuration that detects faults.

A kind of debug kernel (`kasan`, `kcsan`) is a file of options in setup/kernels/ on top of `base.config`. All
other options are off, so a build takes minutes; Debian's own takes hours. The result has the layout of
packages.py, type information included, so that all other code treats it as any kernel.

An interrupted build continues: its folder is named after everything that decides the result.
"""

import hashlib
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tailgate.base.errors import UsageError
from tailgate.base.paths import ROOT
from tailgate.base.progress import Tell

CONFIGURATIONS = ROOT / "setup" / "kernels"
KINDS = ("kasan", "kcsan")
#: Variables of the kernel's own Makefiles, by kind. A boot with PVH begins in
#: arch/x86/platform/pvh/enlighten.c, which calls memcmp() before KASAN's shadow memory exists. A kernel with
#: KASAN in these files dies without a message.
VARIABLES: Mapping[str, Sequence[str]] = {
    "kasan": ("KASAN_SANITIZE_enlighten.o=n", "KASAN_SANITIZE_string.o=n"),
    "kcsan": (),
}
#: An option, set or off, in a file of options; all other lines are comments or blank.
OPTION = re.compile(r"^(?:CONFIG_\w+=.*|# CONFIG_\w+ is not set)\n", re.MULTILINE)
#: Programs that a build needs, with their Debian packages.
PROGRAMS = {"bc": "bc", "bison": "bison", "flex": "flex", "gcc": "gcc", "make": "make", "pahole": "dwarves"}
#: Needed free space: the tree with its objects takes 3 GB, the kept result 0.3 GB.
NEEDED_GB = 5
#: Seconds between lines of progress.
SHOW_S = 30
#: Files of a built tree that the build of modules reads, besides programs, all of which are kept.
HEADER_FILES = re.compile(
    r"(Makefile|Kbuild|Kconfig|Platform).*|.*\.(h|include|lds|mk|sh|pl|awk|tbl|symvers)"
)
HEADER_FOLDERS = ("arch/x86", "include", "scripts", "tools/objtool", "tools/bpf/resolve_btfids")


@dataclass(frozen=True)
class KernelSource:
    """A kernel's source: Debian's package of it, and the kernel to build from it.

    `version` is the package's. `kind` is one of KINDS, or empty if no kernel is to be built.
    """

    package: str
    version: str
    kind: str

    def configuration(self) -> str:
        """The options of this kind, without comments, as `make allnoconfig` takes them."""
        try:
            parts = [(CONFIGURATIONS / f"{name}.config").read_text() for name in ("base", self.kind)]
        except OSError as e:
            raise UsageError(f"cannot read {e.filename}: run Tailgate from its checkout") from e
        return f'CONFIG_LOCALVERSION="-{self.kind}"\n' + "".join(OPTION.findall("".join(parts)))

    def key(self) -> str:
        """A hash of everything that decides the result: options, variables and the source's version."""
        text = "\0".join((self.package, self.version, self.configuration(), *VARIABLES[self.kind]))
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def check_host(folder: Path) -> None:
    """UsageError if a program is missing that the build needs, or space below `folder`."""
    missing = sorted({package for program, package in PROGRAMS.items() if not shutil.which(program)})
    if not Path("/usr/include/gelf.h").is_file():
        missing.append("libelf-dev")
    if missing:
        raise UsageError(
            f"no kernel can be built without {', '.join(missing)}: run `setup/host.sh check-debug`"
        )
    free_gb = shutil.disk_usage(folder).free / 1e9
    if free_gb < NEEDED_GB:
        raise UsageError(
            f"building a kernel needs {NEEDED_GB} GB in {folder}, which has {free_gb:.1f}: make room"
        )


def build(source: KernelSource, fetch: Callable[[], Path], work: Path, progress: Tell) -> tuple[str, Path]:
    """Build in `work`; returns the kernel's release and its folder, which the caller moves to its place.

    `fetch` returns the source package's file; it is called only if `work` has no source yet. The folder
    contains `root` with modules and headers, `vmlinux`, and `symbols`, the image with debug information.
    """
    check_host(work.parent)
    tree, out = work / "source", work / "result"
    configuration = source.configuration()
    start = time.monotonic()
    if not tree.is_dir():
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        unpack_source(fetch(), source, work, tree, progress)
    (tree / "tailgate.config").write_text(configuration)
    make(tree, ["KCONFIG_ALLCONFIG=tailgate.config", "allnoconfig"], work / "log")
    if lost := lost_options(configuration, (tree / ".config").read_text()):
        raise UsageError(
            f"{source.package} {source.version} does not take {', '.join(lost)}: see {CONFIGURATIONS}"
        )
    compile_tree(tree, VARIABLES[source.kind], work / "log", progress)
    release = (tree / "include/config/kernel.release").read_text().strip()
    shutil.rmtree(out, ignore_errors=True)
    lay_out(tree, release, out, work / "log")
    progress(f"built {release} in {time.monotonic() - start:.0f} s")
    return release, out


def unpack_source(
    deb: Path, source: KernelSource, work: Path, tree: Path, progress: Tell, folder: str = ""
) -> None:
    """Unpack the source package, a tar file inside of a .deb; `tree` exists only when it is complete.

    With `folder`, only what is below that folder of the tree.
    """
    progress(f"unpacking the source of {source.version}")
    partial = work / "partial"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    run(["dpkg-deb", "--extract", str(deb), str(partial)], work / "log")
    packed = partial / "usr/src" / f"{source.package}.tar.xz"
    wanted = f"{source.package}/{folder}".rstrip("/")
    run(["tar", "--extract", f"--file={packed}", f"--directory={partial}", wanted], work / "log")
    (partial / source.package).rename(tree)
    shutil.rmtree(partial)


def lost_options(wanted: str, config: str) -> list[str]:
    """The options of a configuration that Kconfig dropped, because of a dependency or a changed name.

    Without this check, a kernel without KASAN would pass every test.
    """
    have = dict(re.findall(r"^(CONFIG_\w+)=(.*)$", config, re.MULTILINE))
    lost = []
    for line in wanted.splitlines():
        if found := re.fullmatch(r"(CONFIG_\w+)=(.*)", line):
            lost += [line] if have.get(found[1]) != found[2] else []
        elif found := re.fullmatch(r"# (CONFIG_\w+) is not set", line):
            lost += [line] if found[1] in have else []
    return lost


def compile_tree(tree: Path, variables: Sequence[str], log: Path, progress: Tell) -> None:
    """Compile the image and the modules, at the lowest priority; objects that are there are kept."""
    jobs = len(os.sched_getaffinity(0))
    progress(f"compiling with {jobs} jobs (10 minutes on 2 idle cores); {log} shows each file")
    start = shown = time.monotonic()
    with log.open("ab") as out, log.open("rb") as said:
        said.seek(0, os.SEEK_END)
        command = ["nice", "-n", "19", "make", f"-j{jobs}", *variables, "vmlinux", "modules"]
        text = b""
        with subprocess.Popen(
            command, cwd=tree, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=environment()
        ) as compiler:
            while compiler.poll() is None:
                time.sleep(0.2)
                if time.monotonic() - shown > SHOW_S:
                    shown = time.monotonic()
                    text += said.read()
                    lines = text.count(b"\n")
                    progress(f"compiling: {lines} files after {shown - start:.0f} s")
        text += said.read()
    if compiler.returncode:
        raise UsageError(
            f"the kernel does not build: {first_error(text.decode(errors='replace'))} (see {log})"
        )


def lay_out(tree: Path, release: str, out: Path, log: Path) -> None:
    """Copy what is kept of a built tree: the image, modules, and files that builds of further modules
    need.
    """
    root = out / "root"
    root.mkdir(parents=True)
    make(tree, ["modules_install", f"INSTALL_MOD_PATH={root}", "INSTALL_MOD_STRIP=1"], log)
    modules = root / "lib/modules" / release
    headers = root / "usr/src" / f"linux-headers-{release}"
    keep_headers(tree, headers)
    for name in ("build", "source"):
        (modules / name).unlink(missing_ok=True)
        (modules / name).symlink_to(os.path.relpath(headers, modules))
    (root / "boot").mkdir()
    shutil.copy2(tree / ".config", root / "boot" / f"config-{release}")
    run(["strip", "--strip-debug", "-o", str(out / "vmlinux"), str(tree / "vmlinux")], log)
    shutil.copy2(tree / "vmlinux", out / "symbols")


def keep_headers(tree: Path, headers: Path) -> None:
    """Copy the files that Kbuild reads when it builds modules outside of the tree."""
    headers.mkdir(parents=True)
    for name in ("Makefile", "Kbuild", "Kconfig", ".config", "Module.symvers"):
        shutil.copy2(tree / name, headers / name)
    for folder in HEADER_FOLDERS:
        for at, _, names in os.walk(tree / folder):
            for file in (Path(at, name) for name in names):
                if wanted_for_modules(file.relative_to(tree), file):
                    to = headers / file.relative_to(tree)
                    to.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy2(file, to, follow_symlinks=False)


def wanted_for_modules(name: Path, file: Path) -> bool:
    """Whether the build of modules may read this file of the tree: all of include, otherwise by kind of
    file.
    """
    if file.suffix in (".o", ".a", ".c", ".cmd", ".S", ".so"):
        # later kernels compile a file of their own into every module: scripts/module-common.c
        return name.parent == Path("scripts") and file.suffix in (".c", ".S")
    return name.parts[0] == "include" or bool(HEADER_FILES.fullmatch(name.name)) or os.access(file, os.X_OK)


def make(tree: Path, arguments: Sequence[str], log: Path) -> None:
    run(["nice", "-n", "19", "make", "--silent", *arguments], log, tree)


def environment() -> Mapping[str, str]:
    """The environment of a build: without an outer make's flags and job server, and with errors in
    English.
    """
    own = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "LOCALVERSION", "ARCH", "CROSS_COMPILE")
    return {**{k: v for k, v in os.environ.items() if k not in own}, "LC_ALL": "C"}


def run(command: Sequence[str], log: Path, at: Path | None = None) -> None:
    """Run a command and append its output to `log`. UsageError with its first error if it fails."""
    with log.open("ab") as out:
        begin = out.tell()
        done = subprocess.run(
            command, cwd=at, stdin=subprocess.DEVNULL, stdout=out, stderr=out, check=False, env=environment()
        )
    if done.returncode:
        said = log.read_bytes()[begin:].decode(errors="replace")
        raise UsageError(f"{' '.join(command[-2:])} failed: {first_error(said)} (see {log})")


def first_error(output: str) -> str:
    """The line of a failed command's output that most likely states the reason."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    telling = (
        line for line in lines if re.search(r"error\b|Error\b|undefined reference|No space|\*\*\*", line)
    )
    return next(telling, lines[-1] if lines else "no reason given")
