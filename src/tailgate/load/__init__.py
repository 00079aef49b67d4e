# SPDX-License-Identifier: GPL-2.0-only
"""Loads: fio's job files and traces, and the fio job of each point of an experiment."""
