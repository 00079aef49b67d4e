# SPDX-License-Identifier: GPL-2.0-only
"""Experiment and drive files: those of the project are right, others get one line that names file and key."""

from pathlib import Path

import pytest
from tests.unit.refusal import refused

from tailgate.base import paths
from tailgate.base.errors import UsageError
from tailgate.load import fiojob
from tailgate.runs import statistics as analysis
from tailgate.spec import drive, experiment, paper
from tailgate.spec.grid import words
from tailgate.spec.scheduler import Scheduler
from tailgate.spec.sweep import expand

FIG8 = paths.EXPERIMENTS / "k2" / "fig8.toml"


def assert_refused(tmp_path: Path, source: Path, old: str, new: str, message: str) -> None:
    """An experiment of the project with one change is refused in one line, which names the file."""
    text = source.read_text()
    assert old in text
    path = tmp_path / "bad.toml"
    path.write_text(text.replace(old, new, 1))
    with refused(f"{path}: {message}"):
        experiment.load(path)


@pytest.mark.parametrize("name", experiment.names())
def test_experiments_of_the_project(name: str) -> None:
    spec = experiment.load(experiment.find(name))
    assert {"nr_requests", "wbt_lat_usec", "nomerges"} <= set(spec.queue)
    figures: list[tuple[experiment.ModeName, int]] = [("quick", 400), ("full", 4000), ("claims", 10_000)]
    for mode, needed in figures:
        if mode in spec.modes and name in ("k2/fig8", "k2/fig2"):
            how = spec.modes[mode]
            assert how.rt_samples * len(how.seeds) >= needed
            assert 1.0 in how.background_rates
    if name.startswith("k2/"):
        assert len(spec.modes["claims"].seeds) >= analysis.SEEDS_MIN
    for sweep in spec.sweeps:
        if spec.paper:
            published = paper.load(experiment.find(name).parent / spec.paper.file, sweep)
            for scheduler in spec.schedulers if sweep.in_tables else ():
                found = paper.cell(published, scheduler.papers, spec.paper.cells)
                assert scheduler.paper is None or found, (sweep.label, scheduler.label)
            if sweep.lines:
                assert any(paper.cell(published, s.papers, spec.paper.cells) for s in spec.schedulers)
        job = fiojob.parse(experiment.find(name).parent / spec.job_of(sweep), sweep.variables)
        for flow in spec.flows_in(sweep):
            job.section(spec.flows[flow].section, flow)


