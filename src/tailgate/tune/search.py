# SPDX-License-Identifier: GPL-2.0-only
"""The search: Optuna proposes settings, the simulator evaluates them.

It optimises several objectives at once, over schedulers and knobs together: multi-objective TPE (Y. Ozaki et
al., GECCO 2020) with constraints. A setting is simulated for a short time first, and for the whole time only
if it may come near the front. Settings on and near the front are repeated with other seeds. A search gives
the same result on any host, as each batch of proposals depends only on earlier results. A search that was
stopped and is resumed makes the same proposals again, takes stored results, and simulates from the first
missing one on.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from pathlib import Path

import optuna
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState

from tailgate.base.errors import UsageError
from tailgate.tune.evaluate import WHOLE, Given, SimulatedLoad, Wanted
from tailgate.tune.front import Candidate, dominated, keeps
from tailgate.tune.goal import ENDLESS, Question
from tailgate.tune.memory import Evaluation, Memory
from tailgate.tune.space import Setting, Space

#: Number of proposals simulated in parallel. A constant, because later proposals depend on it.
BATCH = 4
#: A setting whose short simulation misses a limit or has worse objectives by at most this share stays in the
#: search.
SLACK = 0.10
#: Number of fronts at most that get further seeds. The next front follows if no setting of the one before
#: keeps its limits.
LAYERS = 3
#: File of Optuna's storage, for Optuna's own tools. The search itself resumes from a Memory.
JOURNAL = "study.journal"
#: Optuna may propose a setting again, which costs nothing. The search ends after this many proposals for each
#: setting that it is to try.
PATIENCE = 3


@dataclass(frozen=True)
class Tried:
    """A setting that was simulated with the first seed, for a part of the time and then, unless `short`, for
    the whole time.
    """

    setting: Setting
    first: tuple[float, ...]
    values: tuple[float, ...]
    missed: tuple[float, ...]
    short: bool
    flows: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    @property
    def kept(self) -> bool:
        """Whether the setting keeps all limits."""
        return all(m <= 0 for m in self.missed)


@dataclass(frozen=True)
class Budget:
    """The extent of a search: number of settings, seeds for each candidate, and the seed of the search
    itself.
    """

    trials: int
    repeats: int
    seed: int = 1


class Search:
    """One search. `found` has the tried settings in order. `references` has the schedulers that limits refer
    to, at their defaults, simulated with the same seeds as the candidates.
    """

    def __init__(
        self,
        question: Question,
        members: Mapping[str, Sequence[str]],
        space: Space,
        load: SimulatedLoad,
        budget: Budget,
        storage: Path | None = None,
        told: Callable[[str, float], None] = lambda words, weight: None,
    ) -> None:
        """`storage` is the file of the Memory from which a search resumes; Optuna's own storage is beside it.
        `told` is called for each simulated setting with weight 1, and for each repeat with weight 0.
        """
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.question, self.members, self.space, self.load = question, members, space, load
        self.budget, self.told = budget, told
        self.found: list[Tried] = []
        self.references: dict[str, Candidate] = {}
        #: Simulated seconds so far; seconds of one whole simulation.
        self.simulated_s = self.whole_s = 0.0
        self._memory = Memory(storage)
        #: Objectives of the references with the first seed, by share of the time and name.
        self._of_references: dict[float, dict[str, tuple[float, ...]]] = {}
        self._study = optuna.create_study(
            storage=_new_journal(storage.with_name(JOURNAL)) if storage else None,
            study_name="tune",
            directions=["minimize" if g.least else "maximize" for g in question.objectives],
        )

    # --- question and results -----------------------------------------------------------------------------

    def run(self, pool: Executor) -> list[Candidate]:
        """Search, repeat the settings near the front with other seeds, and return them with their values by
        seed.

        UsageError if a scheduler that a limit refers to completes no request of the limited flow.
        """
        self._measure_references(pool)
        self._check_references()
        for start in self.space.starts():
            self._study.enqueue_trial(start)
        while self._settings < self.budget.trials and len(self._study.trials) < self._most_proposals:
            self._batch(pool)
            if self._settings >= self.space.size:
                break
        return self._repeat(pool)

    @property
    def remembered(self) -> int:
        """How many settings the file had when it was opened, references included."""
        return self._memory.settings(self._seed, self.load.shares[0])

    @property
    def simulated(self) -> int:
        """The number of pairs of setting and seed that were simulated, references included."""
        return self._memory.simulated

    @property
    def evaluations(self) -> float:
        """The simulated time, in whole simulations."""
        return self.simulated_s / self.whole_s if self.whole_s else 0.0

    @property
    def _settings(self) -> int:
        return len(self.found)

    @property
    def _most_proposals(self) -> int:
        return PATIENCE * self.budget.trials + len(list(self.space.starts()))

    @property
    def last_limits(self) -> list[float]:
        """The limits, from the means of the references over their seeds so far."""
        return list(self.question.limits({name: own.values for name, own in self.references.items()}))

    def _results(self, wanted: Sequence[Wanted], pool: Executor) -> list[Evaluation]:
        """The results of these simulations. Those that are not in memory run in parallel."""

        def simulate(new: Sequence[Wanted]) -> Iterator[Evaluation]:
            for given in self.load.evaluate(new, pool):
                values = tuple(q.of(given.flows, self.members) for q in self.question.quantities)
                yield Evaluation(values, given.seconds, _flows(given))

        return self._memory.of(wanted, simulate)

    # --- the schedulers that limits refer to --------------------------------------------------------------

    def _measure_references(self, pool: Executor) -> None:
        settings = [Setting(name, {}) for name in self.question.references]
        wanted = [Wanted(s, self._seed, share) for s in settings for share in self.load.shares]
        for w, result in zip(wanted, self._results(wanted, pool), strict=True):
            name = w.setting.scheduler
            self._of_references.setdefault(w.share, {})[name] = result.values
            if w.share == WHOLE:
                self.references[name] = Candidate(w.setting, [result.values])
                self.whole_s = result.seconds

    def _check_references(self) -> None:
        for keep in self.question.keeps:
            own = self.references.get(keep.of or "")
            if own and own.values[self.question.quantities.index(keep.quantity)] in (0.0, math.inf):
                raise UsageError(
                    f"--keep: {keep}: {keep.of} completes no request of {keep.quantity.flow}, so this is no "
                    "limit; expected a number, another scheduler, or a longer simulation (without --quick)"
                )

    @property
    def _seed(self) -> int:
        return self.load.mode.seeds[0]

    # --- proposals ----------------------------------------------------------------------------------------

    def _batch(self, pool: Executor) -> None:
        """Propose some settings, simulate the new ones, and report the results to Optuna."""
        done = sum(t.state == TrialState.COMPLETE for t in self._study.get_trials(deepcopy=False))
        self._study.sampler = optuna.samplers.TPESampler(
            seed=(self.budget.seed * 1_000_003 + done) % 2**32,
            n_startup_trials=1,
        )
        count = min(BATCH, self.budget.trials - self._settings)
        trials = [self._study.ask() for _ in range(count)]
        settings = [self.space.suggest(trial) for trial in trials]
        known = {t.setting.label: t for t in self.found}
        new = {s.label: s for s in settings if s.label not in known}
        results = self._simulate(list(new.values()), pool)
        for trial, setting in zip(trials, settings, strict=True):
            if setting.label in results:
                tried, seconds = results.pop(setting.label)
                self.found.append(tried)
                self.simulated_s += seconds
                known[setting.label] = tried
                if not self._memory.had(Wanted(setting, self._seed, self.load.shares[0])):
                    self.told(setting.label, 1.0)
            tried = known[setting.label]
            for keep, missed in zip(self.question.keeps, tried.missed, strict=True):
                trial.set_constraint(str(keep), missed)
            self._study.tell(trial, [min(v, ENDLESS) for v in tried.values])

    def _simulate(self, settings: Sequence[Setting], pool: Executor) -> dict[str, tuple[Tried, float]]:
        """Try each setting for a short time, and the promising ones for the whole time; also the simulated
        seconds of each.
        """
        limits = {share: self.question.limits(given) for share, given in self._of_references.items()}
        seconds = dict.fromkeys((s.label for s in settings), 0.0)
        out: dict[str, Tried] = {}
        left = list(settings)
        for share in self.load.shares:
            results = self._results([Wanted(s, self._seed, share) for s in left], pool)
            for setting, result in zip(left, results, strict=True):
                values = result.values
                missed = self.question.missed(values, limits[share])
                first = out[setting.label].first if setting.label in out else values
                out[setting.label] = Tried(setting, first, values, missed, share != WHOLE, result.flows)
                seconds[setting.label] += result.seconds
            left = [s for s in left if self._may_be_of_use(out[s.label])]
        return {label: (tried, seconds[label]) for label, tried in out.items()}

    def _may_be_of_use(self, tried: Tried) -> bool:
        """Whether a setting nearly keeps its limits, and no earlier setting was much better in every
        objective.
        """
        before = [t.first for t in self.found if t.kept and not t.short]
        worse = dominated(tried.first, before, self.question.objectives, SLACK)
        return not worse and all(m <= SLACK for m in tried.missed)

    # --- repeats ------------------------------------------------------------------------------------------

    def _repeat(self, pool: Executor) -> list[Candidate]:
        """Repeat the settings near the front with further seeds. If none then keeps its limits, repeat the
        next front.
        """
        candidates: list[Candidate] = []
        left = [t for t in self.found if not t.short and t.kept]
        for _ in range(LAYERS):
            values = [t.values for t in left]
            near = [t for t in left if not dominated(t.values, values, self.question.objectives, SLACK / 2)]
            layer = [Candidate(t.setting, [t.values]) for t in _each_once(near)]
            self._repeat_each(layer, pool)
            candidates += layer
            if any(keeps(c, self.question, self.last_limits) for c in layer):
                break
            left = [t for t in left if t not in near]
        return candidates

    def _repeat_each(self, candidates: Sequence[Candidate], pool: Executor) -> None:
        """Add seeds until the candidates' intervals are apart or all seeds are used.

        The references get the same seeds: a limit must not depend on the one seed that candidates were
        chosen with.
        """
        objectives = self.question.objectives
        least = min(3, self.budget.repeats)
        seeds = _further(self.load.mode.seeds, self.budget.repeats)
        for i, seed in enumerate(seeds, 2):
            open_ = [
                c
                for c in candidates
                if i <= least or any(c.overlaps(o, objectives) for o in candidates if o is not c)
            ]
            if not open_:
                break
            again = [*open_, *(own for own in self.references.values() if len(own.runs) < i)]
            values = self._at_seed([c.setting for c in again], seed, pool)
            for candidate in again:
                candidate.runs.append(values[candidate.setting.label])

    def _at_seed(
        self, settings: Iterable[Setting], seed: int, pool: Executor
    ) -> dict[str, tuple[float, ...]]:
        """The objectives with another seed, by label. Each setting is simulated once."""
        wanted = [Wanted(s, seed, WHOLE) for s in {s.label: s for s in settings}.values()]
        results = self._results(wanted, pool)
        for w in wanted:
            if not self._memory.had(w):
                self.told(f"{w.setting.label}, seed {seed}", 0.0)
        self.simulated_s += sum(r.seconds for r in results)
        return {w.setting.label: r.values for w, r in zip(wanted, results, strict=True)}


def _new_journal(path: Path) -> JournalStorage:
    """A new, empty storage: all trials are reported to Optuna again."""
    for old in (path, path.with_name(f"{path.name}.lock")):
        old.unlink(missing_ok=True)
    return JournalStorage(JournalFileBackend(str(path)))


def _each_once(tried: Iterable[Tried]) -> list[Tried]:
    """One setting for each set of equal values: the one found first, which is nearest to a default."""
    return list({t.values: t for t in reversed(list(tried))}.values())[::-1]


def _further(seeds: Sequence[int], count: int) -> list[int]:
    """The seeds after the first: those of the mode, then the numbers that follow."""
    own = [*seeds, *range(max(seeds) + 1, max(seeds) + count)]
    return own[1:count]


def _flows(given: Given) -> dict[str, dict[str, float]]:
    return {
        f.name: {
            "iops": f.iops,
            "mib_s": f.mib_s,
            "p50_us": f.histogram.percentile(0.5),
            "p99_us": f.histogram.percentile(0.99),
        }
        for f in given.flows
        if f.histogram.n
    }
