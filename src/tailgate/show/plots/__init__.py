# SPDX-License-Identifier: GPL-2.0-only
"""The report's plots, in the papers' form: a module for each kind, and their legends."""
