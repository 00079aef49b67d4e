# SPDX-License-Identifier: GPL-2.0-only
"""Measured results: a run's directory, measurements, points over all seeds, their statistics."""
