# SPDX-License-Identifier: GPL-2.0-only
"""The command `tailgate`: one module per command."""
