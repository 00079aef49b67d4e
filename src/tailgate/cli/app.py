# SPDX-License-Identifier: GPL-2.0-only
"""The users' commands together."""

from tailgate.base.command import application
from tailgate.cli import doctor, experiments, knobs, new, report, run, simulate, tune, vm, watch

app = application()
for module in (experiments, knobs, run, report, simulate, tune, watch, vm, doctor):
    app.add_typer(module.app)
app.add_typer(new.app, name="new")
