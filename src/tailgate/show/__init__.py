# SPDX-License-Identifier: GPL-2.0-only
"""Output for people: tables, plots, the report."""
