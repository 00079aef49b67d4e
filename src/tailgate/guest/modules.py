# SPDX-License-Identifier: GPL-2.0-only
"""Tailgate's kernel modules, built from this checkout for a guest's kernel."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from filelock import FileLock

from tailgate.base import command
from tailgate.base.errors import UsageError
from tailgate.base.paths import ROOT
from tailgate.guest.kernels import Kernel, resolve
from tailgate.guest.labels import DEBUG, LABELS


def build(
    kernel: Kernel, options: Sequence[str] = (), out: Path | None = None, checkout: Path = ROOT
) -> Path:
    """Build what has changed; returns the folder with `k2.ko` and `vflash.ko`.

    `options` are make's, such as "W=1". `out` is `build/<release>` in the checkout by default. Processes that
    build into one folder wait for each other. `checkout` has the sources.

    Raises UsageError with the first error of the compiler, or of the check of the kernel's types.
    """
    source = checkout / "kernel"
    if not (source / "Makefile").is_file():
        raise UsageError(f"no kernel module sources in {source}: run Tailgate from its checkout")
    if not (kernel.headers / "Makefile").is_file():
        raise UsageError(f"no headers of {kernel.release} in {kernel.headers}: remove {kernel.root.parent}")
    compiler = kernel_compiler(kernel)
    for program in ("make", compiler):
        if not shutil.which(program):
            raise UsageError(
                f"{program} is missing, and {kernel.release} is built with it: install {program}"
            )
    out = out or ROOT / "build" / kernel.release
    out.parent.mkdir(parents=True, exist_ok=True)
    make = ["make", "--silent", "--no-print-directory", "-C", str(source)]
    make += [f"KDIR={kernel.headers}", f"BTF={kernel.btf}", f"OUT={out}", *options]
    # without the flags and job server of an outer make, such as `make check`
    environment = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    with FileLock(out.parent / f".{out.name}.lock"):
        done = subprocess.run(make, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise UsageError(first_error(done.stdout + done.stderr, kernel.release))
    return out


def kernel_compiler(kernel: Kernel) -> str:
    """The compiler that built the kernel, by the name in Debian's headers."""
    try:
        variables = (kernel.headers / ".kernelvariables").read_text()
    except FileNotFoundError:
        return "gcc"
    named = re.search(r"^CC\s*[:?]?=.*?(\bgcc-\d+)\s*$", variables, re.MULTILINE)
    return named[1] if named else "gcc"


def first_error(output: str, release: str) -> str:
    """One sentence from a failed build's output: Tailgate's own message if there is one, or else the first
    error.
    """
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    for line in lines:
        if line.startswith("tailgate: "):
            return line.removeprefix("tailgate: ")
    error = next((line for line in lines if re.search(r"\b(error|Error)\b|\*\*\*", line)), "no reason given")
    return f"the modules do not build for {release}: {error}"


def main(
    labels: Annotated[
        list[str] | None,
        typer.Argument(metavar="LABEL", help=f"Of {', '.join((*LABELS, *DEBUG))}.", show_default="backports"),
    ] = None,
) -> int:
    """Build the kernel modules for the kernels of guests, into build/."""
    progress = partial(print, file=sys.stderr, flush=True)
    for kernel in resolve(labels or ["backports"], progress):
        print(f"modules for {kernel.release}: {build(kernel)}")
    return command.OK


if __name__ == "__main__":
    app = command.application()
    app.command()(main)
    sys.exit(command.run(app, "python -m tailgate.guest.modules"))
