# SPDX-License-Identifier: GPL-2.0-only
"""blktests in virtual machines: the kernel developers' own tests judge a scheduler beside mq-deadline.

images.py    the guest's disks: Debian, the kernel's modules, the checkout
guests.py    boots guests, and runs test after test in them
verdicts.py  parses a test's files, and decides which differences count
store.py     results on disk, from which an interrupted run continues
inside/      scripts that run in the guest
"""
