# SPDX-License-Identifier: GPL-2.0-only
"""Measures chunks in guests, several in parallel.

If the virtual CPU is too busy, the figures are not the drive's. Then the chunk is measured again with the
dilation of time doubled: the drive's latencies, think times and schedulers' tunable times are multiplied by
it, and rates are divided by it.
"""

import itertools
import os
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path

from tailgate.base.progress import Progress
from tailgate.guest import machine
from tailgate.guest.kernels import Kernel
from tailgate.runs import evidence
from tailgate.runs import folder as folders
from tailgate.runs.measurements import IDLE_REFUSED, Conditions, Measurement
from tailgate.spec.plan import Chunk
from tailgate.targets.protocol import BrokenRunError, OnPoint
from tailgate.targets.vm_chunk import START_S, Attempt, GuestPlan

DILATION_MAX = 256


@dataclass(frozen=True)
class Boots:
    """The boots of a run, whose guests' files go to `folder`. `module_files` are Tailgate's modules."""

    plan: GuestPlan
    kernel: Kernel
    module_files: Sequence[Path]
    folder: Path

    def measure(self, chunks: Sequence[Chunk], jobs: int, on_point: OnPoint, progress: Progress) -> None:
        """Measure these chunks, `jobs` at a time, the longest first.

        BrokenRunError as soon as a chunk fails.
        """
        stop = threading.Event()
        attempts = [self.plan.attempt(c) for c in chunks]
        attempts.sort(key=self.plan.chunk_s, reverse=True)
        weights = {
            (a.chunk.name, p.index): self.plan.point_s(a, p.background_rate)
            + (START_S if p.index == 0 else 0)
            for a in attempts
            for p in a.chunk.points
        }
        progress.begin(len(weights), sum(weights.values()))

        def ended(m: Measurement) -> None:
            on_point(m)
            progress.point(m.point.words, weights.pop((m.point.chunk.name, m.point.index), 0.0))

        def work(attempt: Attempt) -> None:
            while not stop.is_set():
                measured = self._measure_chunk(attempt, ended)
                if measured is None:
                    return
                idle = min(m.idle for m in measured)
                automatic = attempt.machine.dilation == "auto" and self.plan.mode == "icount"
                if not automatic or idle >= IDLE_REFUSED or attempt.dilation >= DILATION_MAX:
                    folders.end(self.folder, attempt.chunk)
                    return
                doubled = replace(attempt, dilation=attempt.dilation * 2)
                progress.note(
                    f"{attempt.chunk.name}: the CPU was idle for only {idle:.0%}: the CPU was measured, "
                    f"not the drive; again with time dilated {doubled.dilation} times"
                )
                attempt = doubled

        with ThreadPoolExecutor(jobs, initializer=_share_out_cpus(self.plan.mode, jobs)) as pool:
            futures = [pool.submit(work, a) for a in attempts]
            try:
                done, _ = wait(futures, return_when=FIRST_EXCEPTION)
                for future in done:
                    future.result()
            except BaseException:
                stop.set()
                while not all(f.cancel() or f.done() for f in futures):
                    machine.stop_all()
                    time.sleep(0.05)
                raise

    def _measure_chunk(self, attempt: Attempt, on_point: OnPoint) -> list[Measurement] | None:
        """Measure all points of one chunk; None if `machine.stop_all` ended the guest.

        BrokenRunError if the guest does not end as it should.
        """
        chunk = attempt.chunk
        conditions = Conditions(
            smp=attempt.machine.smp,
            kernel=self.kernel.series,
            mode=self.plan.mode,
            dilation=attempt.dilation,
        )
        job = self.plan.job(attempt, self.module_files)
        place = folders.place(self.folder, chunk)
        shutil.rmtree(place, ignore_errors=True)
        folders.begin(self.folder, chunk, conditions)
        for point in chunk.points:
            content = job.files[f"/lab/{point.name}.fio"]
            assert isinstance(content, bytes)
            (place / f"{point.name}.fio").write_bytes(content)
        points = {point.name: point for point in chunk.points}
        sent: dict[str, dict[str, bytes]] = {name: {} for name in points}
        measured: list[Measurement] = []

        def on_record(file: str, content: bytes) -> None:
            (place / file).write_bytes(content)
            name, _, kind = file.partition(".")
            sent[name][kind] = content
            if kind == evidence.LAST:
                try:
                    m = evidence.measurement(self.plan.run, points[name], conditions, sent.pop(name))
                except (KeyError, ValueError) as e:
                    raise BrokenRunError(f"{points[name].words}: the guest sent no measurement: {e}") from e
                measured.append(m)
                on_point(m)

        outcome = machine.run(self.plan.machine(attempt, self.kernel), job, place / "guest", on_record)
        if outcome.reason == "stopped":
            return None
        if outcome.reason != "ok":
            raise BrokenRunError(
                f"{chunk.name}: {outcome.reason}; all of the guest's log is in {outcome.log}\n"
                f"{outcome.complaint}"
            )
        folders.note(
            self.folder, chunk, wall_s=round(outcome.wall_s, 2), virtual_s=round(outcome.virtual_s, 6)
        )
        return measured


def _share_out_cpus(mode: str, jobs: int) -> Callable[[], None]:
    """A function for each worker to call first: it binds the worker and its machines to one of the host's
    CPUs.

    In virtual time QEMU's main loop adds the idle time to the clock when it finds the virtual CPU halted. On
    another host CPU it may find that before the instructions up to the halt are counted; the clock is then
    some ns ahead from there on (QEMU 10, icount_start_warp_timer; seen in one of 20 boots). On one CPU the
    two threads take turns. This is also a fifth cheaper, as neither has to wake the other across CPUs.
    """
    cpus = sorted(os.sched_getaffinity(0))
    turn = itertools.count()

    def take() -> None:
        if mode == "icount" and jobs <= len(cpus):
            os.sched_setaffinity(0, {cpus[next(turn) % len(cpus)]})  # for this thread; children inherit it

    return take
