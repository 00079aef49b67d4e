# SPDX-License-Identifier: GPL-2.0-only
"""The labels of guest kernels."""

from tailgate.guest import kernel_build

ORDINARY = ("stable", "backports")
RT = ("stable-rt", "backports-rt")
LABELS = (*ORDINARY, *RT)
DEBUG = tuple(f"{label}-{kind}" for label in ORDINARY for kind in kernel_build.KINDS)
