# SPDX-License-Identifier: GPL-2.0-only
"""Adjusts a scheduler's knobs while the load changes: latency to keep, path of the knobs, control law."""
