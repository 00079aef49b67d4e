# SPDX-License-Identifier: GPL-2.0-only
"""Finds a scheduler and its knobs for a goal: question, settings to try, search and answer."""
