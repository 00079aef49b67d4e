# SPDX-License-Identifier: GPL-2.0-only
"""`tailgate doctor`: what this machine can do."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tailgate.base.command import FAILED, OK, application, epilog, flag

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from tailgate.guest.host import Finding

app = application()

EXAMPLES = """
tailgate doctor
tailgate doctor --json | jq '.findings[] | select(.status != "ok")'
"""


@app.command(epilog=epilog(EXAMPLES, "virtual machines cannot run here"))
def doctor(
    json: Annotated[bool, flag("--json", "One JSON object on standard output.")] = False,
) -> int:
    """Say what this machine can do: virtual machines, its own kernel and drives.

    Each line that is not `ok` has a way out. Nothing is changed, no module is
    loaded and no drive is opened; whether KVM works is found by booting under it.
    """
    import json as json_format
    import sys

    from rich.console import Console

    from tailgate.guest import host

    root = Path("/")
    findings = [*host.virtual_machines(), *host.this_kernel(root), *host.drive_findings(root)]
    ready = all(f.status != "missing" for f in findings if f.group == "vm")
    if json:
        answer = {
            "ready": ready,
            "findings": [asdict(f) for f in findings],
            "drives": [asdict(d) for d in host.drives(root)],
        }
        json_format.dump(answer, sys.stdout, indent=2)
        print()
    else:
        _show(findings, Console(soft_wrap=True, highlight=False))
    return OK if ready else FAILED


def _show(findings: "Sequence[Finding]", console: "Console") -> None:
    """The findings as lines for a terminal."""
    from rich.markup import escape

    style = {"ok": "green", "warn": "yellow", "missing": "red"}
    titles = {"vm": "Virtual machines", "host": "This machine's own kernel and drives"}
    for group, title in titles.items():
        console.print(f"[bold]{title}[/bold]")
        for f in findings:
            if f.group == group:
                mark = f"[{style[f.status]}]{f.status:7}[/{style[f.status]}]"
                console.print(f"  {mark} {f.topic:15} {escape(f.text)}")
                if f.fix:
                    console.print(f"  {'':7} {'':15} [dim]→ {escape(f.fix)}[/dim]")
