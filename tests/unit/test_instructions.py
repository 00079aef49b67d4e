# SPDX-License-Identifier: GPL-2.0-only
"""The bench of instructions: what is beside what, and k2 of an earlier commit."""

import shutil
from pathlib import Path

import pytest

from tailgate.base.errors import UsageError
from tailgate.base.paths import ROOT
from tailgate.guest import modules
from tailgate.guest.kernels import Kernel
from tailgate.upkeep.bench import contenders, costs, instructions

KERNEL = Kernel("stable", "6.1.0-1-amd64", *[Path("/nowhere")] * 4)


USUAL = dict.fromkeys((c.name for c in contenders.CONTENDERS), 1000.0) | {"mq-deadline": 2000, "bfq": 3000}


def test_what_ours_add_over_what_the_kernels_add() -> None:
    figures = {"qd32": USUAL | {"k2": 1500, "mqfq": 1600, "vflash": 1100}}
    found = {r.name: r.value for r in costs.results(KERNEL, figures)}
    assert found["added_over_mq-deadline.k2.qd32.6_1"] == 0.5
    assert found["added_over_bfq.mqfq.qd32.6_1"] == 0.3


def test_k2_less_that_of_an_earlier_commit() -> None:
    none = USUAL | {"k2": 1503.25}
    figures = {"qd32": none | {"k2 before 527fb48": 1490, "vflash": 1100}, "qd1": none}
    found = {r.name: r.value for r in costs.results(KERNEL, figures)}
    assert found["instructions_per_io.k2_since.527fb48.qd32.6_1"] == pytest.approx(13.2, abs=0.06)
    assert not [name for name in found if ".k2_since." in name and ".qd1." in name]
    assert not [name for name in found if ".price." in name]


def test_price_of_what_is_switched_on() -> None:
    on = {c.name: 1500.0 for c in contenders.ON}
    figures = {
        "qd32": USUAL | on | {"vflash": 1100, "k2 with auto": 1042},
        "qd1": USUAL | on | {"k2 real-time": 1400, "k2 with auto real-time": 1411.5},
    }
    results = costs.results(KERNEL, figures)
    assert {r.n for r in results if ".qd1." in r.name} == {20_000}
    assert all(r.n for r in results)
    found = {r.name: r.value for r in results}
    assert found["instructions_per_io.price.auto.background.6_1"] == 42
    assert found["instructions_per_io.price.auto.real-time.6_1"] == 11.5
    assert len([name for name in found if ".price." in name]) == 2 * len(contenders.SWITCHED_ON)
    text = instructions.script(contenders.LOADS, contenders.ON)
    assert text.count("ionice -c 1 -n 0 iobench") == 1 + len(contenders.SWITCHED_ON)
    assert text.count("> $queue/iosched/rt_target_us") == 4


def test_parts_of_mqfq_are_all_that_it_adds() -> None:
    figures = {
        "none": 1000,
        "none without merging": 980,
        "mqfq": 2000,
        "mqfq by process": 1990,
        "mqfq by process without merging": 1930,
        "mqfq real-time without merging": 1800,
        "fifo without merging": 1500,
    }
    parts = costs.parts(figures)
    assert list(parts.values()) == [10, 40, 130, 300, 520]
    assert sum(parts.values()) == figures["mqfq"] - figures["none"]


def test_the_guest_loads_the_module_of_the_contender() -> None:
    text = instructions.script(contenders.LOADS[:1], (*contenders.CONTENDERS, contenders.before("527fb48")))
    assert text.count("insmod /lib/modules/extra/k2-527fb48.ko") == 1
    assert 'emit "qd1/k2 before 527fb48"' in text


def test_commit_that_is_not_there() -> None:
    if not shutil.which("git") or not instructions.has_commit("HEAD"):
        pytest.skip("not a clone")
    assert not instructions.has_commit("0" * 40)
    with pytest.raises(UsageError, match="there is no commit"), instructions.module_of(KERNEL, "0" * 40):
        pass


def test_the_module_of_a_commit_is_built_from_its_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    if not shutil.which("git") or not instructions.has_commit("HEAD"):
        pytest.skip("not a clone")

    def build(kernel: Kernel, out: Path, checkout: Path) -> Path:
        assert kernel is KERNEL
        assert (checkout / "kernel" / "k2.c").is_file()
        assert (checkout / "sched" / "k2.h").is_file()
        assert checkout != ROOT
        return out

    monkeypatch.setattr(modules, "build", build)
    with instructions.module_of(KERNEL, "HEAD") as module:
        assert module.name == "k2.ko"
