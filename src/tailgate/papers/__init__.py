# SPDX-License-Identifier: GPL-2.0-only
"""The papers' published figures, beside our measurements."""
