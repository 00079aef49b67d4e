# SPDX-License-Identifier: GPL-2.0-only
"""What everything else stands on: errors, paths, progress, commands. It knows nothing of experiments."""