def test_paper_rows() -> None:
    spec = experiment.load(FIG8)
    assert spec.paper
    published = paper.load(FIG8.parent / spec.paper.file, spec.sweeps[0])
    none = paper.cell(published, ("none",), "highest throughput")
    assert none
    assert (none.source, none.mib_s, none.p999_us) == ("Table II", 559, 13_150)
    assert none.rounding == pytest.approx({"mib_s": 0.5, "lat_us.p99.9": 5})
    worst = paper.cell(published, ("none",), "highest latency")
    assert worst
    assert (worst.source, worst.mib_s, worst.p999_us) == ("Table III", 558, 13_530)
    assert len([p for p in published if p.scheduler == "K2-8"]) == 2


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("smp = 1\n", 'smp = "a"\n', "machine.smp: expected a valid integer, got 'a'"),
        (
            "smp = 1\n",
            "spm = 1\n",
            "machine.spm: unknown key; expected dilation, iops_max, memory_mib, simulated, slice_us or smp",
        ),
        ('"auto"', '"aut"', "machine.dilation: expected 'auto' or a valid integer, got 'aut'"),
        ('drive = "970evo"', "", "drive: missing; expected this key"),
        ("[modes.quick]", "[modes.quik]", "modes.quik: expected 'quick', 'full' or 'claims', got 'quik'"),
        ('label = "k2-16"', 'label = "k2-8"', "schedulers: the label k2-8 stands twice; expected each once"),
        (
            'label = "k2-16"',
            'labl = "k2-16"',
            "schedulers[5].labl: unknown key; expected cgroups, dilated, knobs, label",
        ),
        ("[paper]", "[papr]", "papr: unknown key; expected drive, extends, flows, job"),
        (
            'role = "real-time"',
            'role = "rt"',
            "flows.rt.role: expected 'real-time' or 'background', got 'rt'",
        ),
        ('"none", "k2-8"', '"none", "k3"', "variants[0].schedulers: k3 is none of the labels; expected none"),
        ('["read_lat', '["rd_lat', "schedulers[2]: dilated: rd_lat_nsec is not one of the integer knobs"),
        ("seeds = [1]", "seeds = 1", "modes.quick.seeds: expected an array, got 1"),
        ("seeds = [1]", "seeds = []", "modes.quick.seeds: expected at least 1 of them, got []"),
        ("seeds = [1]", "seeds = [2, 1, 2]", "modes.quick.seeds: 2 stands twice; expected each once"),
        ("seeds = [1]", "seeds = [1]\nsim.seeds = [1, 1]", "modes.quick.sim.seeds: 1 stands twice"),
        ("0.25, 1.0", "0.25, 1, 1.0", "modes.quick.background_rates: 1.0 stands twice; expected each once"),
        (
            "[[sweeps]]\n",
            "[[sweeps]]\nbackground_rates = [0, 0]\n",
            "sweeps[0].background_rates: 0.0 stands twice",
        ),
        (
            "background_rates = [1.0]\nrt_samples = 1000",
            "background_rates = [1.0, 1.0]\nrt_samples = 1000",
            "variants[0].background_rates: 1.0 stands twice",
        ),
        ("[machine]", "machine = 1\n[machin]", "machin: unknown key; expected drive, extends, flows, job"),
        (
            'rt = { section = "rt", role = "real-time" }',
            'section = { rol = "real-time" }',
            "flows.section.rol: unknown key; expected cgroup, role or section",
        ),
        (
            "inflight_max = 8, ",
            "inflight_max = [8], ",
            "schedulers[4].knobs.inflight_max: expected a valid integer or a valid string, got [8]",
        ),
        (
            "0.25, 1.0",
            "0.25, 1.5",
            "modes.quick.background_rates[2]: expected less than or equal to 1, got 1.5",
        ),
        ("iops_max = 9500\n", "iops_max = 9500 / s\n", "not valid TOML: "),
        (
            'job = "fig8.fio"',
            'job = "none.fio"',
            "job: expected a file beside the experiment, but there is no",
        ),
        (
            'job = "fig8.fio"',
            'job = "../fig8.fio"',
            "job: expected the name of a file beside the experiment, got '../fig8.fio'",
        ),
        (
            'file = "paper.csv"',
            'file = "other/fig8.fio"',
            "paper.file: expected another file name; another file is called fig8.fio",
        ),
    ],
)
def test_refused_in_one_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    (tmp_path / "other").mkdir()
    for name in ("fig8.fio", "other/fig8.fio", "../fig8.fio"):
        (tmp_path / name).touch()
    assert_refused(tmp_path, FIG8, old, new, message)


def extended(folder: Path, text: str, other: str = FIG8.read_text()) -> experiment.Experiment:
    """An experiment that extends a file."""
    for name in ("fig8.fio", "paper.csv"):
        (folder / name).write_bytes((FIG8.parent / name).read_bytes())
    (folder / "other.toml").write_text(other)
    own = folder / "own.toml"
    own.write_text(text)
    return experiment.load(own)


def test_extends(tmp_path: Path) -> None:
    own = extended(
        tmp_path,
        """
        extends = "other.toml"
        title = "Own"
        variants = []
        [queue]
        nomerges = 1
        [modes.quick]
        seeds = [7]
        [[schedulers]]
        label = "k2-8"
        knobs = { inflight_max = 9 }
        [[schedulers]]
        label = "mine"
        name = "none"
        """,
    )
    other = experiment.load(FIG8)
    [k2] = [s for s in other.schedulers if s.label == "k2-8"]
    assert own.model_copy(update={"schedulers": other.schedulers}) == other.model_copy(
        update={
            "extends": "other.toml",
            "title": "Own",
            "variants": (),
            "queue": {**other.queue, "nomerges": 1},
            "modes": {**other.modes, "quick": other.modes["quick"].model_copy(update={"seeds": (7,)})},
        }
    )
    knobs = {**k2.knobs, "inflight_max": 9}
    assert own.schedulers == (k2.model_copy(update={"knobs": knobs}), Scheduler(label="mine", name="none"))
    assert ("extends", "other.toml") in own.files_beside


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('extends = "no.toml"', "extends: expected the name of a file beside the experiment, got 'no.toml'"),
        (
            'extends = "../a.toml"',
            "extends: expected the name of a file beside the experiment, got '../a.toml'",
        ),
        ("extends = 1", "extends: expected the name of a file beside the experiment, got 1"),
        ('extends = "own.toml"', "extends: expected a file that extends none itself, got own.toml"),
        ('extends = "other.toml"\nmachine = 1', "machine: expected a table, got 1"),
    ],
)
def test_extends_refused_in_one_line(tmp_path: Path, text: str, message: str) -> None:
    with refused(f"{tmp_path / 'own.toml'}: {message}"):
        extended(tmp_path, text)


