# SPDX-License-Identifier: GPL-2.0-only
"""Tailgate: I/O schedulers for real-time latency on flash drives, and the lab that measures them."""

__version__ = "0.1.0"
