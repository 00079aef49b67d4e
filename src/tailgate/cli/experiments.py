# SPDX-License-Identifier: GPL-2.0-only
"""`tailgate list`: the experiments of the checkout."""

from tailgate.base.command import OK, application, epilog

app = application()

EXAMPLES = """
tailgate list                  name and title of each experiment
tailgate list | grep mqfq      those of one paper
"""


@app.command("list", epilog=epilog(EXAMPLES, "an error in Tailgate"))
def show() -> int:
    """List the experiments of this checkout.

    Each line is a name, which `tailgate run` takes, and a title.
    """
    from tailgate.spec import experiment

    for name in experiment.names():
        print(f"{name:12} {experiment.load(experiment.find(name)).title}")
    return OK
