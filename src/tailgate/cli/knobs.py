# SPDX-License-Identifier: GPL-2.0-only
"""`tailgate knobs`: what can be set of each scheduler."""

from typing import Annotated

import typer

from tailgate.base.command import OK, application, epilog, flag

app = application()

EXAMPLES = """
tailgate knobs            all schedulers
tailgate knobs k2 mqfq    only these
tailgate knobs --json
"""


@app.command(epilog=epilog(EXAMPLES, "an error in Tailgate"))
def knobs(
    schedulers: Annotated[
        list[str] | None, typer.Argument(metavar="[SCHEDULER]...", help="Only these.", show_default="all")
    ] = None,
    json: Annotated[bool, flag("--json", "One JSON object on standard output.")] = False,
) -> int:
    """List the knobs of each scheduler: unit, range, default, and what each does.

    Most are files below /sys/block/DRIVE/queue/iosched; nr_requests, the one of
    none, lies in the folder above. Which knobs are for experiments only is said
    below the table.
    """
    import json as json_format
    from dataclasses import asdict

    from tailgate.base.errors import UsageError, one_of
    from tailgate.show import knob_table
    from tailgate.simulator.knobs import declared

    known = declared()
    for name in schedulers or ():
        if name not in known:
            raise UsageError(f"there is no scheduler {name}; expected {one_of(list(known))}")
    found = {name: list(known[name].values()) for name in schedulers or known}
    if json:
        print(json_format.dumps({name: [asdict(k) for k in of_one] for name, of_one in found.items()}))
    else:
        knob_table.show(found)
    return OK
