# SPDX-License-Identifier: GPL-2.0-only
"""The cgroups of flows and their settings: files of the controller io, and how dilation changes their values.

A cgroup is named by its path below the mount, such as `tenants/a`; "" is the root.

The supported files exist in Debian's kernels (Documentation/admin-guide/cgroup-v2.rst), which lack io.latency
and io.prio.class.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tailgate.base.errors import one_of

#: Name of the root cgroup, above those of the flows, where io.cost.* is set.
ROOT = "root"

#: By file its valid content: a range for one number, or the kind of each key in a drive's line.
FILES: Mapping[str, tuple[int, int] | Mapping[str, str]] = {
    "io.weight": (1, 10_000),
    "io.bfq.weight": (1, 1000),
    "io.mqfq.weight": (1, 10_000),
    "io.max": dict.fromkeys(("rbps", "wbps", "riops", "wiops"), "rate"),
    "io.cost.qos": {
        "enable": "flag",
        "ctrl": "control",
        **dict.fromkeys(("rpct", "wpct", "min", "max"), "percent"),
        **dict.fromkeys(("rlat", "wlat"), "time"),
    },
    "io.cost.model": {
        "ctrl": "control",
        "model": "model",
        **dict.fromkeys(("rbps", "rseqiops", "rrandiops", "wbps", "wseqiops", "wrandiops"), "rate"),
    },
}
OF_ROOT = ("io.cost.qos", "io.cost.model")
#: Files that the simulator supports.
SIMULATED = frozenset({"io.mqfq.weight"})

#: By kind: expected values in words, their test, and how dilation changes one. Times are in us.
_KINDS: Mapping[str, tuple[str, Callable[[Any], bool], Callable[[Any, int], str]]] = {
    "rate": (
        "a whole number above 0",
        lambda v: _whole(v) and v > 0,
        lambda v, dilation: str(-(-v // dilation)),
    ),
    "time": (
        "a whole number above 0, in us",
        lambda v: _whole(v) and v > 0,
        lambda v, dilation: str(v * dilation),
    ),
    "percent": (
        "a number from 0 to 10000",
        lambda v: isinstance(v, int | float) and not isinstance(v, bool) and 0 <= v <= 10_000,
        lambda v, dilation: f"{v:.2f}",
    ),
    "flag": ("0 or 1", lambda v: _whole(v) and v in (0, 1), lambda v, dilation: str(v)),
    "control": ("'auto' or 'user'", lambda v: v in ("auto", "user"), lambda v, dilation: v),
    "model": ("'linear'", lambda v: v == "linear", lambda v, dilation: v),
}


def check(group: str, settings: Mapping[str, Any]) -> None:
    """ValueError for a file or value that a cgroup of this name does not accept; it begins with file
    and key.
    """
    of_group = [file for file in FILES if (file in OF_ROOT) == (group == ROOT)]
    for file, value in settings.items():
        if file not in of_group:
            raise ValueError(f"{file}: expected {one_of(of_group)}")
        known = FILES[file]
        if isinstance(known, tuple):
            least, most = known
            if not _whole(value) or not least <= value <= most:
                raise ValueError(f"{file}: expected a whole number, {least} to {most}, got {value!r}")
            continue
        if not isinstance(value, Mapping) or not value:
            raise ValueError(f"{file}: expected a table with {one_of(list(known))}, got {value!r}")
        for key, own in value.items():
            if key not in known:
                raise ValueError(f"{file}.{key}: unknown key; expected {one_of(list(known))}")
            expected, takes, _ = _KINDS[known[key]]
            if not takes(own):
                raise ValueError(f"{file}.{key}: expected {expected}, got {own!r}")


def parent(path: str) -> str:
    """The parent of a cgroup; the root is its own parent."""
    return path.rpartition("/")[0]


def with_parents(paths: Iterable[str]) -> list[str]:
    """These cgroups, the root, and all cgroups in between, each once, parents first."""
    found = {""}
    for path in paths:
        while path:
            found.add(path)
            path = parent(path)
    return sorted(found)


def lines(cgroups: Mapping[str, Mapping[str, Any]], dilation: int) -> str:
    """Lines for the guest: cgroup below the mount, file, value; a value of KEY=VALUE pairs is for the drive.

    A cgroup without settings is a line with its name alone.
    """
    out = []
    for group, settings in cgroups.items():
        if not settings:
            out.append(f"{group}\n")
        for file, value in settings.items():
            known = FILES[file]
            if not isinstance(known, tuple):
                value = " ".join(f"{key}={_KINDS[known[key]][2](v, dilation)}" for key, v in value.items())
            out.append(f"{'.' if group == ROOT else group} {file} {value}\n")
    return "".join(out)


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
