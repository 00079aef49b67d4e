# SPDX-License-Identifier: GPL-2.0-only
"""Where an experiment can be measured: a virtual machine, the simulator."""