INVERSION = paths.EXPERIMENTS / "k2" / "inversion.toml"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("memory_backed = 1, ", "", "sweeps[0].drive: expected memory_backed = 1, as there is a file system"),
        ('type = "ext4"', 'type = "btrfs"', "sweeps[0].file_system.type: expected 'ext4', 'xfs' or 'f2fs'"),
        ("duration_s = 1.5\n", "", "modes.quick: expected rt_samples or duration_s: when a point ends"),
        (
            'rates = ["be',
            'rates = ["bf',
            "schedulers[3]: rates: bf_floor_iops is not one of the integer knobs",
        ),
    ],
)
def test_file_systems_refused_in_one_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert_refused(tmp_path, INVERSION, old, new, message)


CONTROLS = paths.EXPERIMENTS / "k2" / "controls.toml"
NUMBER = "a whole number above 0"
RATES = "rbps, wbps, riops or wiops"


FILES = "io.weight, io.bfq.weight, io.mqfq.weight or io.max"


@pytest.mark.parametrize(
    ("group", "file", "value", "message"),
    [
        ("backgr", "io.max", "{ rbps = 5 }", "backgr is none of the labels; expected rt, background or root"),
        ("root", "io.max", "{ rbps = 5 }", "expected io.cost.qos or io.cost.model"),
        (
            "rt",
            "io.cost.qos",
            "{ enable = 1 }",
            f"expected {FILES}",
        ),
        ("rt", "io.latency", "{ target = 5 }", f"expected {FILES}"),
        ("rt", "io.max", "{ bps = 5 }", f".bps: unknown key; expected {RATES}"),
        ("rt", "io.max", "{ rbps = 0 }", f".rbps: expected {NUMBER}, got 0"),
        ("rt", "io.max", '{ rbps = "1m" }', f".rbps: expected {NUMBER}, got '1m'"),
        ("rt", "io.max", "{ rbps = true }", f".rbps: expected {NUMBER}, got True"),
        ("rt", "io.max", "5", f"expected a table with {RATES}, got 5"),
        ("rt", "io.max", "{}", f"expected a table with {RATES}, got {{}}"),
        ("rt", "io.weight", "0", "expected a whole number, 1 to 10000, got 0"),
        ("rt", "io.mqfq.weight", "0", "expected a whole number, 1 to 10000, got 0"),
        ("rt", "io.bfq.weight", "1001", "expected a whole number, 1 to 1000, got 1001"),
        ("root", "io.cost.qos", "{ min = -1 }", ".min: expected a number from 0 to 10000, got -1"),
        ("root", "io.cost.qos", "{ rlat = 1.5 }", f".rlat: expected {NUMBER}, in us, got 1.5"),
        ("root", "io.cost.qos", "{ enable = 2 }", ".enable: expected 0 or 1, got 2"),
        ("root", "io.cost.qos", '{ ctrl = "me" }', ".ctrl: expected 'auto' or 'user', got 'me'"),
        ("root", "io.cost.model", '{ model = "a" }', ".model: expected 'linear', got 'a'"),
    ],
)
def test_cgroups_refused_in_one_line(tmp_path: Path, group: str, file: str, value: str, message: str) -> None:
    where = ".cgroups" if group == "backgr" else f": cgroups.{group}.{file}"
    where += "" if message.startswith(".") else ": "
    old, new = '"none"\nname = "none"\n', f'"none"\nname = "none"\ncgroups.{group}."{file}" = {value}\n'
    assert_refused(tmp_path, CONTROLS, old, new, f"schedulers[0]{where}{message}")


