# SPDX-License-Identifier: GPL-2.0-only
"""Fitting a drive file to a drive that was probed from outside."""
