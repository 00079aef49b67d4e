# SPDX-License-Identifier: GPL-2.0-only
"""What papers published beside what we measured."""
