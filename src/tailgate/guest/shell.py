# SPDX-License-Identifier: GPL-2.0-only
"""A shell on the user's terminal in a virtual machine with all of Tailgate's modules loaded."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tailgate.guest import cpio, initramfs, qemu, scratch
from tailgate.spec import drive as drives

STOCK_MODULES = ("null_blk", "bfq", "kyber-iosched", "mq-deadline", "brd", "ext4")
INTRODUCTION = """\
k2 and mqfq are loaded, /dev/vflash0 is a virtual {drive}, fio is there. Try:
  echo k2 > /sys/block/vflash0/queue/scheduler
  cat /proc/tailgate-k2
  fio --name=a --filename=/dev/vflash0 --direct=1 --rw=randread --ioengine=libaio --iodepth=32 --runtime=3
Stock modules for modprobe: {stock}. `exit` ends the machine.
"""
#: A login on the console, which init runs in place of a job.
SCRIPT = """\
cd /lib/modules/extra
insmod k2.ko && insmod mqfq.ko && insmod vflash.ko {drive} || fail "our modules do not load"
cd /root
cat /root/introduction > /dev/ttyS0
export PS1='guest# '
stty -F /dev/ttyS0 sane rows {rows} columns {columns}
setsid cttyhack sh -c 'exec sh -i' < /dev/ttyS0 > /dev/ttyS0 2>&1
outb 244 {ended}
"""
#: Written by the guest to QEMU's isa-debug-exit when the shell has ended; and QEMU's exit status then. Other
#: exit statuses of QEMU are 0 and 1, even if it cannot start the machine.
ENDED = 21
STATUS = 2 * ENDED + 1


def run(machine: qemu.VirtualMachine, drive: drives.Drive, module_files: Sequence[Path]) -> bool:
    """Boot with the console on the user's terminal; returns whether the guest ended the machine."""
    columns, rows = os.get_terminal_size() if sys.stdout.isatty() else (80, 24)
    parameters = drives.module_arguments(drive, {}, dilation=1, seed=1)
    script = SCRIPT.format(rows=rows, columns=columns, drive=" ".join(parameters), ended=ENDED)
    introduction = INTRODUCTION.format(drive=drive.title, stock=", ".join(STOCK_MODULES)).encode()
    tree = initramfs.system() | initramfs.stock_modules(
        machine.kernel, ("virtio_pci", "virtio_console", *STOCK_MODULES)
    )
    tree |= initramfs.job(script, {"/root/introduction": introduction}, module_files, ("fio",))
    tree["root/limits"] = cpio.file(b"1000000 0\n")
    with scratch.folder() as place:
        initrd, log = place / "initrd", place / "log"
        initrd.write_bytes(cpio.archive(tree))
        command = qemu.command_line(machine, log, place / "sent")
        at = next(i for i, word in enumerate(command) if word.startswith("file,id=console,"))
        command[at] = "stdio,id=console,signal=off"
        print("booting takes a few seconds ...", flush=True)
        # in this session, as it uses the terminal; QEMU ends with this process, and restores the terminal
        done = subprocess.run(
            ["setpriv", "--pdeathsig", "TERM", *command, "-initrd", str(initrd)], check=False
        )
    return done.returncode == STATUS
