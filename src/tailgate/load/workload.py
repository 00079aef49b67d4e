# SPDX-License-Identifier: GPL-2.0-only
"""Turns a fio job file into the processes that the simulator runs, as fio 3.33 would run them.

Every option of a job is either modelled, or in a fixed list of options that cannot change a result of the
model, or an error with file and line. So a job that the model cannot represent gives no figures.
"""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import replace

from tailgate.load import fiojob, pattern, priorities
from tailgate.load.files import Files
from tailgate.load.fiojob import JobFile, Section
from tailgate.load.options import NOT_WITH_TRACE, PASSTHROUGH
from tailgate.load.process import ANY_CPU, NO_FLOW, Ends, Process
from tailgate.load.section import Pair, SectionReader
from tailgate.load.traces import TracedIo, cached_trace

#: fio's values of exit_what, and the simulator's.
_ENDS: dict[str, Ends] = {"group": "group", "stonewall": "started", "all": "all"}


def processes(
    job: JobFile, flows: Sequence[str], capacity: int, seed: int | None = None, direct: bool = False
) -> list[Process]:
    """The processes of a job on a drive of `capacity` bytes, in the order in which fio starts them.

    `flows` names the sections in the order of the results. `seed` replaces the job's randseed. `direct`
    treats buffered I/O as direct I/O. UsageError, with file and line, for options that are not modelled.
    """
    readers = [_Reader(job, section, capacity, direct) for section in job.sections]
    files = Files(readers, capacity)
    # As in fio, exitall in any section applies to all.
    ends_all = any(reader.flag("exitall") for reader in readers)
    out: list[Process] = []
    wave = group = in_group = 0
    for reader in readers:
        stonewall = reader.flag("stonewall")
        wave += stonewall
        if in_group and (stonewall or reader.flag("new_group")):
            group, in_group = group + 1, 0
        own_seed = seed if seed is not None else reader.count("randseed", 1)
        for subjob in range(reader.count("numjobs", 1, least=1, most=4096)):
            # As in fio, each process has random numbers of its own, derived from the one randseed.
            number_seed = process_seed(own_seed, len(out) + 1)
            made = reader.process(flows, subjob, files, number_seed, (wave, group))
            out.append(replace(made, ends_all=ends_all))
            in_group += 1
    return out


def process_seed(seed: int, number: int) -> int:
    """The seed of a job's `number`-th process, from 1: 64 bits, unrelated to those of its neighbours."""
    return int.from_bytes(hashlib.blake2b(f"{seed} {number}".encode(), digest_size=8).digest(), "little")


