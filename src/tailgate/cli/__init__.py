# SPDX-License-Identifier: GPL-2.0-only
"""The users' commands, a module each; `app` has them all.

A module declares the options of its command; `tailgate --help` imports nothing else. The code that does the
work is imported when the command runs.
"""
