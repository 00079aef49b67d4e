# SPDX-License-Identifier: GPL-2.0-only
"""What a person reads: tables, plots, the report."""
