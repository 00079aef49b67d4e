# SPDX-License-Identifier: GPL-2.0-only
"""What the code costs: instructions per I/O, many CPUs; the first user's minutes."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tailgate.base.paths import ROOT
from tailgate.upkeep.bench.instructions import has_commit
from tailgate.upkeep.claims.lab import WITH_US, Lab, clock
from tailgate.upkeep.claims.quantity import RUNS, exact, once, repeated
from tailgate.upkeep.claims.results import Figure, Source


def instructions(lab: Lab) -> Iterator[Figure]:
    """Instructions per I/O of each scheduler, and what K2 and MQFQ add over what mq-deadline adds."""
    source = Source("tailgate bench --only instructions", "vm", clock("vm"))
    for name, of in lab.bench("instructions").items():
        if ".share." not in name:
            figure = f"bench/instructions/{name.replace(' ', '-').replace(',', '')}"
            yield Figure(figure, exact(of.value, of.n), source)


#: The last commit whose k2 knew neither splitting nor a bound on bytes, and the last before all that came
#: after these.
BEFORE = ("527fb48", "201bcde")


def switched_off(lab: Lab) -> Iterator[Figure]:
    """What is off costs nothing: k2's instructions per I/O beside those before it knew of it."""
    known = [commit for commit in BEFORE if has_commit(commit)]
    for commit in set(BEFORE) - set(known):
        print(f"claims: skipped: this clone has no commit {commit}", file=sys.stderr)
    if not known:
        return
    arguments = ("--quick", *(f"--since {commit}" for commit in known))
    source = Source(f"tailgate bench --only instructions {' '.join(arguments)}", "vm", clock("vm"))
    for name, of in lab.bench("instructions", quick=True, since=known).items():
        if ".k2_since." in name:
            commit, _, case = name.partition(".k2_since.")[2].partition(".")
            yield Figure(f"switched-off/{commit}/{case}", exact(of.value, of.n), source)


def code_lines(lab: Lab) -> Iterator[Figure]:
    """Lines of code of each scheduler and of what they share, beside mq-deadline and kyber."""
    source = Source("tailgate bench --only lines", "host", "virtual")
    for name, of in lab.bench("lines").items():
        yield Figure(f"bench/lines/{name}", exact(of.value), source)


def scalability(lab: Lab) -> Iterator[Figure]:
    """Operations a second of K2, MQFQ and a deadline-style queue, in the model."""
    found = {name: of.value for name, of in lab.bench("scale").items()}
    model = Source("tailgate bench --only scale", "model", "model")
    for name, value in found.items():
        if ".transfers." not in name and ".runs." not in name:
            yield Figure(f"bench/scale/{name}", exact(value), model)
    whole = "scale_model_whole"
    for cpus, other in ((16, "none"), (32, "mqfq_one_lock")):
        ratio = found[f"{whole}.mqfq_d128.cpus{cpus}"] / found[f"{whole}.{other}.cpus{cpus}"]
        yield Figure(f"scale/model/cpus-{cpus}/mqfq-over-{other}", exact(ratio), model)


def threads(lab: Lab) -> Iterator[Figure]:
    """The same on threads of this host, and how many CPUs it has."""
    host = Source("tailgate bench --only threads", "host", "wall")
    for name, of in lab.bench("threads").items():
        yield Figure(f"bench/threads/{name}", once(of.value), host)
    yield Figure("bench/threads/cpus", exact(len(os.sched_getaffinity(0))), host)


def demo(lab: Lab) -> Iterator[Figure]:
    """`make demo` in a new clone with an empty cache, and again: seconds, and the same digits."""
    seconds: dict[str, list[float]] = {"first": [], "again": []}
    points = []
    for _ in range(RUNS):
        with tempfile.TemporaryDirectory() as folder:
            clone = Path(folder) / "tailgate"
            subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
            environment = os.environ | {"TAILGATE_CACHE": str(Path(folder) / "cache")}
            for of_run in seconds.values():
                begin = time.monotonic()
                subprocess.run([*WITH_US, "make", "demo"], cwd=clone, env=environment, check=True)
                of_run.append(time.monotonic() - begin)
                (made,) = (clone / "runs/k2/fig8").glob("*/results.json")
                points.append(json.loads(made.read_text())["points"])
                # A run that finds an earlier one is compared with it, and may give way.
                shutil.rmtree(clone / "runs")
    for name, of_run in seconds.items():
        yield Figure(f"demo/{name}/seconds", repeated(of_run), Source("make demo", "vm", "wall"))
    same = exact(1 if all(p == points[0] for p in points) else 2, len(points))
    yield Figure("repeats/vm/demo/different", same, Source("make demo", "vm", clock("vm")))


STEPS = (instructions, switched_off, code_lines, scalability, threads, demo)
