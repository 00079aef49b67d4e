# SPDX-License-Identifier: GPL-2.0-only
"""The settings that a search may try: schedulers, their knobs, and the values of each knob, in order."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import optuna

from tailgate.base.errors import UsageError, one_of
from tailgate.simulator.knobs import AUTO, OF_QUEUE, Knob, declared
from tailgate.spec.grid import words
from tailgate.spec.scheduler import Knob as Value
from tailgate.spec.scheduler import Scheduler

#: By scheduler, the searched knobs with the least and the largest value of each. Where 0 means "no bound", it
#: follows the largest value in order. Other knobs stay at their defaults.
SEARCHED: Mapping[str, Mapping[str, tuple[int, int]]] = {
    "none": {"nr_requests": (4, 512)},
    "mq-deadline": {
        "read_expire": (1, 5_000),
        "write_expire": (1, 50_000),
        "writes_starved": (1, 50),
        "fifo_batch": (1, 64),
    },
    "kyber": {"read_lat_nsec": (20_000, 100_000_000), "write_lat_nsec": (20_000, 100_000_000)},
    "k2": {
        "inflight_max": (1, 256),
        "inflight_kib_max": (4, 4096),
        "rt_target_us": (50, 20_000),
        "split_kib": (4, 256),
        "write_debt_kib_max": (32, 16_384),
    },
    "mqfq": {"d": (1, 256), "t_kib": (4, 8192), "flow_by": (0, 1)},
}
#: Knobs for which 0 means "no bound" or "off".
OFF = frozenset({"inflight_kib_max", "rt_target_us", "split_kib", "write_debt_kib_max"})
#: Times take these multiples of powers of ten; sizes and counts take powers of two and the numbers midway
#: between them.
DECIMAL = (1, 1.5, 2, 3, 5, 7)
#: Value of a knob that is not written, because its default depends on the drive and the experiment.
LEFT = "default"


@dataclass(frozen=True)
class Axis:
    """A knob and the values that are tried, from the strictest bound to the loosest."""

    scheduler: str
    knob: Knob
    values: tuple[Value, ...]

    @property
    def name(self) -> str:
        """The name of the parameter in Optuna."""
        return f"{self.scheduler}.{self.knob.name}"

    @property
    def start(self) -> int:
        """The index of the default among the values."""
        return self.values.index(LEFT if self.knob.default is None else self.knob.default)

    @property
    def ends(self) -> tuple[int, int]:
        """The indices of the first and the last value."""
        return 0, len(self.values) - 1


@dataclass(frozen=True)
class Setting:
    """A scheduler and the values of those of its knobs, or of the queue's settings, that are set."""

    scheduler: str
    knobs: Mapping[str, Value]

    @property
    def changed(self) -> dict[str, Value]:
        """The knobs that are not at their defaults."""
        own = declared()[self.scheduler]
        return {name: value for name, value in self.knobs.items() if value != own[name].default}

    @property
    def label(self) -> str:
        """A label for an experiment, as in k2-auto-64-0."""
        return "-".join([self.scheduler, *(words(k, v) for k, v in self.knobs.items())])

    def as_scheduler(self, label: str | None = None) -> Scheduler:
        """The setting as an experiment states it; its times and rates are dilated with the guest's time."""
        own = declared()[self.scheduler]
        numbers = [name for name, value in self.knobs.items() if isinstance(value, int) and value]
        return Scheduler(
            label=label or self.label,
            name=self.scheduler,
            knobs={name: value for name, value in self.knobs.items() if name not in OF_QUEUE},
            queue={name: value for name, value in self.knobs.items() if name in OF_QUEUE},
            dilated=tuple(n for n in numbers if own[n].dilated),
            rates=tuple(n for n in numbers if own[n].rate),
        )


