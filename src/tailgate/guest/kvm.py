# SPDX-License-Identifier: GPL-2.0-only
"""Whether KVM works on this host, tested by booting under it.

The existence of /dev/kvm proves nothing: QEMU may abort at once, or the guest may never run.
"""

import json
import os
import subprocess
from pathlib import Path

from tailgate.base.errors import UsageError
from tailgate.base.paths import cache_dir
from tailgate.guest import initramfs, qemu, scratch
from tailgate.guest.kernels import cached_kernels

DEVICE = Path("/dev/kvm")
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
LIMIT_S = 5
#: The test's init writes this to isa-debug-exit; QEMU then exits with 2 * CODE + 1.
CODE = 42
INIT = f"""\
#!/bin/busybox sh
mount -t devtmpfs none /dev
printf '\\{CODE:03o}' | dd of=/dev/port bs=1 seek=244
"""


def works(again: bool = False) -> bool:
    """Whether a guest kernel boots under KVM; tested once in each boot of the host, then remembered.

    `again` tests it in any case: a busy host may have been too slow the first time. False if `$TAILGATE_KVM`
    is 0: guests then run in virtual time, with the same figures each time. Takes up to 5 s if a guest starts
    but does not run. UsageError without a guest kernel to test with.
    """
    if os.environ.get("TAILGATE_KVM") == "0" or not os.access(DEVICE, os.R_OK | os.W_OK):
        return False
    memory = cache_dir() / "kvm.json"
    boot = BOOT_ID.read_text().strip()
    try:
        known = json.loads(memory.read_text())
        if known["boot"] == boot and not again:
            return bool(known["works"])
    except (OSError, ValueError, KeyError):
        pass
    answer = boots()
    memory.write_text(json.dumps({"boot": boot, "works": answer}) + "\n")
    return answer


def boots() -> bool:
    """Whether a guest boots that does nothing but answer. UsageError without a guest kernel."""
    kernels = list(cached_kernels().values())
    if not kernels:
        raise UsageError("no guest kernel to try KVM with: run `make setup-demo`")
    with scratch.folder() as place:
        initrd, log = place / "initrd", place / "log"
        initrd.write_bytes(initramfs.shell_only(INIT))
        command = [
            *qemu.command_line(qemu.VirtualMachine(kernels[0], "kvm"), log, log),
            "-initrd",
            str(initrd),
        ]
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT_S, check=False
            )
        except FileNotFoundError as e:
            raise UsageError(f"{qemu.QEMU} is missing: run `make setup-demo`") from e
        except subprocess.TimeoutExpired:
            return False
    return done.returncode == 2 * CODE + 1