def test_flows_in_cgroups(tmp_path: Path) -> None:
    """Rows name cgroups by path, those above the flows' too; one that has processes has none below it."""
    old = 'rt = { section = "rt", role = "real-time" }'
    new = 'rt = { section = "rt", role = "real-time", cgroup = "tenants/a" }'
    path = tmp_path / "controls.toml"
    text = CONTROLS.read_text().replace(old, new).replace("cgroups.rt.", 'cgroups."tenants/a".')
    path.write_text(text.replace('"none"\nname = "none"\n', '"none"\nname = "none"\ncgroups.tenants = {}\n'))
    for job in ("controls.fio", "controls-writes.fio", "paper.csv"):
        (tmp_path / job).write_text((CONTROLS.parent / job).read_text())
    spec = experiment.load(path)
    rows = {s.label: spec.cgroups_in(spec.sweeps[0], s) for s in spec.schedulers}
    assert rows["none"] == {"rt": "tenants/a"}
    assert rows["bfq-weight"] == {"rt": "tenants/a", "background": "background"}
    known = "tenants/a, background, tenants or root"
    first = next(i for i, s in enumerate(experiment.load(CONTROLS).schedulers) if "rt" in s.cgroups)
    message = f"schedulers[{first}].cgroups: rt is none of the labels; expected {known}"
    assert_refused(tmp_path, CONTROLS, old, new, message)
    message = "flows: background has cgroups below it, and so no processes of its own"
    assert_refused(tmp_path, CONTROLS, old, new.replace("tenants", "background"), message)
    message = "flows.rt.cgroup: expected string should match pattern"
    assert_refused(tmp_path, CONTROLS, old, new.replace("tenants", "/tenants"), message)


def test_default_leaves_a_setting_of_the_queue() -> None:
    spec = experiment.load(paths.EXPERIMENTS / "k2-split" / "section5-1.toml")
    queues = {s.label: spec.queue_of(s) for s in spec.schedulers}
    assert spec.queue["nr_requests"] == 256
    assert queues["k2"] == spec.queue
    assert queues["k2-default-tags"] == {k: v for k, v in spec.queue.items() if k != "nr_requests"}


def test_axes_are_every_combination() -> None:
    found = expand(
        {
            "title": "t",
            "sweep": {"full_rate_mib_s": 1, "variables": {"A": "0"}},
            "axes": {
                "pattern": [{"label": "r", "access": "random"}, {"label": "s", "access": "sequential"}],
                "think": [{"label": ""}, {"label": "think", "variables": {"T": "2"}}],
            },
            "lines": {"s-think": {"source": "Table 3"}},
        }
    )
    assert set(found) == {"title", "sweeps"}
    assert [s["label"] for s in found["sweeps"]] == ["r", "r-think", "s", "s-think"]
    assert found["sweeps"][3] == {
        "full_rate_mib_s": 1,
        "access": "sequential",
        "variables": {"A": "0", "T": "2"},
        "label": "s-think",
        "lines": {"source": "Table 3"},
    }
    assert "lines" not in found["sweeps"][2]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("[lines.random-read-4m]\nsource = 'Table 3'\n", "lines: there is no load random-read-4m; expected"),
        ("[[sweeps]]\nop = 'read'\n", "sweeps: expected either these or axes"),
        ("[[axes.other]]\nlabel = 4\n", "axes: label: expected a string, got 4"),
        (
            "[[axes.other]]\nlabel = 'a'\nop = {x = 1}\n",
            "axes: op: expected a table, as in another part, got 'read'",
        ),
    ],
)
def test_axes_refused_in_one_line(tmp_path: Path, more: str, message: str) -> None:
    text = (paths.EXPERIMENTS / "k2-split" / "section5-1.toml").read_text()
    (tmp_path / "bad.toml").write_text(f"{text}\n{more}")
    with refused(f"{tmp_path / 'bad.toml'}: {message}"):
        experiment.load(tmp_path / "bad.toml")


