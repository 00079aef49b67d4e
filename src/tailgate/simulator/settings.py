# SPDX-License-Identifier: GPL-2.0-only
"""Converts the settings of users to those of the simulator."""

from collections.abc import Mapping

from tailgate.base.errors import UsageError, one_of
from tailgate.simulator import knobs as knobs_of
from tailgate.simulator import simulation
from tailgate.spec import cgroups
from tailgate.spec.machines import SimulatedMachine
from tailgate.spec.scheduler import Knob, Scheduler

#: Settings of the queue that are fields of the simulator's Device.
DEVICE_SETTINGS = ("nr_requests", "max_sectors_kb")


#: Queue settings without effect in the model; and those that the model supports with some values only.
NEUTRAL_SETTINGS = frozenset({"rotational", "add_random", "iostats", "read_ahead_kb"})


ONLY_SETTINGS: Mapping[str, tuple[int, ...]] = {"wbt_lat_usec": (0,), "io_poll": (0,)}


def simulated(scheduler: Scheduler) -> bool:
    """Whether the simulator supports a scheduler with all its settings.

    It supports no cgroup setting but the weights of mqfq, and no throttling of writeback.
    """
    files = {file for settings in scheduler.cgroups.values() for file in settings}
    only_kernels = files - cgroups.SIMULATED or scheduler.queue.get("wbt_lat_usec")
    return scheduler.name not in simulation.NOT_SIMULATED and not only_kernels


def weights(scheduler: Scheduler) -> dict[str, int]:
    """io.mqfq.weight of the cgroups that have one, by path."""
    return {
        path: settings["io.mqfq.weight"]
        for path, settings in scheduler.cgroups.items()
        if "io.mqfq.weight" in settings
    }


def queue_settings(settings: Mapping[str, Knob], where: str) -> tuple[dict[str, int], dict[str, int]]:
    """Settings below /sys/block/*/queue as fields of the simulator's Device and Machine.

    UsageError, beginning with `where`, for those that are not modelled.
    """
    device: dict[str, int] = {}
    machine: dict[str, int] = {}
    for name, value in settings.items():
        if not isinstance(value, int) or value < 0:
            raise UsageError(f"{where}: queue setting {name}: expected a number of at least 0, got {value!r}")
        if name in DEVICE_SETTINGS:
            device[name] = value
        elif name == "nomerges" and value in (0, 2):
            device["merges"] = value == 0
        elif name == "rq_affinity" and value in (0, 1, 2):
            machine["completes_where_submitted"] = value > 0
        elif name not in NEUTRAL_SETTINGS and value not in ONLY_SETTINGS.get(name, ()):
            known = {"nomerges": "0 or 2", "rq_affinity": "0, 1 or 2"}
            known |= {n: one_of([str(v) for v in values]) for n, values in ONLY_SETTINGS.items()}
            expected = f"expected {known[name]}, got {value}" if name in known else "not modelled"
            raise UsageError(f"{where}: queue setting {name}: {expected}")
    return device, machine


def check_scheduler(name: str, knobs: Mapping[str, Knob], where: str) -> dict[str, int]:
    """The knobs of a scheduler as numbers. UsageError, beginning with `where`, for unknown schedulers or
    knobs.
    """
    if name not in (known := simulation.module().schedulers()):
        raise UsageError(f"{where}: the simulator has no scheduler {name}; expected {one_of(list(known))}")
    # The one knob of `none` is a setting of the queue.
    declared = {} if name == "none" else knobs_of.declared()[name]
    out = {}
    for knob, value in knobs.items():
        if knob not in declared:
            expected = f"expected {one_of(list(declared))}" if declared else "it has none"
            raise UsageError(f"{where}: {name} has no knob {knob} in the simulator; {expected}")
        k = declared[knob]
        if k.words:
            if value not in k.words:
                raise UsageError(f"{where}: {knob}: expected {one_of(k.words)}, got {value!r}")
            out[knob] = k.words.index(str(value))
        elif value == knobs_of.AUTO and k.automatic:
            out[knob] = k.automatic
        elif isinstance(value, int) and k.least <= value <= k.most:
            out[knob] = value
        else:
            raise UsageError(f"{where}: {knob}: expected a number, {k.least} to {k.most}, got {value!r}")
    return out


def machine_values(machine: SimulatedMachine) -> dict[str, int]:
    """The machine's parameters other than its costs."""
    return {name: p.value for name, p in machine.parameters.items()}
