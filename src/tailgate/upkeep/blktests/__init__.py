# SPDX-License-Identifier: GPL-2.0-only
"""blktests in virtual machines: a scheduler beside mq-deadline, judged by the kernel developers' own tests.

images.py    the guest's disks: Debian, the kernel's modules, the checkout
guests.py    boots guests, and runs test after test in them
verdicts.py  what a test's files say, and which differences count
store.py     results on disk, by which a run goes on where it was interrupted
inside/      what runs inside
"""
