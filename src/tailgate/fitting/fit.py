# SPDX-License-Identifier: GPL-2.0-only
"""Fits a drive's parameters to its measured figures, a few parameters at a time.

Some loads depend on few parameters: a single write, for example, on the link and the controller only. These
parameters are fitted first, and then held. The weight of a figure is one over its standard error, which is
measured on the model with several seeds of the drive: a tail that rests on a few requests has little weight.
The method is that of Nelder and Mead (scipy), which needs no derivatives: percentiles move in jumps, and
pairs of parameters make narrow valleys, in which least squares ended beside the minimum. Discrete parameters
(dies, layout, admission) are tried value by value.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from scipy.optimize import minimize

from tailgate.fitting.model import SEED, Model, Parameters
from tailgate.fitting.probe import READS, WRITES, FigureName, Probed, ProbeLoad, Tail, ratios

#: Parameters that measurements from outside show hardly or not at all; they are not fitted.
ASSUMED: Parameters = {
    "slots": 256,
    "capacity_mib": 4096,
    "max_kib": 512,
    "fetch_kib": 32,
    "read_more_ns": 1000,
    "program_kib": 32,
    "erase_kib": 8192,
}
#: Erases for each program.
ERASED = ASSUMED["program_kib"] / ASSUMED["erase_kib"]
#: Start values of the fit, where the first figures give none.
START: Parameters = {
    "unit_kib": 4,
    "placement": 0,
    "dies": 8,
    "read_spread_percent": 15,
    "read_rare_ppm": 200,
    "read_rare_ns": 800_000,
    "transfer_ns": 300,
    "write_fixed_ns": 12_000,
    "buffer_kib": 2_000,
    "program_ns": 200_000,
    "erase_ns": 4_000_000,
    "admission": 1,
}
#: Largest value of parameters that have a limit.
MOST: Parameters = {"dies": 255, "read_spread_percent": 100, "read_rare_ppm": 900_000}
#: Reads outstanding in the load many-4k (experiments/probe/reads.toml).
MANY = 64
#: Numbers of dies that are tried first.
DIES = (3, 4, 5, 7, 9, 12, 16, 24, 40)
#: Values of unit_kib and placement that are tried if those of START are off by more than AMISS.
LAYOUTS = ((16, 0), (4, 1), (4, 2))
#: The cost (the mean square of standard errors) above which the layout of START is in doubt.
AMISS = 40.0
#: Rounds at most. A round computes new weights and tries one die fewer and one die more than the best so far.
ROUNDS = 8
#: KiB of the write buffer and ns of an erase that are tried first.
BUFFERS = (700, 1_000, 1_400, 2_000, 2_800, 4_000, 5_600, 8_000)
ERASES = (2_500_000, 5_000_000)
#: Seeds of the simulated drives whose mean is compared with what was measured: one to search with, more to
#: decide with.
SEARCHED, DECIDED = (SEED,), (SEED, SEED + 11, SEED + 12)
#: First changes on the logarithmic scale: of most parameters; of a small number, and of what is hardly known.
CHANGE = 0.1
CHANGES = {"read_spread_percent": 0.3, "read_rare_ppm": 0.7, "read_rare_ns": 0.3}
#: Steps of a fit to reads alone, with their shares of the time.
READ_STEPS = {"dies, roughly": 15.0, "reads": 85.0}
#: What a step fits.
WRITE_NUMBERS = ("buffer_kib", "program_ns", "erase_ns")
READ_TIMES = ("read_ns", "read_fixed_ns", "read_spread_percent", "read_rare_ppm", "read_rare_ns")
#: Seeds of the simulated drives whose spread gives the standard error of a figure, and the least standard
#: error of a figure's logarithm, from the width of the histogram's bins.
NOISE_SEEDS = range(SEED + 1, SEED + 7)
GRAIN = 0.006
#: Residuals above FAR standard errors are weighted linearly (Huber).
FAR = 3.0

Vector = np.ndarray[tuple[int], np.dtype[np.float64]]
Step = Callable[[], dict[str, int]]
Weights = Mapping[tuple[ProbeLoad, FigureName], float]


class Fit:
    """A fit to a probed drive. `told` is called with one line of text for reads, and one for writes."""

    def __init__(self, model: Model, measured: Probed, tail: Tail, told: Callable[[str], None]) -> None:
        """`tail` is measured with one 4 KiB read outstanding."""
        self.model, self.measured, self.tail, self.told = model, measured, tail, told
        self.writes = any(load.experiment == WRITES for load in measured)

    def steps(self) -> dict[str, float]:
        """The steps, each with its share of the time in percent."""
        return {"link": 1, "dies, roughly": 9, "reads": 50, "writes": 40} if self.writes else READ_STEPS

    def run(self, do: Callable[[str, Step], dict[str, int]] = lambda _, step: step()) -> dict[str, int]:
        """Fit all parameters and return them. `do` runs a step, or knows what it found before."""
        found = dict(START)
        mean_ns = 1000 * self._figure(READS, "one-4k", "read", "mean")
        found |= {"read_ns": round(0.75 * mean_ns), "read_fixed_ns": round(0.25 * mean_ns)}
        if self.tail.share:
            found |= {
                "read_rare_ppm": max(1, round(1e6 * self.tail.share)),
                "read_rare_ns": round(1000 * self.tail.late_us),
            }
        if self.writes:
            start = found
            found = do("link", lambda: self._link(start))
        linked = found
        rough = do("dies, roughly", lambda: self._rough(linked))
        reads = do("reads", lambda: self._reads(rough))
        return do("writes", lambda: self._writes(reads)) if self.writes else reads

    # --- steps --------------------------------------------------------------------------------------------

    def _link(self, found: Parameters) -> dict[str, int]:
        """Fit the link and the controller, which alone decide single writes into the empty buffer."""
        small_ns = 1000 * self._figure(WRITES, "one-4k", "write", "mean")
        large_ns = 1000 * self._figure(WRITES, "one-128k", "write", "mean")
        transfer = max(1, round((large_ns - small_ns) / 124))
        start = {**found, "transfer_ns": transfer, "write_fixed_ns": max(1, round(small_ns - 4 * transfer))}
        loads = [ProbeLoad(WRITES, "one-4k"), ProbeLoad(WRITES, "one-128k")]
        return self._search(start, ("transfer_ns", "write_fixed_ns"), loads, 50)[0]

    def _reads(self, found: Parameters) -> dict[str, int]:
        """Fit the times of reads for the number of dies found and those beside it, until none is better."""
        loads, own = self.model.loads(READS), dict(found)
        names = READ_TIMES if self.writes else (*READ_TIMES, "transfer_ns")
        tried: dict[int, dict[str, int]] = {}
        costs: dict[int, float] = {}
        for _ in range(ROUNDS):
            weights = self._weights(own, loads)
            for dies in {max(1, own["dies"] + more) for more in (-1, 0, 1)} - tried.keys():
                near = self._search(self._with_dies(own, dies), names[:2], loads, 25, weights=weights)[0]
                tried[dies] = self._search(near, names, loads, 80, weights=weights)[0]
            # All are compared with the same weights.
            costs = {dies: self._cost(one, loads, weights, DECIDED) for dies, one in tried.items()}
            before, own = own["dies"], tried[min(costs, key=costs.__getitem__)]
            if own["dies"] == before:
                break
        two = sorted(tried, key=costs.__getitem__)[:2]
        own = self._best([self._search(tried[dies], names, loads, 60, DECIDED)[0] for dies in two], loads)
        self.told(f"reads: {words(own, ('dies', *names))}")
        return own

    def _rough(self, found: Parameters) -> dict[str, int]:
        """Fit the number of dies roughly, and the layout: LAYOUTS are tried if that of START is far off."""
        loads = self.model.loads(READS)
        best = self._first_reads(found, loads)
        if best[1] > AMISS:
            others = [{**found, "unit_kib": unit, "placement": place} for unit, place in LAYOUTS]
            best = min((best, *(self._first_reads(one, loads) for one in others)), key=_cost)
        return best[0]

    def _first_reads(self, found: Parameters, loads: Sequence[ProbeLoad]) -> tuple[dict[str, int], float]:
        """A rough fit of the times of reads for each number of DIES; the best, and its cost."""
        weights = self._weights(found, loads)
        one_die_ns = round(1e9 / self._figure(READS, "many-4k", "read", "iops"))
        one_ns = found["read_ns"] + found["read_fixed_ns"]
        one_die = {**found, "dies": 1, "read_ns": one_die_ns, "read_fixed_ns": max(1, one_ns - one_die_ns)}
        starts = [self._with_dies(one_die, dies) for dies in DIES]
        possible = [start for start in starts if start["read_fixed_ns"] > 1] or starts[:1]
        names = ("read_ns", "read_fixed_ns")
        return min((self._search(start, names, loads, 20, weights=weights) for start in possible), key=_cost)

    def _with_dies(self, found: Parameters, dies: int) -> dict[str, int]:
        """Change the number of dies, keeping about the time of one read, its spread, and that of MANY reads.

        Where one read would take longer in any case, `read_fixed_ns` is 1.
        """
        one_ns = found["read_ns"] + found["read_fixed_ns"]
        read_ns = max(1, round(found["read_ns"] * _busy(dies) / _busy(found["dies"])))
        # A third of a drive's pages each are read faster and slower by the spread.
        apart_us = self._figure(READS, "one-4k", "read", "p90") - self._figure(READS, "one-4k", "read", "p10")
        spread = min(100, round(100 * 500 * apart_us / read_ns))
        times = {"read_ns": read_ns, "read_fixed_ns": max(1, one_ns - read_ns), "read_spread_percent": spread}
        return {**found, "dies": dies, **times}

    def _writes(self, found: Parameters) -> dict[str, int]:
        """Fit the buffer and the times of programs and erases, for both values of `admission`."""
        loads = self.model.loads(WRITES)
        steady_kib_s = 128 * self._figure(WRITES, "steady", "write", "iops")
        both_ns = 1e9 * found["dies"] * ASSUMED["program_kib"] / steady_kib_s
        starts = [
            {**found, "buffer_kib": buffer, **_erasing(both_ns, erase)}
            for erase in ERASES
            for buffer in BUFFERS
        ]
        weights = self._weights(starts[0], loads)
        near: list[dict[str, int]] = []
        for admission in (0, 1):
            rough = [
                (one, self._cost(one, loads, weights))
                for one in ({**s, "admission": admission} for s in starts)
            ]
            near += [self._slow(start, loads, 0.4, SEARCHED) for start, _ in sorted(rough, key=_cost)[:2]]
        best = self._best(near, loads)
        values = self._best([self._slow(best, loads, by, DECIDED) for by in (-0.3, 0.3)], loads)
        self.told(f"writes: {words(values, ('transfer_ns', 'write_fixed_ns', *WRITE_NUMBERS, 'admission'))}")
        return values

    # --- the search ---------------------------------------------------------------------------------------

    def _best(self, found: Sequence[dict[str, int]], loads: Sequence[ProbeLoad]) -> dict[str, int]:
        """The one of least cost, judged by the weights at each of them: no one's noise decides alone."""
        costs = np.zeros(len(found))
        for own in found:
            weights = self._weights(own, loads)
            costs += [self._cost(one, loads, weights, DECIDED) for one in found]
        return found[int(np.argmin(costs))]

    def _search(
        self,
        start: Parameters,
        names: Sequence[str],
        loads: Sequence[ProbeLoad],
        tries: int,
        seeds: Sequence[int] = SEARCHED,
        weights: Weights | None = None,
        also: Parameters | None = None,
    ) -> tuple[dict[str, int], float]:
        """Fit `names` with `tries` simulations of the loads at most; all parameters, and their cost.

        The first points are `start`, points beside it in each of `names`, and instead of the last, `also`.
        """
        weights = weights or self._weights(start, loads)
        first = _logarithms(start, names)
        simplex = np.vstack([first, first + np.diag([CHANGES.get(name, CHANGE) for name in names])])
        if also:
            simplex[-1] = _logarithms(also, names)

        def cost(logarithms: Vector) -> float:
            return self._cost({**start, **_values(names, logarithms)}, loads, weights, seeds)

        options = {"initial_simplex": simplex, "maxfev": tries, "xatol": 0.002, "fatol": 0.001}
        found = minimize(cost, first, method="Nelder-Mead", options=options)
        return {**start, **_values(names, found.x)}, float(found.fun)

    def _slow(
        self, start: Parameters, loads: Sequence[ProbeLoad], erase: float, seeds: Sequence[int]
    ) -> dict[str, int]:
        """Fit buffer, program and erase.

        `erase` is the first change of an erase's logarithm; a program and its share of an erase stay as long.
        """
        both_ns = start["program_ns"] + start["erase_ns"] * ERASED
        also = {**start, **_erasing(both_ns, start["erase_ns"] * math.exp(erase))}
        return self._search(start, WRITE_NUMBERS, loads, 75, seeds, also=also)[0]

    def _cost(
        self,
        parameters: Parameters,
        loads: Sequence[ProbeLoad],
        weights: Weights,
        seeds: Sequence[int] = SEARCHED,
    ) -> float:
        return _mean(self._errors(parameters, loads, weights, seeds))

    def _errors(
        self, parameters: Parameters, loads: Sequence[ProbeLoad], weights: Weights, seeds: Sequence[int]
    ) -> Vector:
        """The residual of each figure in standard errors, of the mean of drives with these seeds."""
        measured = {load: self.measured[load] for load in loads}
        drive = {**ASSUMED, **parameters}
        runs = [list(ratios(measured, self.model.probe(drive, loads, seed))) for seed in seeds]
        return np.array(
            [
                sum(log for _, _, log in one) / len(runs) * weights[one[0][:2]]
                for one in zip(*runs, strict=True)
            ]
        )

    def _weights(
        self, parameters: Parameters, loads: Sequence[ProbeLoad]
    ) -> dict[tuple[ProbeLoad, FigureName], float]:
        """One over the standard error of each figure's logarithm, from drives with different seeds."""
        runs = [self.model.probe({**ASSUMED, **parameters}, loads, seed) for seed in NOISE_SEEDS]
        found = {}
        for load in loads:
            for name in self.measured[load]:
                logs = [math.log(r[load][name]) for r in runs if r[load].get(name, 0.0) > 0]
                error = float(np.std(logs, ddof=1)) if len(logs) > 2 else 1.0
                # The measured figure has the drive's spread, and the model's mean over the seeds has an error
                # too.
                found[load, name] = 1 / math.hypot(error * math.sqrt(1 + 1 / len(runs)), GRAIN)
        return found

    def _figure(self, experiment: str, load: str, flow: str, figure: str) -> float:
        return self.measured[ProbeLoad(experiment, load)][FigureName(flow, figure)]


