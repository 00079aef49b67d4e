# SPDX-License-Identifier: GPL-2.0-only
"""A random drive: each number is drawn by a seed from a stated range.

`tailgate claims` judges automatic choices on such drives, and draws new ones each time the code of these
choices changes (claims/README.md). `python -m tailgate.upkeep draw 1 > drives/unseen-1.toml` makes the file
of that name. That drive was held out, that is not used in design, until the automatic bounds were changed
after it had been drawn.
"""

import random
from dataclasses import dataclass

from tailgate.spec import drive_file
from tailgate.spec.drive import Drive, Parameter


@dataclass(frozen=True)
class Range:
    """A parameter of the module vflash, drawn from `least` to `most` with a log-uniform distribution."""

    key: str
    unit: str
    least: int
    most: int


#: NVMe drives of three bits a cell, from small to large ones.
RANGES = (
    Range("dies", "dies", 4, 16),
    Range("read_ns", "ns", 40_000, 100_000),
    Range("read_spread_percent", "%", 5, 40),
    Range("read_rare_ppm", "ppm", 10, 3_000),
    Range("read_rare_ns", "ns", 200_000, 3_000_000),
    Range("read_fixed_ns", "ns", 8_000, 40_000),
    Range("write_fixed_ns", "ns", 6_000, 20_000),
    Range("transfer_ns", "ns/KiB", 150, 500),
    Range("buffer_kib", "KiB", 512, 8_192),
    Range("program_ns", "ns", 100_000, 400_000),
    Range("erase_ns", "ns", 2_000_000, 8_000_000),
)
#: Parameters that are equal for all drives; drives/970evo.toml gives the reasons.
FIXED = (
    ("queues", "queues", 4),
    ("slots", "commands", 256),
    ("capacity_mib", "MiB", 4096),
    ("max_kib", "KiB", 512),
    ("unit_kib", "KiB", 4),
    ("placement", "choice", 0),
    ("fetch_kib", "KiB", 32),
    ("read_more_ns", "ns/KiB", 1000),
    ("program_kib", "KiB", 32),
    ("erase_kib", "KiB", 8192),
)


def drawn(seed: int) -> dict[str, int]:
    """The drawn numbers by key, and the admission (0 or 1)."""
    # The numbers of random() are the same in all versions of Python.
    rng = random.Random(f"drive {seed}")
    found = {r.key: round(r.least * (r.most / r.least) ** rng.random()) for r in RANGES}
    return found | {"admission": int(rng.random() < 0.5)}


def text(seed: int, name: str = "") -> str:
    """The drive file of a seed; by default its name is that of the files in drives/."""
    ranges = {r.key: r for r in RANGES}
    parameters = {}
    for key, value in drawn(seed).items():
        unit, source = "choice", "drawn: 0 or 1, each as likely"
        if key in ranges:
            unit, source = ranges[key].unit, f"drawn from {ranges[key].least} to {ranges[key].most}"
        parameters[key] = Parameter(value=value, unit=unit, source=source)
    for key, unit, value in FIXED:
        parameters[key] = Parameter(value=value, unit=unit, source="choice: as drives/970evo.toml")
    comments = [
        f"Made by `python -m tailgate.upkeep draw {seed}`: do not edit.",
        "What was tuned on other drives is measured here, and nothing else is.",
    ]
    title = f"A drive drawn by chance, seed {seed}"
    drive = Drive(name=name or f"unseen-{seed}", title=title, parameters=parameters)
    return drive_file.text(comments, drive)
