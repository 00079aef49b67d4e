# SPDX-License-Identifier: GPL-2.0-only
"""What a user reads when modules do not build."""

from pathlib import Path

import pytest

from tailgate.base.errors import UsageError
from tailgate.guest.kernels import Kernel
from tailgate.guest.modules import build, first_error, kernel_compiler


def kernel_at(root: Path) -> Kernel:
    headers = root / "usr/src/linux-headers-9.1.0-7-amd64"
    return Kernel("stable", "9.1.0-7-amd64", root, root / "vmlinux", root / "btf", headers)


def test_our_own_refusal_is_passed_on() -> None:
    output = "x.c:1: error: static assertion failed\ntailgate: refused to build for kernel 9: x differs\n"
    assert first_error(output, "9") == "refused to build for kernel 9: x differs"


def test_first_compiler_error_is_named() -> None:
    error = "k2.c:7:1: error: unknown type name 'u7'"
    output = f"  CC [M] k2.o\n{error}\nk2.c:8:1: error: later\nmake: *** [x] Error 2\n"
    assert first_error(output, "9") == f"the modules do not build for 9: {error}"


@pytest.mark.parametrize(
    ("variables", "compiler"),
    [
        ("CC = $(if $(CCACHE_ON),$(CCACHE)) $(CROSS_COMPILE)gcc-12\nCCACHE = ccache\n", "gcc-12"),
        ("override ARCH = x86\n", "gcc"),
    ],
)
def test_compiler_is_the_kernels_own(tmp_path: Path, variables: str, compiler: str) -> None:
    kernel = kernel_at(tmp_path)
    kernel.headers.mkdir(parents=True)
    (kernel.headers / ".kernelvariables").write_text(variables)
    assert kernel_compiler(kernel) == compiler


def test_missing_headers_and_compiler(tmp_path: Path) -> None:
    kernel = kernel_at(tmp_path)
    with pytest.raises(UsageError, match="no headers of"):
        build(kernel)
    kernel.headers.mkdir(parents=True)
    (kernel.headers / "Makefile").touch()
    (kernel.headers / ".kernelvariables").write_text("CC = $(CROSS_COMPILE)gcc-999\n")
    with pytest.raises(UsageError, match="gcc-999 is missing"):
        build(kernel)
