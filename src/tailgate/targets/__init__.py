# SPDX-License-Identifier: GPL-2.0-only
"""Targets on which an experiment can be measured: a virtual machine, the simulator."""
