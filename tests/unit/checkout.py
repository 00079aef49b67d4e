# SPDX-License-Identifier: GPL-2.0-only
"""A copy of the checkout, in which commands of the documents are run as they stand."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

from tests.unit.documents import listed
from tests.unit.programs import ROOT


class Checkout:
    """Copies what git does not ignore, in the state after `make setup-check` but without what that builds.

    The copy's `.venv` finds the packages of the checkout's; a package that is installed from the copy is in
    the copy only.
    """

    def __init__(self, at: Path) -> None:
        self.at = at
        for file in listed():
            to = at / file.relative_to(ROOT)
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, to)
        venv = at / ".venv"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
        [packages] = venv.glob("lib/python*/site-packages")
        (packages / "checkout.pth").write_text(f"{at / 'src'}\n{sysconfig.get_path('purelib')}\n")
        for script in Path(sysconfig.get_path("scripts")).iterdir():
            shebang = f"#!{script.parent}/python".encode()
            if script.is_file() and (text := script.read_bytes()).startswith(shebang):
                (venv / "bin" / script.name).write_bytes(
                    text.replace(shebang, f"#!{venv}/bin/python".encode(), 1)
                )
                (venv / "bin" / script.name).chmod(0o755)
        for stamp in ("run", "dev"):  # in this order: make looks at the times
            (venv / f"{stamp}.stamp").touch()

    def write(self, path: str, text: str) -> None:
        """Write a file, and its folder."""
        (self.at / path).parent.mkdir(parents=True, exist_ok=True)
        (self.at / path).write_text(text)

    def sh(self, commands: str, variables: Mapping[str, str] | None = None) -> str:
        """Run commands at the root of the copy; returns their output on both streams.

        AssertionError, with the output, if a command fails.
        """
        # The copy must not see an outer make's flags and job server, an outer pytest's worker's name, and its
        # caller's options.
        make = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")
        own = (*make, "PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT", "PYTEST_ADDOPTS")
        environment = {k: v for k, v in os.environ.items() if k not in own}
        done = subprocess.run(
            ["sh", "-euc", commands],
            cwd=self.at,
            env={**environment, **(variables or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert done.returncode == 0, f"{commands}\n{done.stdout}"
        return done.stdout

    def report_of(self, commands: str) -> str:
        """The page of the report whose path is in the output of these commands."""
        said = self.sh(commands)
        found = re.search(r"\S+/report\.html", said)
        assert found, said
        return (self.at / found[0]).read_text()
