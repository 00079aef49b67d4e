# SPDX-License-Identifier: GPL-2.0-only
"""Times at which requests of a real-time flow are due, independent of completions, as an experiment states
them.
"""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, Field, model_validator

Kind = Literal["periodic", "jitter", "poisson", "burst", "drift", "reset"]


#: The parameter that each kind needs besides its period.
PARAMETERS: Mapping[str, str] = {
    "jitter": "jitter_percent",
    "burst": "burst",
    "drift": "drift_percent",
    "reset": "reset_every",
}


Period = Annotated[int, Field(ge=1, le=10**9)]


class Arrivals(BaseModel, extra="forbid", frozen=True):
    """Due times of requests. `period_us` is one number for all real-time flows, or a list with one for
    each.
    """

    kind: Kind
    period_us: Period | Annotated[tuple[Period, ...], Field(min_length=1)]
    #: Each request is early or late by at most this share of the period, uniformly; the grid itself is
    #: regular.
    jitter_percent: Annotated[int, Field(ge=1, le=50)] | None = None
    #: This number of requests is due at once, followed by a pause of as many periods.
    burst: Annotated[int, Field(ge=2, le=1024)] | None = None
    #: By the end the period has grown by this share, evenly.
    drift_percent: Annotated[int, Field(ge=1, le=1000)] | None = None
    #: Mean number of requests after which the grid jumps to another phase.
    reset_every: Annotated[int, Field(ge=2)] | None = None

    @model_validator(mode="after")
    def _fits_its_kind(self) -> "Arrivals":
        own = PARAMETERS.get(self.kind)
        if own and getattr(self, own) is None:
            raise ValueError(f"kind {self.kind}: expected {own} with it")
        for name in PARAMETERS.values():
            if name != own and getattr(self, name) is not None:
                raise ValueError(f"kind {self.kind}: expected no {name} with it")
        return self

    @property
    def words(self) -> str:
        """The kind and its parameter, as in `jitter 20 %`."""
        return {
            "periodic": "by the clock",
            "jitter": f"jitter {self.jitter_percent} %",
            "poisson": "poisson",
            "burst": f"bursts of {self.burst}",
            "drift": f"drift {self.drift_percent} %",
            "reset": f"phase reset every {self.reset_every}",
        }[self.kind]

    def period_of(self, flow: int) -> int:
        """The period of the load's `flow`-th real-time flow, from 0, in us."""
        if isinstance(self.period_us, int):
            return self.period_us
        return self.period_us[flow % len(self.period_us)]
