# SPDX-License-Identifier: GPL-2.0-only
"""`tailgate watch`: what it asks for, where knobs move, the law, and a drive's files in sysfs."""

import errno
import json
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailgate.base.errors import UsageError
from tailgate.main import main
from tailgate.simulator import job, simulation
from tailgate.watch import command, meter, stop, way
from tailgate.watch.law import Law
from tailgate.watch.meter import Mean, Meter, RequestCounts
from tailgate.watch.queue import LostError, Queue
from tailgate.watch.stop import StopSignals
from tailgate.watch.way import WAYS

pytest.importorskip("tailgate_sim", reason="`make sim` builds it")

KEEP = meter.keep("read.lat_us.mean <= 600", "--keep")
REAL_TIME = meter.keep("rt.lat_us.mean <= 600", "--keep")


# --- what is asked -----------------------------------------------------------------------------------------


def test_what_is_kept_is_a_mean_of_some_requests() -> None:
    assert (KEEP.requests, KEEP.limit_us) == ("read", 600)
    assert meter.keep(" write.lat_us.mean<=0.5 ", "--keep").requests == "write"
    assert REAL_TIME.requests == "rt"


@pytest.mark.parametrize("scheduler", ["none", "kyber", "mqfq"])
def test_real_time_requests_are_kept_only_where_they_are_counted(scheduler: str) -> None:
    with pytest.raises(UsageError, match=f"{scheduler} does not count real-time requests, as k2 does"):
        REAL_TIME.check(scheduler)
    REAL_TIME.check("k2")
    KEEP.check(scheduler)


