# SPDX-License-Identifier: GPL-2.0-only
"""What was measured: a run's directory, measurements, points over all seeds, their statistics."""
