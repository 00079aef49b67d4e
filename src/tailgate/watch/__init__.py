# SPDX-License-Identifier: GPL-2.0-only
"""Adjusting knobs while the load changes: what is kept, along which way the knobs move, and by which law."""
