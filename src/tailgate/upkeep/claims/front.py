# SPDX-License-Identifier: GPL-2.0-only
"""The most background that K2's bounds set by hand leave at a latency: a search over all their settings.

Optuna proposes settings (multi-objective TPE: Y. Ozaki et al., GECCO 2020) for the lowest p99 of the
real-time reader and the most background at once, in short simulations. Those near a latency that is asked for
are then simulated as long as what they are compared with.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import optuna

from tailgate.simulator.simulation import Simulation
from tailgate.upkeep.claims.simulations import Reader, pooled, reader, with_knobs

#: What all settings share.
COMMON: Mapping[str, int] = {"inflight_max": 1024, "rt_tags": 25}
#: Requests of the reader in a simulation of the search: the percentile is good to some 5 %.
SHORT = 4000
#: Of the settings near a latency, at least this many are simulated at length.
CONFIRMED = 4
#: A setting is near a latency if its p99 is at most this many times as high in the short simulation.
NEAR = 1.05
SPLITS = (0, 4, 8, 16, 32, 64)

Knobs = Mapping[str, int]


@dataclass(frozen=True)
class Setting:
    """A setting that was simulated."""

    knobs: Knobs
    reader: Reader

    @property
    def p99(self) -> float:
        """The reader's, us."""
        return self.reader.latency.percentile(0.99)


def fixed(kib: int, split_kib: int) -> dict[str, int]:
    """A constant bound on bytes."""
    return {"inflight_kib_max": kib, "split_kib": split_kib}


def ahead(lo: int, hi: int, lead_us: int, ramp: int, fallback: int, split_kib: int) -> dict[str, int]:
    """A bound that looks ahead. Sizes are in KiB, the ramp in percent."""
    sizes = {"ahead_lo_kib": lo, "ahead_hi_kib": max(lo, hi), "ahead_fallback_kib": fallback}
    times = {"ahead_lead_us": lead_us, "ahead_ramp_pct": ramp}
    return {"bound_mode": 1, **sizes, **times, "split_kib": split_kib}


#: Settings that people chose: the fixed bounds and those of k2/frontier.
BY_HAND: Sequence[Mapping[str, object]] = (
    *(
        {"kind": "fixed", "kib": kib, "split_kib": 0}
        for kib in (8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512)
    ),
    *(
        {"kind": "ahead", "lo": lo, "hi": hi, "lead_us": lead, "ramp": 30, "fallback": hi, "split_kib": split}
        for lo, hi, lead, split in (
            (1, 96, 300, 0),
            (1, 96, 200, 0),
            (8, 80, 300, 0),
            (32, 96, 200, 0),
            (64, 384, 400, 4),
            (96, 384, 400, 4),
            (64, 384, 400, 16),
        )
    ),
)


def proposed(trial: optuna.Trial) -> dict[str, int]:
    """The knobs of a trial."""
    if trial.suggest_categorical("kind", ("fixed", "ahead")) == "fixed":
        kib = trial.suggest_int("kib", 4, 1024, log=True)
        return fixed(kib, trial.suggest_categorical("split_kib", SPLITS))
    return ahead(
        trial.suggest_int("lo", 1, 512, log=True) - 1,
        trial.suggest_int("hi", 8, 2048, log=True),
        trial.suggest_int("lead_us", 20, 4000, log=True),
        trial.suggest_int("ramp", 5, 200, log=True),
        trial.suggest_int("fallback", 4, 1024, log=True),
        trial.suggest_categorical("split_kib", SPLITS),
    )


def search(simulated: Simulation, trials: int, seed: int) -> list[Setting]:
    """Settings on and near the frontier of a load. `simulated` is the load under K2, SHORT requests long."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=len(BY_HAND) + trials // 4)
    study = optuna.create_study(directions=("minimize", "maximize"), sampler=sampler)
    for setting in BY_HAND:
        study.enqueue_trial(dict(setting))
    found: list[Setting] = []

    def objective(trial: optuna.Trial) -> tuple[float, float]:
        knobs = {**COMMON, **proposed(trial)}
        setting = Setting(knobs, reader(with_knobs(simulated, knobs)))
        found.append(setting)
        return setting.p99, setting.reader.mib_s

    study.optimize(objective, n_trials=trials)
    return found


class Front:
    """The frontier at the latencies that are asked for; simulates each setting at length once."""

    def __init__(self, long: Sequence[Simulation], settings: Sequence[Setting]) -> None:
        """`long`: the load under K2, with the length and the seeds of what the frontier is compared with."""
        self._long = long
        self._settings = sorted(settings, key=lambda s: -s.reader.mib_s)
        self._confirmed: dict[int, Setting] = {}

    def at(self, p99_us: float) -> Setting | None:
        """The setting with the most background whose p99 is no higher; None if there is none.

        Of those near the latency some are simulated at length, those with the most background first, and
        more until one keeps it; then those with the lowest p99, before it is given up.
        """
        near = [i for i, s in enumerate(self._settings) if s.p99 <= NEAR * p99_us]
        lowest = sorted(range(len(self._settings)), key=lambda i: self._settings[i].p99)[:CONFIRMED]
        allowed: list[Setting] = []
        for tried, i in enumerate([*near, *lowest], 1):
            setting = self._at_length(i)
            if setting.p99 <= p99_us:
                allowed.append(setting)
            if allowed and tried >= CONFIRMED:
                break
        return max(allowed, key=lambda s: s.reader.mib_s, default=None)

    def _at_length(self, i: int) -> Setting:
        if i not in self._confirmed:
            setting = self._settings[i]
            starts = [with_knobs(start, setting.knobs) for start in self._long]
            self._confirmed[i] = replace(setting, reader=pooled(starts))
        return self._confirmed[i]
