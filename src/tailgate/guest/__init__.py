# SPDX-License-Identifier: GPL-2.0-only
"""Virtual machines: a stock kernel, an initramfs, one job, in virtual time or under KVM."""
