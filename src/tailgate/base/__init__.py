# SPDX-License-Identifier: GPL-2.0-only
"""The lowest layer: errors, paths, progress, commands. It imports nothing of the rest."""
