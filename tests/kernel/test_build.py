# SPDX-License-Identifier: GPL-2.0-only
"""The modules build for both guests without a word from the compiler or from sparse."""

import re
import shutil
from pathlib import Path

import pytest

from tailgate.kernels import LABELS, resolve
from tailgate.modules import build


@pytest.mark.parametrize("label", LABELS)
def test_builds_without_a_warning(label: str, tmp_path: Path) -> None:
    assert shutil.which("sparse"), "sparse is missing: run `make setup-check`"
    (kernel,) = resolve([label], print)
    out = build(kernel, ["W=1", "C=1"], out=tmp_path / "strict")
    assert {ko.name for ko in out.glob("*.ko")} == {"k2.ko", "vflash.ko"}
    findings = [line for line in (out / "log").read_text().splitlines() if re.search("warning|error", line)]
    assert findings == []