def _cost(one: tuple[dict[str, int], float]) -> float:
    return one[1]


def _mean(errors: Vector) -> float:
    """The mean of the squared residuals in standard errors; those above FAR count linearly."""
    size = abs(errors)
    return float(np.mean(np.where(size < FAR, size * size, FAR * (2 * size - FAR))))


def _busy(dies: int) -> float:
    """The mean number of busy dies with MANY reads at random dies, in a closed queueing network."""
    return dies * MANY / (MANY + dies - 1)


def _erasing(both_ns: float, erase_ns: float) -> dict[str, int]:
    """The times of an erase and of a program; with its share of an erase, a program takes `both_ns`."""
    return {"program_ns": max(1, round(both_ns - erase_ns * ERASED)), "erase_ns": round(erase_ns)}


def _logarithms(parameters: Parameters, names: Sequence[str]) -> Vector:
    return np.log([max(1, parameters[name]) for name in names])


def _values(names: Sequence[str], logarithms: Iterable[float]) -> dict[str, int]:
    values = {n: max(1, round(math.exp(min(x, 21)))) for n, x in zip(names, logarithms, strict=True)}
    return {name: min(value, MOST.get(name, value)) for name, value in values.items()}


def words(parameters: Parameters, names: Sequence[str]) -> str:
    """The named parameters in one line."""
    return ", ".join(f"{name} {parameters[name]}" for name in names)
