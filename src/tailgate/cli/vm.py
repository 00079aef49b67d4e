# SPDX-License-Identifier: GPL-2.0-only
"""`tailgate vm`: a shell in a virtual machine."""

from typing import Annotated

import typer

from tailgate.base.command import FAILED, OK, application, chosen, epilog
from tailgate.base.errors import one_of
from tailgate.cli import complete
from tailgate.guest.labels import DEBUG, LABELS

app = application()

EXAMPLES = """
tailgate vm
tailgate vm --kernel stable --smp 4 --drive noisy
"""


@app.command(epilog=epilog(EXAMPLES, "the machine did not end by itself"))
def vm(
    kernel: Annotated[
        str,
        typer.Option(
            metavar="LABEL",
            help=f"The guest's kernel: {one_of((*LABELS, *DEBUG))}.",
            callback=chosen((*LABELS, *DEBUG)),
            autocompletion=complete.words((*LABELS, *DEBUG)),
        ),
    ] = "backports",
    smp: Annotated[int, typer.Option(min=1, metavar="N", help="Virtual CPUs.")] = 2,
    memory: Annotated[int, typer.Option(min=256, metavar="MIB", help="Its memory in MiB.")] = 1024,
    drive: Annotated[
        str,
        typer.Option(metavar="NAME", help="One of drives/.", autocompletion=complete.drives),
    ] = "970evo",
) -> int:
    """Open a shell in a virtual machine with K2, MQFQ and a virtual drive loaded, to try things.

    It runs by the host's clock, and nothing in it is kept. `exit` ends it.
    """
    import sys

    from tailgate.guest import kernels, kvm, modules, qemu, shell
    from tailgate.spec import drive as drives

    _, described = drives.load(drive)
    resolved = kernels.resolve([kernel], lambda line: print(line, file=sys.stderr))[0]
    built = modules.build(resolved)
    machine = qemu.VirtualMachine(
        resolved, "kvm" if kvm.works() else "tcg", smp, memory, append="quiet loglevel=3"
    )
    return (
        OK
        if shell.run(machine, described, [built / f"{name}.ko" for name in ("k2", "mqfq", "vflash")])
        else FAILED
    )
