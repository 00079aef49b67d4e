# SPDX-License-Identifier: GPL-2.0-only
"""Maintainers' tools: claims, benchmarks, fitting of drives, tests by others."""