class Space:
    """All settings of some schedulers."""

    def __init__(self, schedulers: Sequence[str]) -> None:
        """UsageError for a scheduler that is not in SEARCHED."""
        for name in schedulers:
            if name not in SEARCHED:
                raise UsageError(f"--schedulers: {name} is not searched; expected {one_of(list(SEARCHED))}")
        self.axes = {name: tuple(_axis(name, knob) for knob in SEARCHED[name]) for name in schedulers}

    @property
    def size(self) -> int:
        """The number of settings."""
        total = 0
        for axes in self.axes.values():
            of_one = 1
            for axis in axes:
                of_one *= len(axis.values)
            total += of_one
        return total

    def defaults(self) -> list[Setting]:
        """Each scheduler at its defaults."""
        return [_setting(name, axes, {}) for name, axes in self.axes.items()]

    def starts(self) -> Iterator[dict[str, object]]:
        """The first trials, as Optuna's parameters: each scheduler at its defaults, then one knob at either
        end.

        For a scheduler with two knobs, trials with both knobs at an end follow.
        """
        for name, axes in self.axes.items():
            yield _parameters(name, axes, {})
        longest = max((len(axes) for axes in self.axes.values()), default=0)
        for i in range(longest):
            for name, axes in self.axes.items():
                for end in axes[i].ends if i < len(axes) else ():
                    if end != axes[i].start:
                        yield _parameters(name, axes, {axes[i].name: end})
        for name, axes in self.axes.items():
            for ends in product(*(axis.ends for axis in axes)) if len(axes) == 2 else ():
                if all(end != axis.start for axis, end in zip(axes, ends, strict=True)):
                    yield _parameters(name, axes, {a.name: end for a, end in zip(axes, ends, strict=True)})

    def suggest(self, trial: optuna.Trial) -> Setting:
        """The setting that Optuna suggests for a trial."""
        name = str(trial.suggest_categorical("scheduler", list(self.axes)))
        axes = self.axes[name]
        return _setting(name, axes, {a.name: _suggest(trial, a) for a in axes})


def defaults(scheduler: str) -> Setting:
    """A scheduler with the default values of its searched knobs."""
    return Space([scheduler]).defaults()[0] if scheduler in SEARCHED else Setting(scheduler, {})


def _suggest(trial: optuna.Trial, axis: Axis) -> int:
    if axis.knob.words:
        return int(trial.suggest_categorical(axis.name, list(range(len(axis.values)))))
    return trial.suggest_int(axis.name, 0, len(axis.values) - 1)


def _setting(name: str, axes: Sequence[Axis], places: Mapping[str, int]) -> Setting:
    values = {a.knob.name: a.values[places.get(a.name, a.start)] for a in axes}
    return Setting(name, {knob: value for knob, value in values.items() if value != LEFT})


def _parameters(name: str, axes: Sequence[Axis], places: Mapping[str, int]) -> dict[str, object]:
    return {"scheduler": name, **{a.name: places.get(a.name, a.start) for a in axes}}


def _axis(scheduler: str, name: str) -> Axis:
    knob = declared()[scheduler][name]
    least, most = SEARCHED[scheduler][name]
    if knob.words:
        return Axis(scheduler, knob, knob.words)
    steps = _decimal(least, most) if knob.dilated else _binary(least, most)
    numbers = {n for n in steps if n % knob.step == 0}
    if isinstance(knob.default, int) and knob.default:
        numbers.add(knob.default)
    automatic = (AUTO,) if knob.automatic else ()
    off = (0,) if name in OFF else ()
    left = (LEFT,) if knob.default is None else ()
    return Axis(scheduler, knob, (*automatic, *sorted(numbers), *off, *left))


def _decimal(least: int, most: int) -> Iterator[int]:
    power = 1
    while power <= most:
        yield from (round(power * part) for part in DECIMAL if least <= power * part <= most)
        power *= 10


def _binary(least: int, most: int) -> Iterator[int]:
    power = 1
    while power <= most:
        yield from (n for n in (power, power * 3 // 2) if least <= n <= most)
        power *= 2