class _Reader(SectionReader):
    """Makes the processes of one section."""

    def __init__(self, job: JobFile, section: Section, capacity: int, direct: bool) -> None:
        super().__init__(job, section)
        self.capacity = capacity
        if not direct:
            self._check_direct()
        self._check_consistent()
        self.traces = self._traces()

    def _check_direct(self) -> None:
        """UsageError unless I/O is direct. The later one of `direct` and `buffered` counts."""
        is_direct = self.engine in PASSTHROUGH
        for key in self.options:
            if key in ("direct", "buffered"):
                is_direct = self.flag(key) == (key == "direct")
        if not is_direct:
            raise self.missing(
                self.raw("direct") or self.raw("buffered"),
                "expected direct=1, as buffered I/O is not modelled; --direct takes it for direct I/O",
            )

    def _check_consistent(self) -> None:
        if (rate := self.raw("rate")) and self.raw("rate_iops"):
            raise self.error(rate, "rate: expected either rate or rate_iops, as in fio")
        if self.flag("time_based"):
            timed = self.raw("time_based") or self.place_of_section
            if not self.time_ns("runtime"):
                raise self.error(timed, "time_based: expected a runtime with it")
            if self.raw("number_ios"):
                raise self.error(timed, "time_based: fio ignores number_ios with it; expected one of the two")
        if self.count("loops", 1, least=1, most=2**32 - 1) > 1 and self.raw("number_ios"):
            raise self.fail("loops", "no number_ios with it")
        if self.raw("read_iolog"):
            for key in NOT_WITH_TRACE:
                if found := self.raw(key):
                    raise self.error(found, f"{key}: not modelled together with read_iolog; remove it")

    # --- groups of options --------------------------------------------------------------------------------

    def _cpu(self, subjob: int) -> int:
        """The process's CPU. The processes of a section get the members of cpus_allowed in turn."""
        option = self.raw("cpus_allowed")
        if option is None:
            return ANY_CPU
        try:
            cpus = fiojob.cpu_set(option.value)
        except ValueError:
            raise self.fail("cpus_allowed", "processors such as 0,2 or 8-31") from None
        return cpus[subjob % len(cpus)]

    def _part(self, subjob: int, files: Files, least: int) -> tuple[int, int, int]:
        """The part of the drive that a process uses: offset, size, and the bytes until it ends.

        fio rounds percentages to whole blocks, offsets upwards.
        """
        region = files.region(self, subjob)
        whole = region.length
        offset = self.place("offset", whole) + subjob * self.place("offset_increment", whole)
        if self.is_percentage("offset"):
            offset = -(-offset // least) * least
        if self.place("filesize", whole) > whole:
            raise self.fail("filesize", f"a place within the drive's {whole} bytes")
        for key in ("offset_increment", "offset"):
            if self.raw(key) and offset > whole - least:
                raise self.fail(key, f"a place within the drive's {whole} bytes")
        left = (self.place("filesize", whole) or whole) - offset
        size = self.place("size", whole) if self.raw("size") else left
        if self.is_percentage("size"):
            size -= size % least
        if not least <= size <= left:
            key = "size" if self.raw("size") else "filesize"
            raise self.fail(key, f"at least one block, and no more than the {left} bytes after the offset")
        return region.begin + offset, left if self.raw("filesize") else size, size

    def _verify(self, share: Pair, asynchronous: bool) -> tuple[bool, int, int]:
        """Whether writes are verified; after how many writes (0: at the end); how many reads at a time."""
        option = self.raw("verify")
        if option is None or not share[1] or not self.flag("do_verify", default=True):
            return False, 0, 0
        zbd = (zones := self.raw("zonemode")) is not None and zones.value == "zbd"
        if self.flag("time_based") or self.flag("norandommap") or zbd:
            raise self.fail("verify", "none of time_based, norandommap and zonemode=zbd with it")
        backlog = self.count("verify_backlog", 0, most=2**32 - 1)
        if backlog and asynchronous:
            raise self.fail("verify_backlog", "a synchronous engine with it")
        return True, backlog, self.count("verify_backlog_batch", 0, most=2**32 - 1) or backlog

    def _target(self) -> tuple[int, int, float, bool]:
        """latency_target, its window in ns, the percentage that has to meet it, and latency_run."""
        target = self.time_ns("latency_target")
        if target and self.synchronous:
            raise self.fail("latency_target", "an asynchronous engine with it, whose depth it can change")
        option = self.raw("latency_percentile")
        if option and not re.fullmatch(r"\d{1,2}(\.\d+)?|100(\.0+)?", option.value):
            raise self.fail("latency_percentile", "a percentage such as 99.9")
        percentile = float(option.value) if option else 100.0
        return target, self.time_ns("latency_window"), percentile, self.flag("latency_run")

    def _offload(self) -> bool:
        offload = self.choice("io_submit_mode", "inline", "offload") == "offload"
        if offload and self.synchronous:
            raise self.fail("io_submit_mode", "an asynchronous engine with offload")
        return offload

    def _after(self, flows: Sequence[str]) -> int:
        """The index of the flow that wait_for names."""
        option = self.raw("wait_for")
        if option is None:
            return NO_FLOW
        earlier = flows[: flows.index(self.section.name)]
        if option.value not in earlier:
            raise self.fail("wait_for", "the name of a section before this one")
        return earlier.index(option.value)

    def _sync(self) -> bool:
        option = self.raw("sync")
        if option and option.value not in ("0", "none", "1", "sync", "dsync"):
            raise self.fail("sync", "none, sync or dsync")
        return option is not None and option.value not in ("0", "none")

    def process(
        self, flows: Sequence[str], subjob: int, files: Files, seed: int, place: tuple[int, int]
    ) -> Process:
        """The `subjob`-th process of the section, from 0; `place` is its wave and its group."""
        trace = self.traces[subjob % len(self.traces)] if self.traces else ()
        depth = self.count("iodepth", 1, least=1, most=65535)
        share, sequential, step = pattern.direction(self)
        sizes, bytes_most = pattern.block_sizes(self)
        least_of = (min(s for s, _ in sizes[0]), min(s for s, _ in sizes[1]))
        offset, size, ends = self._part(
            subjob, files, min(s for s, part in zip(least_of, share, strict=True) if part)
        )
        distribution, parameter = pattern.distribution(self)
        align = 0 if sequential else pattern.alignment(self, least_of, share)
        lfsr = self.choice("random_generator", "tausworthe", "tausworthe64", "lfsr") == "lfsr"
        if lfsr and align and (len(sizes[0]) > 1 or len(sizes[1]) > 1 or any(bytes_most)):
            raise self.fail("random_generator", "another one where requests of several sizes are aligned")
        once = lfsr or not (self.flag("norandommap") or align)
        exhaustive = once and not sequential and not trace and distribution == "random"
        span, length, skip = pattern.strided(self, size)
        zone, open_most = pattern.write_zones(self, offset, size, share, (sizes[1], bytes_most[1]))
        if once and not sequential and (span or distribution == "zoned"):
            key = "random_distribution" if distribution == "zoned" else "rw"
            raise self.fail(key, "norandommap with it: each block once a pass is not modelled here")
        verifies, backlog, batch = self._verify(share, not self.synchronous)
        think = self.time_ns("thinktime")
        time_based = self.flag("time_based")
        cgroup = self.raw("cgroup")
        target, window, percentile, stays = self._target()
        return Process(
            flow=flows.index(self.section.name),
            synchronous=self.synchronous,
            depth=1 if self.synchronous else depth,
            cpu=self._cpu(subjob),
            ioprio=priorities.of_process(self),
            share=share,
            sequential=sequential,
            step=step,
            offset=offset,
            size=size,
            block_sizes=sizes,
            bytes_most=bytes_most,
            align=align,
            distribution=distribution,
            distribution_parameter=parameter,
            zones=pattern.zones(self, size),
            strided_range=span,
            strided_bytes=length,
            strided_gap=skip,
            zone_bytes=zone,
            zones_open_most=open_most,
            exhaustive=exhaustive and not zone,
            rate_bytes=self.both("rate", 0),
            rate_ios=self.both("rate_iops", 0),
            rate_poisson=self.choice("rate_process", "linear", "poisson") == "poisson",
            rate_least_bytes=self.both("rate_min", 0),
            rate_least_ios=self.both("rate_iops_min", 0),
            rate_cycle_ns=self.time_ns("rate_cycle", 10**9),
            offload=self._offload(),
            priorities=priorities.of_requests(self),
            balance_group=self.count("flow_id", 0, most=2**32 - 1),
            balance_weight=self.count("flow", 0, most=1000),
            balance_sleep_ns=self.count("flow_sleep", 0) * 1000,
            target_ns=target,
            target_window_ns=window,
            target_percentile=percentile,
            target_stays=stays,
            think_ns=think,
            think_spin_ns=min(think, self.time_ns("thinktime_spin")),
            think_blocks=self.count("thinktime_blocks", 1, least=1, most=2**32 - 1),
            through=self._sync(),
            start_ns=self.time_ns("startdelay"),
            ramp_ns=self.time_ns("ramp_time"),
            runtime_ns=self.time_ns("runtime"),
            ios_max=self.count("number_ios", 0),
            bytes_max=0 if time_based or trace else self.place("io_size", self.capacity) or ends,
            loops=1 if time_based else self.count("loops", 1),
            repeats=self.flag("randrepeat", default=True),
            verifies=verifies,
            verify_backlog=backlog,
            verify_batch=batch,
            passthrough=self.engine in PASSTHROUGH,
            wave=place[0],
            after_flow=self._after(flows),
            group=place[1],
            ends_what=_ENDS[self.choice("exit_what", *_ENDS)],
            seed=seed,
            trace=trace,
            cgroup=cgroup.value.strip("/") if cgroup else "",
        )

    def _traces(self) -> list[tuple[TracedIo, ...]]:
        """The traces of the section's processes, which take them in turn."""
        option = self.raw("read_iolog")
        if option is None:
            return []
        found = []
        for name in option.value.split(":"):
            path = self.job.path.parent / name
            try:
                text = self.job.traces.get(name) or path.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as e:
                raise self.fail("read_iolog", f"a readable trace beside the job file ({e})") from e
            found.append(cached_trace(path, text, self.capacity))
        return found
