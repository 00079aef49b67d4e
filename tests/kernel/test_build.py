# SPDX-License-Identifier: GPL-2.0-only
"""The modules build for all guests without a word from the compiler or from sparse."""

import re
import shutil
from pathlib import Path

import pytest

from tailgate.base.paths import ROOT
from tailgate.guest.kernels import Kernel, resolve
from tailgate.guest.labels import LABELS
from tailgate.guest.modules import build


def unlock_is_annotated(kernel: Kernel) -> bool:
    """Whether this kernel's headers tell sparse that spin_unlock() releases what spin_trylock() took.

    Under PREEMPT_RT older ones (6.1) do not, and sparse finds an imbalance in every caller of spin_trylock().
    """
    headers = (kernel.root / "usr/src").glob("linux-headers-*-common*/include/linux/spinlock_rt.h")
    declared = [re.search(r"void rt_spin_unlock\(.*", header.read_text()) for header in headers]
    rt = "-rt-" in kernel.release
    return not rt or all(found and "__releases" in found[0] for found in declared)


@pytest.mark.parametrize("label", LABELS)
def test_builds_without_a_warning(label: str, tmp_path: Path) -> None:
    assert shutil.which("sparse"), "sparse is missing: run `make setup-check`"
    (kernel,) = resolve([label], print)
    out = build(kernel, ["W=1", "C=1"], out=tmp_path / "strict")
    listed = set(re.findall(r"(\w+)\.o\b", (ROOT / "kernel/Kbuild").read_text()))
    assert {ko.stem for ko in out.glob("*.ko")} == listed > {"k2", "vflash"}
    findings = [
        line for line in (out / "log").read_text().splitlines() if re.search("(warning|error): ", line)
    ]
    if not unlock_is_annotated(kernel):
        findings = [
            line for line in findings if not re.search("context imbalance in '(k2_merge|mqfq_account)'", line)
        ]
    assert findings == []
