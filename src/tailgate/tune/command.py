# SPDX-License-Identifier: GPL-2.0-only
"""Runs a search from the options of a command line to the answer, in a folder from which a stopped search
resumes.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from tailgate.base.errors import UsageError
from tailgate.base.locks import only_one
from tailgate.base.paths import replace_text
from tailgate.base.progress import Progress
from tailgate.simulator import settings
from tailgate.simulator.executor import executor
from tailgate.spec.experiment import Experiment, ModeName
from tailgate.spec.scheduler import Knob as Value
from tailgate.targets import identity
from tailgate.targets.measure import Measured, MeasureOptions
from tailgate.tune import answer, confirm, goal, workload
from tailgate.tune.answer import Answer
from tailgate.tune.evaluate import SimulatedLoad
from tailgate.tune.search import Budget, Search
from tailgate.tune.space import SEARCHED, Space

#: By mode: the number of settings, and of seeds for each setting near the front.
TRIALS: Mapping[str, tuple[int, int]] = {"quick": (44, 3), "full": (120, 8)}


@dataclass(frozen=True)
class SearchTask:
    """Everything that decides the result of a search. None: the mode's value, or all schedulers."""

    workload: workload.Asked
    goals: tuple[str, ...]
    keeps: tuple[str, ...]
    schedulers: tuple[str, ...] | None
    mode: ModeName
    trials: int | None = None
    repeats: int | None = None
    seed: int = 1


@dataclass(frozen=True)
class SearchOptions:
    """How many simulations run at once, the command line for the record, and the function that writes a run's
    report.
    """

    jobs: int
    command: str
    report: Callable[[Measured], None]


@dataclass(frozen=True)
class TuneResult:
    """The answer, its folder, and the results of the target's measurements."""

    asked: SearchTask
    answer: Answer
    folder: Path
    title: str
    about: str
    facts: Sequence[tuple[str, str]]
    broken: str | None

    @property
    def ok(self) -> bool:
        """Whether a setting keeps all limits, on the target too, and all measurements ended without error."""
        broken = any(profile.broken_on_target for profile in self.answer.profiles)
        return bool(self.answer.front) and not broken and self.broken is None

    def to_json(self) -> dict[str, object]:
        """The object that `--json` prints."""
        fault = {"fault": self.broken} if self.broken else {}
        return {"asked": asdict(self.asked), **answer.to_json(self.answer), **fault}


def tune(
    asked: SearchTask, base: Path, options: SearchOptions, kernel: str | None, progress: Progress
) -> TuneResult:
    """Search, and with a kernel's label measure the profiles in a virtual machine. UsageError."""
    spec, source = workload.experiment_of(asked.workload)
    space = Space(asked.schedulers or tuple(SEARCHED))
    if asked.mode not in spec.modes:
        raise UsageError(f"the experiment has no mode {asked.mode}; write [modes.{asked.mode}]")
    load = SimulatedLoad(spec, asked.mode, source / workload.FILE, asked.workload.cpus)
    members = workload.members(spec, load.mixed)
    question = goal.question(asked.goals, asked.keeps, list(members))
    for name in question.references:
        settings.check_scheduler(name, {}, "--keep")
    load.check(space.defaults())
    trials, repeats = TRIALS[asked.mode]
    budget = Budget(asked.trials or trials, asked.repeats or repeats, asked.seed)
    identified = {"asked": asdict(asked), "budget": asdict(budget), "load": load.identity}
    key = identity.key(identified)
    folder = base / "tune" / f"{workload.name_of(asked.workload)}-{key}"
    with only_one(folder, "searching in"):
        if kernel:
            confirm.check(kernel, progress)
        folder.mkdir(exist_ok=True)
        (folder / "asked.json").write_text(json.dumps(identified, indent=1) + "\n")
        progress.note(
            f"tune: {budget.trials} of {space.size} settings of {', '.join(space.axes)}, "
            f"simulated on {spec.drive}: {folder}"
        )
        stored = folder / "simulations.jsonl"
        search = Search(question, members, space, load, budget, stored, progress.point)
        facts = [
            ("Drive", spec.drive),
            ("Machine", spec.machine.simulated),
            ("Schedulers", ", ".join(space.axes)),
            ("Queue", ", ".join(f"{name} {value}" for name, value in spec.queue.items())),
            ("Command", options.command),
        ]
        goals = "; ".join([*asked.goals, *(f"keep {k}" for k in asked.keeps)])
        found = _answer(search, spec.queue, options, progress)
        done = TuneResult(asked, found, folder, f"Tuned: {spec.title}", goals, facts, None)
        _write(done)
        if kernel and found.front:
            own = _with_rate(spec, found) if workload.is_job(asked.workload) else spec
            schedulers = [s.as_scheduler(label) for label, s in answer.to_confirm(found).items()]
            path = workload.write(own, schedulers, source, folder / "confirm")
            told = MeasureOptions(options.jobs, False, options.command, options.report)
            measured = confirm.measured(path, asked.mode, kernel, told, progress)
            values = confirm.values(measured, question.quantities, members)
            done = replace(done, answer=answer.with_confirmed(found, values), broken=measured.fault)
            _write(done)
        return done


def _write(done: TuneResult) -> None:
    replace_text(done.folder / "answer.json", json.dumps(done.to_json(), indent=1) + "\n")


def _answer(search: Search, queue: Mapping[str, Value], options: SearchOptions, progress: Progress) -> Answer:
    left = max(1, search.budget.trials - search.remembered)
    progress.begin(left, left)
    try:
        with executor(options.jobs, None) as pool:
            return answer.answer(search, search.run(pool), queue)
    finally:
        progress.end()


def _with_rate(spec: Experiment, found: Answer) -> Experiment:
    """The experiment with the rate that the simulator found; a guest's time is dilated by it."""
    rates = [sum(t.flows[name]["iops"] for name in spec.flows if name in t.flows) for t in found.tried]
    machine = spec.machine.model_copy(update={"iops_max": max(1, round(1.1 * max(rates)))})
    return spec.model_copy(update={"machine": machine})
