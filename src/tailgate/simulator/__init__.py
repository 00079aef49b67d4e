# SPDX-License-Identifier: GPL-2.0-only
"""The lab's interface to the simulator."""
