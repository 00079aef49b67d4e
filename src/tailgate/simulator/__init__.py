# SPDX-License-Identifier: GPL-2.0-only
"""The simulator as the lab calls it."""
