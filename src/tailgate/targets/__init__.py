# SPDX-License-Identifier: GPL-2.0-only
"""Where an experiment can be run. A target measures; what it measured is read in tailgate.results."""
