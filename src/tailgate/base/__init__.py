# SPDX-License-Identifier: GPL-2.0-only
"""What everything else stands on: errors, paths, progress. Only Python's own library, and rich."""
