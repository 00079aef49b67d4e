# SPDX-License-Identifier: GPL-2.0-only
"""What everything else stands on: errors, paths, progress. It knows nothing of experiments."""
