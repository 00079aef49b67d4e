# SPDX-License-Identifier: GPL-2.0-only
"""Finding a scheduler and its knobs for a goal: what is asked, what may be set, the search, the answer."""
