# SPDX-License-Identifier: GPL-2.0-only
"""The knobs of schedulers as a table."""

from collections.abc import Mapping, Sequence

from tailgate.base.command import out
from tailgate.show.plain import without_frame
from tailgate.simulator.knobs import Knob

#: Scheduler -> which of its knobs are for experiments.
NOT_IN_MODULES = {
    "k2": "k2: bound_mode and ahead_* are in the simulator and in k2_experiments.ko only, not in k2.ko",
    "mq-deadline": "mq-deadline: keeps_next is in the simulator only",
}


def show(knobs: Mapping[str, Sequence[Knob]]) -> None:
    """Print the knobs of each scheduler as a table, and which of them exist only in modules for
    experiments.
    """
    table = without_frame()
    for heading in ("scheduler", "knob", "unit", "values", "default"):
        table.add_column(heading, no_wrap=heading != "values")
    table.add_column("what it is", overflow="fold")
    for scheduler, of_one in knobs.items():
        for i, knob in enumerate(of_one):
            default = "the drive's" if knob.default is None else str(knob.default)
            name = scheduler if i == 0 else ""
            table.add_row(name, knob.name, knob.unit, values(knob), default, knob.what)
    console = out()
    console.print(table)
    for scheduler in knobs:
        if note := NOT_IN_MODULES.get(scheduler):
            console.print(note, soft_wrap=True)


def values(knob: Knob) -> str:
    """What a knob accepts: `always, active`, or `1 to 65535, auto`."""
    if knob.words:
        return ", ".join(knob.words)
    steps = f" by {knob.step}" if knob.step > 1 else ""
    return f"{knob.least} to {knob.most}{steps}{', auto' if knob.automatic else ''}"
