# SPDX-License-Identifier: GPL-2.0-only
"""A shell in a machine with everything loaded, to try things: `tailgate vm`."""

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tailgate.base.errors import UsageError
from tailgate.guest import cpio, initramfs, kvm, modules, qemu, scratch
from tailgate.guest.kernels import resolve
from tailgate.guest.labels import DEBUG, LABELS
from tailgate.spec import drive as drives

STOCK_MODULES = ("null_blk", "bfq", "kyber-iosched", "mq-deadline", "brd", "ext4")
INTRODUCTION = """\
k2 is loaded, /dev/vflash0 is a virtual {drive}, fio is there. Try:
  echo k2 > /sys/block/vflash0/queue/scheduler
  cat /proc/tailgate-k2
  fio --name=a --filename=/dev/vflash0 --direct=1 --rw=randread --ioengine=libaio --iodepth=32 --runtime=3
Stock modules for modprobe: {stock}. `exit` ends the machine.
"""
#: What init runs in place of a job: a login on the console.
SCRIPT = """\
cd /lib/modules/extra && insmod k2.ko && insmod vflash.ko {drive} || fail "our modules do not load"
cd /root
cat /root/introduction > /dev/ttyS0
export PS1='guest# '
stty -F /dev/ttyS0 sane rows {rows} columns {columns}
setsid cttyhack sh -c 'exec sh -i' < /dev/ttyS0 > /dev/ttyS0 2>&1
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """`tailgate vm [--kernel LABEL] [--smp N]`: the exit status of the shell's machine."""
    parser = argparse.ArgumentParser(
        prog="tailgate vm",
        description=__doc__.partition(":")[0] + ". It runs by the host's clock; nothing in it is kept.",
    )
    parser.add_argument("--kernel", choices=(*LABELS, *DEBUG), default="backports", help="default: backports")
    parser.add_argument("--smp", type=int, default=2, metavar="N", help="virtual CPUs (default: 2)")
    parser.add_argument("--memory", type=int, default=1024, metavar="MIB", help="default: 1024")
    parser.add_argument("--drive", default="970evo", help="a drive file's name (default: 970evo)")
    options = parser.parse_args(arguments)
    if options.smp < 1 or options.memory < 256:
        raise UsageError("a machine needs at least one CPU and 256 MiB: --smp 1 --memory 256")
    kernel = resolve([options.kernel], lambda line: print(line, file=sys.stderr))[0]
    built = modules.build(kernel)
    _, drive = drives.load(options.drive)
    machine = qemu.VirtualMachine(
        kernel, "kvm" if kvm.works() else "tcg", options.smp, options.memory, append="quiet loglevel=3"
    )
    return run(machine, drive, [built / "k2.ko", built / "vflash.ko"])


def run(machine: qemu.VirtualMachine, drive: drives.Drive, module_files: Sequence[Path]) -> int:
    """Boot with the console on our own terminal; 0 if the machine ended by itself."""
    columns, rows = os.get_terminal_size() if sys.stdout.isatty() else (80, 24)
    parameters = drives.module_arguments(drive, {}, dilation=1, seed=1)
    script = SCRIPT.format(rows=rows, columns=columns, drive=" ".join(parameters))
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
        # in our own session, for the terminal's sake; it dies with us
        done = subprocess.run(
            ["setpriv", "--pdeathsig", "KILL", *command, "-initrd", str(initrd)], check=False
        )
    return 0 if done.returncode == 1 else 1  # isa-debug-exit of 0
