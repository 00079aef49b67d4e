# SPDX-License-Identifier: GPL-2.0-only
"""What Tailgate promises: claims written by hand, results that a tool measures, and verdicts from both."""
