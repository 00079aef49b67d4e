# SPDX-License-Identifier: GPL-2.0-only
"""Files that users write, read and checked: experiments, drives, machines, cgroups, papers' numbers."""
