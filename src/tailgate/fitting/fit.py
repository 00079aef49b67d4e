# SPDX-License-Identifier: GPL-2.0-only
"""Fits a drive's parameters to its measured figures: least squares, a few parameters at a time.

Some loads depend on few parameters: a single write, for example, on the link and the controller only. These
parameters are fitted first, and then held. The weight of a figure is one over its standard error, which is
measured on the model with several seeds of the drive: a tail that rests on a few requests has little weight.
The simplex method (J. A. Nelder, R. Mead, 1965) needs no derivatives; figures made of counts have none.
"""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from scipy.optimize import minimize

from tailgate.fitting.model import SEED, Model, Parameters
from tailgate.fitting.probe import READS, WRITES, FigureName, Probed, ProbeLoad, Tail, ratios

#: Parameters that measurements from outside show hardly or not at all; they are not fitted. Data is scattered
#: in units of 4 KiB.
ASSUMED: Parameters = {
    "slots": 256,
    "capacity_mib": 4096,
    "max_kib": 512,
    "unit_kib": 4,
    "placement": 0,
    "fetch_kib": 32,
    "read_more_ns": 1000,
    "program_kib": 32,
    "erase_kib": 8192,
}
#: Start values of the fit, where the first figures give none.
START: Parameters = {
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
#: Rounds at most. A round computes new weights and tries one die fewer and one die more than the best so far.
ROUNDS = 3
READ_TIMES = ("read_ns", "read_fixed_ns", "read_spread_percent", "read_rare_ppm", "read_rare_ns")
#: Seeds of the simulated drives whose spread gives the standard error of a figure, and the least standard
#: error of a figure's logarithm, from the width of the histogram's bins.
NOISE_SEEDS = range(SEED + 1, SEED + 7)
GRAIN = 0.006
#: Residuals above FAR standard errors are weighted linearly (Huber).
FAR = 3.0

Weights = Mapping[tuple[ProbeLoad, FigureName], float]


class Fit:
    """A fit to a probed drive. `told` is called with one line of text for each step."""

    def __init__(self, model: Model, measured: Probed, tail: Tail, told: Callable[[str], None]) -> None:
        """`tail` is measured with one 4 KiB read outstanding."""
        self.model, self.measured, self.tail, self.told = model, measured, tail, told
        self.writes = any(load.experiment == WRITES for load in measured)

    def run(self) -> dict[str, int]:
        """Fit all parameters and return them."""
        found = dict(START)
        mean_ns = 1000 * self._figure(READS, "one-4k", "read", "mean")
        found |= {"read_ns": round(0.75 * mean_ns), "read_fixed_ns": round(0.25 * mean_ns)}
        if self.tail.share:
            found |= {
                "read_rare_ppm": max(1, round(1e6 * self.tail.share)),
                "read_rare_ns": round(1000 * self.tail.late_us),
            }
        if self.writes:
            found = self._link(found)
        found = self._reads(found)
        return self._writes(found) if self.writes else found

    # --- steps --------------------------------------------------------------------------------------------

    def _link(self, found: Parameters) -> dict[str, int]:
        """Fit the link and the controller, which alone decide single writes into the empty buffer."""
        small_ns = 1000 * self._figure(WRITES, "one-4k", "write", "mean")
        large_ns = 1000 * self._figure(WRITES, "one-128k", "write", "mean")
        transfer = max(1, round((large_ns - small_ns) / 124))
        start = {**found, "transfer_ns": transfer, "write_fixed_ns": max(1, round(small_ns - 4 * transfer))}
        loads = [ProbeLoad(WRITES, "one-4k"), ProbeLoad(WRITES, "one-128k")]
        return self._search(start, ("transfer_ns", "write_fixed_ns"), loads, 60, 0.03)[0]

    def _reads(self, found: Parameters) -> dict[str, int]:
        """Fit the times of reads for each number of DIES, then for the numbers beside the best."""
        loads = self.model.loads(READS)
        names = READ_TIMES if self.writes else (*READ_TIMES, "transfer_ns")
        weights = self._weights(found, loads)
        one_die_ns = round(1e9 / self._figure(READS, "many-4k", "read", "iops"))
        one_ns = found["read_ns"] + found["read_fixed_ns"]
        one_die = {**found, "dies": 1, "read_ns": one_die_ns, "read_fixed_ns": max(1, one_ns - one_die_ns)}
        starts = [self._with_dies(one_die, dies) for dies in DIES]
        possible = [start for start in starts if start["read_fixed_ns"] > 1] or starts[:1]
        best = min(
            (self._search(start, names, loads, 60, 0.1, weights) for start in possible),
            key=lambda one: one[1],
        )
        for _ in range(ROUNDS):
            own = best[0]
            weights = self._weights(own, loads)
            best = own, self._cost(own, loads, weights)
            for start in (own, *(self._with_dies(own, max(1, own["dies"] + more)) for more in (-1, 1))):
                other = self._search(start, names, loads, 80, 0.06, weights)
                best = min(best, other, key=lambda one: one[1])
            if best[0]["dies"] == own["dies"]:
                break
        own = best[0]
        found_spread = own["read_spread_percent"]
        for spread in range(max(0, found_spread - 2), min(100, found_spread + 2) + 1):
            start = {**own, "read_spread_percent": spread}
            other = self._search(start, ("read_ns", "read_fixed_ns"), loads, 30, 0.02, weights)
            best = min(best, other, key=lambda one: one[1])
        self.told(f"reads: {words(best[0], ('dies', *names))}")
        return best[0]

    def _with_dies(self, found: Parameters, dies: int) -> dict[str, int]:
        """Change the number of dies, keeping about the time of one read and that of MANY reads.

        Where one read would take longer in any case, `read_fixed_ns` is 1.
        """
        one_ns = found["read_ns"] + found["read_fixed_ns"]
        read_ns = round(found["read_ns"] * _busy(dies) / _busy(found["dies"]))
        return {**found, "dies": dies, "read_ns": read_ns, "read_fixed_ns": max(1, one_ns - read_ns)}

    def _writes(self, found: Parameters) -> dict[str, int]:
        """Fit the buffer and the times of programs and erases, for both values of `admission`."""
        loads, names = self.model.loads(WRITES), ("buffer_kib", "program_ns", "erase_ns")
        steady_kib_s = 128 * self._figure(WRITES, "steady", "write", "iops")
        # Time of a die for one program and for that program's share of an erase.
        both_ns = 1e9 * found["dies"] * ASSUMED["program_kib"] / steady_kib_s
        part = ASSUMED["program_kib"] / ASSUMED["erase_kib"]
        starts = [
            {
                **found,
                "program_ns": max(1, round(both_ns - erase * part)),
                "admission": admission,
                "erase_ns": erase,
                "buffer_kib": buffer,
            }
            for admission in (0, 1)
            for erase in (2_500_000, 5_000_000)
            for buffer in (700, 2_000, 6_000)
        ]
        best: list[tuple[dict[str, int], float]] = []
        weights = self._weights(starts[0], loads)
        for admission in (0, 1):
            first = [s for s in starts if s["admission"] == admission]
            own = min(
                (self._search(s, names, loads, 30, 0.2, weights) for s in first), key=lambda one: one[1]
            )
            for step in (0.2, 0.1, 0.05):
                own = self._search(own[0], names, loads, 90, step)
            best.append(own)
        # The two kinds of admission are compared with the same weights.
        weights = self._weights(min(best, key=lambda one: one[1])[0], loads)
        values = min((one for one, _ in best), key=lambda one: self._cost(one, loads, weights))
        self.told(f"writes: {words(values, ('transfer_ns', 'write_fixed_ns', *names, 'admission'))}")
        return values

    # --- least squares ------------------------------------------------------------------------------------

    def _search(
        self,
        start: Parameters,
        names: Sequence[str],
        loads: Sequence[ProbeLoad],
        evaluations: int,
        step: float,
        weights: Weights | None = None,
    ) -> tuple[dict[str, int], float]:
        """Fit `names` by the simplex method on a logarithmic scale; all parameters, and their cost."""
        weights = weights or self._weights(start, loads)
        logs = [math.log(max(1, start[name])) for name in names]
        simplex = [logs, *([v + step * (i == j) for j, v in enumerate(logs)] for i in range(len(logs)))]
        best = minimize(
            lambda x: self._cost({**start, **_values(names, x)}, loads, weights),
            logs,
            method="Nelder-Mead",
            options={"initial_simplex": simplex, "maxfev": evaluations, "xatol": 1e-3, "fatol": 1e-3},
        )
        return {**start, **_values(names, best.x)}, float(best.fun)

    def _cost(self, parameters: Parameters, loads: Sequence[ProbeLoad], weights: Weights) -> float:
        """The mean of the squared residuals in standard errors; those above FAR count linearly."""
        measured = {load: self.measured[load] for load in loads}
        model = self.model.probe({**ASSUMED, **parameters}, loads)
        errors = [abs(log) * weights[load, name] for load, name, log in ratios(measured, model)]
        return sum(e * e if e < FAR else FAR * (2 * e - FAR) for e in errors) / len(errors)

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


def _busy(dies: int) -> float:
    """The mean number of busy dies with MANY reads at random dies, in a closed queueing network."""
    return dies * MANY / (MANY + dies - 1)


def _values(names: Sequence[str], logarithms: Sequence[float]) -> dict[str, int]:
    values = {n: max(1, round(math.exp(min(x, 21)))) for n, x in zip(names, logarithms, strict=True)}
    return {name: min(value, MOST.get(name, value)) for name, value in values.items()}


def words(parameters: Parameters, names: Sequence[str]) -> str:
    """The named parameters in one line."""
    return ", ".join(f"{name} {parameters[name]}" for name in names)
