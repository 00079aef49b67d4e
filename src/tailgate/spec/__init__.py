# SPDX-License-Identifier: GPL-2.0-only
"""What a user writes, read and checked: experiments, drives, machines, cgroups, the paper's numbers."""