def test_a_grid_is_every_combination() -> None:
    spec = experiment.load(paths.EXPERIMENTS / "kyber" / "r1-w256.toml")
    none, *cells = spec.schedulers
    assert (none.name, len(cells)) == ("none", 90)
    assert [s.label for s in cells[9:11]] == ["kyber-50us-100ms", "kyber-100us-20us"]
    first = cells[0]
    assert first.knobs == {"read_lat_nsec": 50_000, "write_lat_nsec": 20_000}
    assert (first.name, first.dilated) == ("kyber", ("read_lat_nsec", "write_lat_nsec"))


@pytest.mark.parametrize("key", ["sweep", "lines"])
def test_what_is_beside_axes_is_a_table(tmp_path: Path, key: str) -> None:
    (tmp_path / "bad.toml").write_text(f"{key} = 5\n[[axes.size]]\nlabel = '4k'\n")
    with refused(f"{tmp_path / 'bad.toml'}: {key}: expected a table"):
        experiment.load(tmp_path / "bad.toml")


def test_knobs_beside_a_grid_are_a_table(tmp_path: Path) -> None:
    text = "[[schedulers]]\nlabel = 'mqfq'\nname = 'mqfq'\ngrid = { d = [8] }\nknobs = 3\n"
    (tmp_path / "bad.toml").write_text(text)
    with refused(f"{tmp_path / 'bad.toml'}: schedulers[0].knobs: expected a table"):
        experiment.load(tmp_path / "bad.toml")


@pytest.mark.parametrize("grid", ["7", "{}", "{ d = [] }", "{ d = 8 }"])
def test_what_is_no_grid_is_refused(tmp_path: Path, grid: str) -> None:
    text = "[[schedulers]]\nlabel = 'mqfq'\nname = 'mqfq'\ngrid = {}\n"
    (tmp_path / "bad.toml").write_text(text.format(grid))
    expected = "schedulers[0].grid: expected a table of knobs, each with an array of values"
    with refused(f"{tmp_path / 'bad.toml'}: {expected}"):
        experiment.load(tmp_path / "bad.toml")


def test_a_value_of_a_grid_is_a_word_of_the_label() -> None:
    knobs = {"read_lat_nsec": 2_500_000, "d": "auto", "rt_target_us": 300, "write_lat_nsec": 1}
    assert [words(*knob) for knob in knobs.items()] == ["2500us", "auto", "300", "1ns"]


def test_the_text_and_table_3_of_the_k2_split_paper_disagree() -> None:
    """Both set-ups are there, each beside its own figure."""
    values = {}
    for name, label in (("section5-1", "random-read-512k"), ("table3", "random-read-rt-64k")):
        path = experiment.find(f"k2-split/{name}")
        spec = experiment.load(path)
        assert spec.paper
        sweep = next(s for s in spec.sweeps if s.label == label)
        assert (sweep.block_size_kib, sweep.rt_block_size_kib) == (512, 64)
        k2 = next(s for s in spec.schedulers if s.label == "k2")
        published = paper.load(path.parent / spec.paper.file, sweep)
        found = paper.cell(published, k2.papers, spec.paper.cells)
        assert found
        values[name] = found.values
    assert values == {
        "section5-1": {"lat_us.p99": 8000},
        "table3": {"total_mib_s": 75.63, "lat_us.p99": 3260},
    }


def test_toml_error_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text('title = "a"\ndrive =\n')
    with pytest.raises(UsageError, match="line 2"):
        experiment.load(path)


def test_find() -> None:
    assert experiment.find("k2/fig8") == FIG8
    assert experiment.find(str(FIG8)) == FIG8
    with pytest.raises(UsageError, match=r"no experiment k2/fig99; expected .* k2/fig9, k2/fig10"):
        experiment.find("k2/fig99")


def test_drive_arguments() -> None:
    values = {"dies": drive.Parameter(value=8, unit="dies", source="datasheet")}
    made = drive.Drive(name="d", title="D", parameters=values)
    assert drive.module_arguments(made, {"queues": 4}, 2, 9) == ["dies=8", "queues=4", "dilation=2", "seed=9"]


def test_drive_must_not_set_what_the_lab_sets() -> None:
    values = {"seed": drive.Parameter(value=8, unit="", source="")}
    with pytest.raises(UsageError, match="seed is set by the lab"):
        drive.module_arguments(drive.Drive(name="d", title="D", parameters=values), {}, 1, 1)


def test_unknown_drive() -> None:
    with pytest.raises(UsageError, match="there is no drive nothing"):
        drive.load("nothing")