@pytest.mark.parametrize(
    "text", ["", "read.lat_us.p99 <= 600", "read.lat_us.mean <= 0", "read.lat_us.mean <= 1.2.3"]
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--keep: expected"):
        meter.keep(text, "--keep")


@pytest.mark.parametrize("scheduler", list(way.WAYS))
def test_a_way_leads_from_one_end_to_the_other(scheduler: str) -> None:
    its = way.WAYS[scheduler]
    assert its.at(0) == {r.knob: r.low for r in its.ranges}
    assert its.at(its.octaves) == {r.knob: r.high for r in its.ranges}
    for eighth in range(9):
        position = its.octaves * eighth / 8
        assert its.place_of(its.at(position)) == pytest.approx(position, abs=0.6)
    assert its.place_of({}) == its.octaves / 2
    assert its.place_of({its.ranges[0].knob: 10**9}) == its.octaves


def test_limits_of_the_user_take_the_place_of_ours() -> None:
    mine = way.way_of("k2", ["inflight_max=2..64", "inflight_kib_max = 16..4096"], "--move")
    assert mine.at(0) == {"inflight_max": 2, "inflight_kib_max": 16}
    assert mine.octaves == 8
    assert mine.at(4) == {"inflight_max": 11, "inflight_kib_max": 256}
    # bfq is not simulated, and has no way of its own
    assert way.way_of("bfq", ["max_budget=64..16384"], "--move").at(0) == {"max_budget": 64}


@pytest.mark.parametrize(
    ("scheduler", "moves", "words"),
    [
        ("bfq", [], "it is not known which knobs of bfq to move; expected kyber, k2 or mqfq"),
        ("k2", ["inflight_max=2-64"], 'expected "KNOB=FROM..TO", got "inflight_max=2-64"'),
        ("k2", ["inflight=2..64"], "k2 has no knob inflight; expected inflight_max"),
        ("k2", ["inflight_max=0..64"], "inflight_max: expected two numbers, 1 to 65535, got 0..64"),
        ("k2", ["inflight_max=8..8"], "expected two numbers, 1 to 65535, got 8..8"),
        ("k2", ["inflight_max=1..8", "inflight_max=2..9"], "expected each knob once"),
        ("k2", ["split_kib=4..64"], "expected a knob that is a number with steps of 1"),
        ("mqfq", ["flow_by=1..2"], "expected a knob that is a number"),
    ],
)
def test_what_cannot_move_is_refused(scheduler: str, moves: list[str], words: str) -> None:
    with pytest.raises(UsageError) as e:
        way.way_of(scheduler, moves, "--move")
    assert words in str(e.value)


# --- the meter ---------------------------------------------------------------------------------------------


IDLE = Mean(0, 0)


def test_a_mean_is_taken_over_as_long_as_it_needs() -> None:
    found = Meter()
    assert found.add(RequestCounts(0.0, 1000, 500000)) is None
    assert found.add(RequestCounts(0.1, 1004, 504000)) is None  # four requests are too few
    assert found.add(RequestCounts(0.2, 1010, 506000)) is None  # and 6 ms are too coarse
    assert found.add(RequestCounts(0.3, 1020, 510000)) == Mean(500, 20)
    assert found.add(RequestCounts(0.4, 1120, 610000)) == Mean(1000, 100)


def test_nothing_for_a_second_is_idle_and_does_not_blur_what_comes_then() -> None:
    found = Meter()
    found.add(RequestCounts(0.0, 5, 1000))
    assert found.add(RequestCounts(0.9, 5, 1000)) is None
    assert found.add(RequestCounts(1.0, 5, 1000)) == IDLE
    assert found.add(RequestCounts(9.0, 25, 11000)) == Mean(500, 20)


@pytest.mark.parametrize("stray", [RequestCounts(0.1, 5, 500000), RequestCounts(0.1, 100, 5000)])
def test_a_few_requests_before_it_do_not_hide_that_nothing_comes_any_more(stray: RequestCounts) -> None:
    found = Meter()
    found.add(RequestCounts(0.0, 0, 0))
    assert found.add(stray) is None
    assert found.add(RequestCounts(1.0, stray.requests, stray.us)) is None
    assert found.add(RequestCounts(1.1, stray.requests, stray.us)) == IDLE
    assert found.add(RequestCounts(2.0, stray.requests + 10, stray.us + 10_000)) == Mean(1000, 10)


def test_a_request_that_takes_longer_than_a_second_is_not_idleness() -> None:
    found = Meter()
    found.add(RequestCounts(0.0, 5, 1000))
    assert found.add(RequestCounts(1.5, 5, 1000, outstanding=True)) is None
    assert found.add(RequestCounts(2.4, 5, 1000)) is None
    assert found.add(RequestCounts(2.5, 5, 1000)) == IDLE


def test_the_kernel_counts_milliseconds_modulo_2_to_the_32() -> None:
    found = Meter()
    found.add(RequestCounts(0.0, 1000, 1000 * (2**32 - 5)))
    assert found.add(RequestCounts(0.1, 1010, 5000)) == Mean(1000, 10)
    assert found.add(RequestCounts(0.2, 1020, 15000)) == Mean(1000, 10)


# --- the law -----------------------------------------------------------------------------------------------


#: The target as a share of a limit of 600 us.
AIM = WAYS["k2"].aim
AIM_US = AIM * 600
#: Requests of an interval whose mean chance does not change much.
MANY = 1000


def settled(
    plant: Callable[[float], float], limit: float, octaves: float = 8, steps: int = 400
) -> list[float]:
    """Latencies of the later half of the steps on a drive that has this latency at a position."""
    law = Law(AIM * limit, octaves, octaves / 2, bounds_all=True)
    seen = []
    position = law.position
    for _ in range(steps):
        seen.append(plant(position))
        position = law.step(seen[-1], MANY)
        assert 0 <= position <= octaves
    return seen[steps // 2 :]


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


@given(st.floats(0.1, 0.9), st.floats(1.2, 4))
def test_on_a_smooth_drive_the_mean_is_just_below_the_limit(share: float, steep: float) -> None:
    """The latency grows by `steep` with each octave, and reaches the limit after this share of the path."""
    found = settled(lambda x: 600 * steep ** (x - 8 * share), 600)
    assert 400 < mean(found) <= 600


@given(st.floats(0.5, 7.5), st.floats(100, 500), st.floats(700, 1500))
def test_between_two_settings_it_goes_back_and_forth(edge: float, below: float, above: float) -> None:
    found = settled(lambda x: below if x < edge else above, 600)
    assert mean(found) <= 1.05 * 600
    assert above in found
    assert below in found


@given(st.floats(3, 6), st.floats(0, 8))
def test_too_few_requests_at_a_time_are_found_out(best: float, start: float) -> None:
    """The latency has its least value within the path, because the knob bounds the reads themselves."""
    law = Law(AIM_US, 8, start, bounds_all=True)
    position = law.position
    seen = []
    for _ in range(200):
        seen.append(200 * 2 ** abs(position - best))
        position = law.step(seen[-1], MANY)
    assert mean(seen[100:]) <= 620


def with_chance(random: Random, edge: float, octaves: float, requests: int) -> Iterator[tuple[float, float]]:
    """Positions and means of 200 intervals; beyond the edge nothing but chance changes the mean."""
    law = Law(AIM_US, 8, 8, bounds_all=True)
    for _ in range(200):
        seen = (860 if law.position > edge else 300) * 2 ** random.gauss(0, octaves)
        yield law.position, seen
        law.step(seen, requests)


@given(st.integers(0, 10_000), st.floats(2, 5))
def test_chance_does_not_lead_away(seed: int, edge: float) -> None:
    """Beyond an edge all settings give the same latency but for chance, as when fewer requests come than are
    allowed.
    """
    seen = [us for _, us in with_chance(Random(seed), edge, 0.15, MANY)]
    # of 4000 draws the worst have 750 and 637
    assert mean(seen[:60]) <= 800
    assert mean(seen[60:]) <= 660


def test_chance_leads_away_from_few_requests_hardly_more() -> None:
    """The mean of 45 requests is off by a fifth by chance, which is not the effect of a step."""
    far = 0
    for seed in range(200):
        random = Random(seed)
        edge = random.uniform(2, 5)
        far += sum(at > edge + 2 for at, _ in [*with_chance(random, edge, 0.3, requests=45)][60:])
    assert far < 0.01 * 200 * 140


def test_a_limit_that_cannot_be_kept_leads_to_the_fastest_end_where_only_others_are_bounded() -> None:
    law = Law(AIM_US, 8, 8, bounds_all=False)
    for _ in range(50):
        law.step(1000 * 1.1**law.position, MANY)
    assert law.position == 0


def test_with_nothing_to_protect_all_else_gets_the_drive() -> None:
    law = Law(AIM_US, 8, 2, bounds_all=True)
    assert [law.idle() for _ in range(8)][-1] == 8
    assert law.step(5000, MANY) <= 5.1  # and at once far down when the reads are back


# --- rehearsing in the simulator ---------------------------------------------------------------------------

PHASES = """
[global]
ioengine=io_uring
direct=1
filename=/dev/vflash0
time_based
runtime=3s
[one-read]
rw=randread
bs=4k
iodepth=1
thinktime=500us
prioclass=1
[one-write]
rw=randwrite
bs=4k
iodepth=256
[two-read]
startdelay=3s
rw=randread
bs=4k
iodepth=16
prioclass=1
[two-write]
startdelay=3s
rw=randwrite
bs=4k
iodepth=256
"""


def told_of(file: Path, knobs: Mapping[str, int | str]) -> simulation.Simulation:
    choices = job.Choices(
        drive="980pro",
        scheduler="k2",
        knobs=knobs,
        machine="kyber",
        queue={"nomerges": 2, "nr_requests": 1023},
    )
    return job.simulation_of(file, choices)


def figures(outcome: simulation.Outcome) -> dict[str, tuple[float, float]]:
    """By phase, the reads' mean us and the writes' MiB/s."""
    return {
        name: (
            outcome.flows[f"{name}-read"][1][0].latency.mean_ns / 1000,
            outcome.flows[f"{name}-write"][1][1].bytes / 3 / 2**20,
        )
        for name in ("one", "two")
    }


def test_watching_gives_more_than_any_one_setting_that_keeps_the_limit(tmp_path: Path) -> None:
    (tmp_path / "phases.fio").write_text(PHASES)
    fixed = [
        figures(simulation.simulate(told_of(tmp_path / "phases.fio", {"inflight_max": n})))
        for n in (1, 2, 4, 8, 16, 32, 64, 256)
    ]
    kept = [f for f in fixed if all(us <= 630 for us, _ in f.values())]
    outcome, moves = command.rehearse(told_of(tmp_path / "phases.fio", {}), KEEP, way.WAYS["k2"])
    found = figures(outcome)
    assert all(us <= 630 for us, _ in found.values()), found
    for name, (_, rate) in found.items():
        assert rate >= 0.9 * max(f[name][1] for f in fixed if f[name][0] <= 630)
    assert sum(rate for _, rate in found.values()) > max(sum(rate for _, rate in f.values()) for f in kept)
    assert len(moves) > 10


@pytest.mark.parametrize(
    ("knobs", "first"), [({}, 32), ({"inflight_max": "auto"}, 32), ({"inflight_max": 2}, 4)]
)
def test_a_rehearsal_begins_where_the_knob_is(
    tmp_path: Path, knobs: Mapping[str, int | str], first: int
) -> None:
    """An automatic knob starts in the middle of its path, with 16; a fast read doubles it."""
    (tmp_path / "read.fio").write_text(PHASES.partition("[one-write]")[0].replace("3s", "300ms"))
    _, moves = command.rehearse(told_of(tmp_path / "read.fio", knobs), KEEP, way.WAYS["k2"])
    assert moves[0].knobs["inflight_max"] == first


def test_a_rehearsal_keeps_real_time_requests(tmp_path: Path) -> None:
    """Reads of both classes: only those of class RT count, which K2 serves first."""
    text = PHASES.partition("[one-write]")[0].replace("3s", "2s")
    both = text + "[others]\nrw=randread\nbs=64k\niodepth=64\n"
    (tmp_path / "both.fio").write_text(both)
    outcome, moves = command.rehearse(told_of(tmp_path / "both.fio", {}), REAL_TIME, way.WAYS["k2"])
    latency = {name: flow[1][0].latency.mean_ns / 1000 for name, flow in outcome.flows.items()}
    assert moves
    assert latency["one-read"] <= 630 < latency["others"]


def test_a_rehearsal_does_not_take_reads_of_more_than_a_second_for_idleness(tmp_path: Path) -> None:
    (tmp_path / "read.fio").write_text(PHASES.partition("[one-write]")[0].replace("3s", "8s"))
    told = told_of(tmp_path / "read.fio", {})
    slow = replace(told, drive={**told.drive, "read_ns": 10**9, "read_fixed_ns": 10**9})
    outcome, moves = command.rehearse(slow, KEEP, way.WAYS["k2"])
    assert outcome.flows["one-read"][1][0].latency.mean_ns > 1.5e9
    assert moves == []  # too few reads for a mean


def test_the_simulator_counts_what_is_outstanding(tmp_path: Path) -> None:
    """Pieces count as requests do, and a request that was split counts no more."""
    text = PHASES.partition("[one-write]")[0].replace("3s", "100ms").replace("thinktime=500us", "")
    others = "[others]\nrw=randread\nbs=256k\niodepth=8\n[writes]\nrw=write\nbs=64k\niodepth=4\n"
    (tmp_path / "reads.fio").write_text(text + others)
    seen = []

    def watch(sample: Any) -> Mapping[str, int]:
        counts = (*sample.completed, sample.real_time)
        seen.append(tuple(counted.outstanding for counted in counts))
        return {"split_kib": 64} if len(seen) == 20 else {}

    simulation.simulate(told_of(tmp_path / "reads.fio", {"inflight_max": 2}), 1_000_000, watch)
    assert len(seen) > 90
    # Between a completion and the next submission some are missing.
    assert max(seen[:20]) == (1 + 8, 4, 1)
    assert max(seen[20:]) == (1 + 8 * 4, 4, 1)


def test_a_rehearsal_is_told_by_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "phases.fio").write_text(PHASES)
    line = [
        "simulate",
        str(tmp_path / "phases.fio"),
        "--drive",
        "980pro",
        "--scheduler",
        "k2",
        "--seconds",
        "1",
    ]
    rehearsed = [*line, "--watch", "read.lat_us.mean <= 600", "--move", "inflight_max=2..64"]
    assert main([*rehearsed, "--json"]) == 0
    moves = json.loads(capsys.readouterr().out)["moves"]
    assert {2 <= m["knobs"]["inflight_max"] <= 64 for m in moves} == {True}
    assert main(rehearsed) == 0
    assert f"watch: {len(moves)} moves; inflight_max" in capsys.readouterr().out
    assert main([*line, "--move", "inflight_max=2..64"]) == 2
    assert "--move is for --watch only" in capsys.readouterr().err


# --- a drive's files ---------------------------------------------------------------------------------------


class Drive:
    """Files as sysfs has them of a drive whose reads take longer the more may be in flight."""

    def __init__(self, root: Path) -> None:
        self.block = root / "sys/class/block/nvme0n1"
        (self.block / "queue/iosched").mkdir(parents=True)
        (root / "sys/class/block/nvme0n1p1").mkdir()
        (self.block / "queue/iostats").write_text("1\n")
        (self.block / "queue/scheduler").write_text("none [k2] kyber\n")
        (self.block / "queue/iosched/inflight_max").write_text("32\n")
        (self.block / "inflight").write_text("       1        0\n")
        self.now_s = 0.0
        self.reads = self.ms = 0
        self.statistics = root / "proc/tailgate-k2"
        self.statistics.parent.mkdir()
        self.queue = Queue("/dev/nvme0n1", root)
        self.count()

    def count(self) -> None:
        (self.block / "stat").write_text(f"{self.reads} 0 {8 * self.reads} {self.ms} 0 0 0 0 0 0 0\n")
        levels = [f"level{i}.{state} {int(i == 3)}" for i in range(8) for state in ("queued", "inflight")]
        said = ["inflight_max 32", f"rt_completed {self.reads}", f"rt_time_us {500 * self.ms}", *levels]
        lines = ["k2 3", *(f"{disk} {line}" for disk in ("nvme0n10", "nvme0n1") for line in said)]
        self.statistics.write_text("\n".join(lines) + "\n")

    @property
    def bound(self) -> str:
        return (self.block / "queue/iosched/inflight_max").read_text().strip()

    def pass_time(self, seconds: float) -> None:
        self.now_s += seconds
        self.reads += 100
        self.ms += 10 * int(self.bound)  # 100 us for each
        self.count()

    def watch(
        self,
        end: Callable[[], bool],
        tell: Callable[[command.Move], None] = lambda _: None,
        keep: meter.Keep = KEEP,
    ) -> command.Watched:
        def wait(seconds: float) -> bool:
            self.pass_time(seconds)
            return end()

        return command.watch(self.queue, keep, way.WAYS["k2"], tell, lambda: self.now_s, wait)


@pytest.fixture
def drive(tmp_path: Path) -> Drive:
    return Drive(tmp_path)


def test_a_drive_is_watched_and_left_as_it_was(drive: Drive) -> None:
    bounds: list[int] = []

    def end() -> bool:
        bounds.append(int(drive.bound))
        return drive.now_s > 5

    done = drive.watch(end)
    assert 3 <= mean([float(b) for b in bounds[-40:]]) <= 6  # 600 us are six requests
    assert drive.bound == "32"
    assert dict(done.restored) == {"inflight_max": "32"}
    assert done.moves[-1].at_s <= 5.1


def test_real_time_requests_are_counted_by_the_module(drive: Drive) -> None:
    """They take half as long here as all reads do, so twice as many may be in the drive."""
    bounds: list[int] = []

    def end() -> bool:
        bounds.append(int(drive.bound))
        return drive.now_s > 5

    drive.watch(end, keep=REAL_TIME)
    assert 6 <= mean([float(b) for b in bounds[-40:]]) <= 12
    assert drive.queue.counters("rt", 0).outstanding
    assert drive.bound == "32"


def test_a_module_without_these_counts_ends_it(drive: Drive) -> None:
    drive.statistics.write_text("k2 2\nnvme0n1 inflight 0\n")
    with pytest.raises(LostError, match=r"tailgate-k2 has no 'level0\.queued' of nvme0n1"):
        drive.watch(lambda: False, keep=REAL_TIME)


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_whatever_ends_it_the_knobs_are_put_back(drive: Drive, error: type[BaseException]) -> None:
    def tell(_: command.Move) -> None:
        raise error

    with pytest.raises(error):
        drive.watch(lambda: False, tell)
    assert drive.bound == "32"


def test_what_another_program_set_stays(drive: Drive) -> None:
    def end() -> bool:
        if drive.now_s > 1:
            (drive.block / "queue/iosched/inflight_max").write_text("7\n")
        return drive.now_s > 3

    words = "inflight_max of nvme0n1 was set to 7 by another program; nothing was put back"
    with pytest.raises(LostError, match=words):
        drive.watch(end)
    assert drive.bound == "7"


def test_a_change_is_noticed_while_no_knob_moves(drive: Drive) -> None:
    """The limit is far away: the bound is at its end and stays there."""
    far = meter.Keep("read", 1e6)

    def end() -> bool:
        if drive.now_s > 3:
            (drive.block / "queue/iosched/inflight_max").write_text("7\n")
        return drive.now_s > 100

    with pytest.raises(LostError, match="inflight_max of nvme0n1 was set to 7 by another program"):
        drive.watch(end, keep=far)
    assert drive.now_s < 3.2


def test_counts_that_begin_anew_end_it(drive: Drive) -> None:
    """Another scheduler was set, and the first one again, between two looks."""

    def end() -> bool:
        if drive.now_s > 3:
            drive.reads = drive.ms = 0
        return drive.now_s > 100

    with pytest.raises(LostError, match="the counts of nvme0n1 began anew"):
        drive.watch(end, keep=REAL_TIME)
    assert drive.now_s < 3.2


def test_of_two_that_watch_a_drive_the_second_is_refused(drive: Drive, tmp_path: Path) -> None:
    def end() -> bool:
        with pytest.raises(UsageError, match="another `tailgate watch` moves the knobs of nvme0n1"):
            Queue("nvme0n1", tmp_path).take(["inflight_max"])
        return True

    drive.watch(end)
    assert drive.bound == "32"
    Queue("nvme0n1", tmp_path).take(["inflight_max"])


def test_a_knob_that_cannot_be_put_back_is_told_and_the_others_are(
    drive: Drive, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = drive.block / "queue/iosched/inflight_kib_max"
    other.write_text("64\n")
    drive.queue.take(["inflight_max", "inflight_kib_max"])
    drive.queue.set({"inflight_max": 1, "inflight_kib_max": 4})
    real = Path.write_text

    def write(self: Path, text: str) -> int:
        if self.name == "inflight_max":
            raise OSError(errno.EINVAL, "")
        return real(self, text)

    monkeypatch.setattr(Path, "write_text", write)
    words = r"inflight_max of nvme0n1 does not take 32 \(Invalid argument\); put back: inflight_kib_max 64"
    with pytest.raises(UsageError, match=words):
        drive.queue.put_back()
    assert other.read_text() == "64\n"


def test_the_other_knobs_are_put_back(drive: Drive) -> None:
    other = drive.block / "queue/iosched/inflight_kib_max"
    other.write_text("64\n")
    drive.queue.take(["inflight_max", "inflight_kib_max"])
    drive.queue.set({"inflight_max": 1, "inflight_kib_max": 4})
    (drive.block / "queue/iosched/inflight_max").write_text("7\n")
    assert drive.queue.put_back() == {"inflight_kib_max": "64"}
    assert (drive.bound, other.read_text().strip()) == ("7", "64")


def test_a_change_of_the_scheduler_ends_it(drive: Drive) -> None:
    def end() -> bool:
        if drive.now_s > 1:
            (drive.block / "queue/scheduler").write_text("[none] k2 kyber\n")
        return drive.now_s > 3

    with pytest.raises(LostError, match="the scheduler of nvme0n1 is now none; nothing was put back"):
        drive.watch(end)


def test_a_drive_that_goes_away_ends_it(drive: Drive) -> None:
    def end() -> bool:
        (drive.block / "stat").unlink()
        return False

    with pytest.raises(LostError, match="is gone"):
        drive.watch(end)


def test_a_knob_that_takes_no_number_is_told_and_the_others_are_put_back(drive: Drive) -> None:
    iosched = drive.block / "queue/iosched"
    (iosched / "inflight_kib_max").mkdir()
    with pytest.raises(UsageError, match="k2 of nvme0n1 has no knob inflight_kib_max"):
        drive.queue.take(["inflight_max", "inflight_kib_max"])
    (iosched / "inflight_kib_max").rmdir()
    (iosched / "inflight_kib_max").write_text("64")
    drive.queue.take(["inflight_max", "inflight_kib_max"])
    (iosched / "inflight_kib_max").unlink()
    with pytest.raises(LostError, match="inflight_kib_max of nvme0n1 is gone"):
        drive.queue.set({"inflight_max": 1, "inflight_kib_max": 4})
    assert drive.bound == "32"


def test_what_cannot_be_watched_is_refused(drive: Drive, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no drive sdz; `tailgate doctor` lists them"):
        Queue("sdz", tmp_path)
    with pytest.raises(UsageError, match="there is no drive"):
        Queue("../nvme0n1", tmp_path)
    with pytest.raises(UsageError, match="nvme0n1p1 is a part of a drive"):
        Queue("nvme0n1p1", tmp_path)
    (drive.block / "queue/iostats").write_text("0\n")
    with pytest.raises(UsageError, match="nothing is counted on nvme0n1"):
        Queue("nvme0n1", tmp_path)


@pytest.mark.parametrize(
    ("keep", "words"),
    [("read.lat_us.mean <= 9", "there is no drive no-such-drive"), ("read <= 9", "--keep: expected")],
)
def test_the_command_names_what_is_wrong(keep: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", "no-such-drive", "--keep", keep]) == 2
    assert words in capsys.readouterr().err


# --- the end -----------------------------------------------------------------------------------------------


@pytest.fixture
def default_signals() -> Iterator[None]:
    """Signals as in a terminal: tests that run in the background may have been started with signals
    ignored.
    """
    before = [signal.signal(number, signal.SIG_DFL) for number in stop.SIGNALS]
    yield
    for number, handler in zip(stop.SIGNALS, before, strict=True):
        signal.signal(number, handler)


@pytest.mark.usefixtures("default_signals")
@pytest.mark.parametrize("number", stop.SIGNALS)
def test_a_signal_ends_each_wait_from_then_on(number: signal.Signals) -> None:
    before = [signal.getsignal(n) for n in stop.SIGNALS]
    with StopSignals() as signals:
        assert not signals.wait(-1)
        assert not signals.wait(0.01)
        os.kill(os.getpid(), number)
        # true for a signal only, not for the time
        assert signals.wait(60)
        assert signals.wait(60)
    assert [signal.getsignal(n) for n in stop.SIGNALS] == before


@pytest.mark.usefixtures("default_signals")
def test_what_is_ignored_stays_ignored() -> None:
    """A signal that was ignored before stays ignored, as under nohup."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with StopSignals() as signals:
        os.kill(os.getpid(), signal.SIGHUP)
        assert not signals.wait(0.01)
