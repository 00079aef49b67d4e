# SPDX-License-Identifier: GPL-2.0-only
"""What the folder of a run keeps of what was read: experiment, jobs, paper's numbers, drive, our modules."""

from pathlib import Path

from tailgate.targets.protocol import Target


def write(target: Target, folder: Path) -> None:
    """Write these files into the folder's `sources`."""
    (folder / "sources").mkdir(parents=True, exist_ok=True)
    for name, data in _sources(target).items():
        (folder / "sources" / name).write_bytes(data)


def _sources(target: Target) -> dict[str, bytes]:
    """The files' contents, by name."""
    beside = target.path.parent
    names = [beside / name for _, name in target.run.spec.files_beside]
    kept = {file.name: file.read_bytes() for file in (target.path, *names)}
    # A drive or a machine may be called like an experiment.
    for name, data in [(target.drive_path.name, target.drive_path.read_bytes()), *target.sources.items()]:
        while kept.setdefault(name, data) != data:
            name = f"other-{name}"
    return kept
