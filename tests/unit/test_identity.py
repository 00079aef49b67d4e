# SPDX-License-Identifier: GPL-2.0-only
"""What decides a run's figures: the files and values that are in its identity, and those that are not."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tailgate.load.loads import Loads
from tailgate.spec import drive as drives
from tailgate.spec import experiment
from tailgate.spec.plan import Run
from tailgate.targets import identity, sim, vm
from tailgate.targets.resolve import resolve

#: What says which points there are and what each is, and makes a measurement of what came of it.
SHARED = {
    *("load/arrivals.py", "load/fiojob.py", "load/loads.py", "load/options.py"),
    *("runs/flow.py", "runs/histogram.py", "runs/measurements.py"),
    *("spec/arrivals.py", "spec/cgroups.py", "spec/drive.py", "spec/experiment.py", "spec/grid.py"),
    *("spec/plan.py", "spec/scheduler.py", "spec/sweep.py"),
}
OF_SIM = {
    *("load/files.py", "load/pattern.py", "load/priorities.py", "load/process.py"),
    *("load/section.py", "load/traces.py", "load/workload.py"),
    *("simulator/knobs.py", "simulator/settings.py", "simulator/simulation.py"),
    *("spec/machines.py", "targets/sim_point.py"),
}
OF_VM = {
    *("guest/channel.py", "guest/cpio.py", "guest/initramfs.py", "guest/machine.py", "guest/programs.py"),
    *("guest/qemu.py", "guest/scratch.py", "guest/snapshot.py"),
    *("runs/evidence.py", "targets/vm_chunk.py", "targets/vm_measure.py"),
}
SCRIPTS = {
    *("guest/inside/emit", "guest/inside/idle_sample", "guest/inside/init", "guest/inside/mark"),
    "targets/points.sh",
}


def test_code_of_the_simulator() -> None:
    assert set(identity.code(sim.CODE)) == SHARED | OF_SIM


def test_code_of_guests() -> None:
    assert set(identity.code(vm.CODE)) == SHARED | OF_VM
    assert set(identity.files(vm.SCRIPTS)) == SCRIPTS


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the package tailgate."""
    return Path(shutil.copytree(identity.PACKAGE, tmp_path / "tailgate"))


def hashes(package: Path) -> list[dict[str, str]]:
    code = [identity.code(target.CODE, package) for target in (sim, vm)]
    return [*code, identity.files(vm.SCRIPTS, package)]


def test_what_only_says_something_decides_nothing(package: Path) -> None:
    before = hashes(package)
    (package / "guest/README.md").write_text("Other words.\n")
    (package / "guest/inside/README.md").write_text("Other words.\n")
    for folder in ("base", "cli", "papers", "show", "upkeep"):
        for file in (package / folder).rglob("*.py"):
            file.write_text(f"print('hello')\n{file.read_text()}")
    for name in ("targets/measure.py", "targets/sim.py", "targets/vm.py", "runs/export.py", "runs/folder.py"):
        (package / name).write_text("print('hello')\n")
    for file in package.rglob("*.py"):
        file.write_text(f"# A comment.\n{file.read_text()}")
    assert hashes(package) == before


def test_comments_and_docstrings_decide_nothing(package: Path) -> None:
    before = hashes(package)
    file = package / "load/fiojob.py"
    text = file.read_text()
    docstring = text.split('"""')[1]
    file.write_text(text.replace(docstring, "Something else."))
    assert hashes(package) == before


@pytest.mark.parametrize(
    ("name", "of_sim", "of_vm"),
    [
        ("load/fiojob.py", True, True),
        ("spec/drive.py", True, True),
        ("runs/histogram.py", True, True),
        ("load/workload.py", True, False),
        ("guest/qemu.py", False, True),
    ],
)
def test_code_decides(package: Path, name: str, of_sim: bool, of_vm: bool) -> None:
    *before, scripts = hashes(package)
    (package / name).write_text(f"{(package / name).read_text()}\nANOTHER_LINE = 1\n")
    *after, same_scripts = hashes(package)
    assert [one != other for one, other in zip(before, after, strict=True)] == [of_sim, of_vm]
    assert scripts == same_scripts


def test_what_decides_nothing_exists(package: Path) -> None:
    (package / "spec/toml.py").rename(package / "spec/other.py")
    with pytest.raises(ValueError, match=r"there is no spec/toml\.py"):
        identity.code(sim.CODE, package)


def asked(run: Run, path: Path) -> dict[str, object]:
    drive = drives.load(run.spec.drive)[1]
    return identity.asked(run, Loads(run, path, drive), drive)


def changed(change: Callable[[Run], Run]) -> set[str]:
    """The names of what differs in the identity of a changed run of k2/fig8."""
    path = experiment.find("k2/fig8")
    run = resolve(path, "quick", ["none", "k2-8"], None)
    before, after = asked(run, path), asked(change(run), path)
    return {name for name in before if before[name] != after[name]}


def of_spec(**update: object) -> Callable[[Run], Run]:
    return lambda run: replace(run, spec=run.spec.model_copy(update=update))


def test_what_is_asked_for() -> None:
    """Titles, the paper, other modes and schedulers that are not asked for decide nothing."""
    path = experiment.find("k2/fig8")
    spec = experiment.load(path)
    assert set(asked(resolve(path, "quick", None, None), path)) == {
        *("records", "experiment", "mode", "schedulers", "variants", "jobs", "traces", "drive"),
    }
    assert changed(lambda run: run) == set()
    assert changed(of_spec(title="Another", modes={}, schedulers=spec.schedulers[:1])) == set()
    assert changed(of_spec(paper=spec.paper and spec.paper.model_copy(update={"title": "T"}))) == set()
    assert changed(of_spec(queue={**spec.queue, "nr_requests": 7})) == {"experiment"}
    assert changed(lambda run: replace(run, mode=run.mode.model_copy(update={"seeds": (3,)}))) == {"mode"}
    assert changed(lambda run: replace(run, schedulers=run.schedulers[:1])) == {"schedulers"}
    assert changed(of_spec(drive="noisy")) == {"drive"}


def test_the_order_of_flows_decides() -> None:
    """The first real-time flow ends a point."""
    path = experiment.find("k2/fig11")
    run = resolve(path, "quick", ["k2-8"], None)
    swapped = dict(reversed(run.spec.flows.items()))
    other = replace(run, spec=run.spec.model_copy(update={"flows": swapped}))
    assert swapped == run.spec.flows
    assert identity.key(asked(run, path)) == identity.key(asked(run, path))
    assert identity.key(asked(run, path)) != identity.key(asked(other, path))
