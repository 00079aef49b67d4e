# SPDX-License-Identifier: GPL-2.0-only
"""fio's options: those that the simulator models, those without effect on its results, those it refuses."""

from collections.abc import Mapping

SYNCHRONOUS = frozenset({"sync", "psync", "pvsync", "pvsync2", "vsync"})


ASYNCHRONOUS = frozenset({"libaio", "io_uring", "posixaio", "libblkio"})


#: Engines whose requests bypass the scheduler.
PASSTHROUGH = frozenset({"io_uring_cmd"})


ENGINES = SYNCHRONOUS | ASYNCHRONOUS | PASSTHROUGH


_RINGS = ("io_uring", "io_uring_cmd")


#: Options that only some engines have. Those not in MODELLED cost processor time at most.
ENGINE_FOR_OPTION: Mapping[str, tuple[str, ...]] = {
    "cmdprio_percentage": ("libaio", "io_uring"),
    "cmdprio_class": ("libaio", "io_uring"),
    "cmdprio": ("libaio", "io_uring"),
    "cmdprio_bssplit": ("libaio", "io_uring"),
    "cmdprio_hint": ("libaio", "io_uring"),
    "fixedbufs": _RINGS,
    "registerfiles": _RINGS,
    "nonvectored": _RINGS,
    "sqthread_poll": _RINGS,
    "sqthread_poll_cpu": _RINGS,
    "libblkio_driver": ("libblkio",),
    "libblkio_path": ("libblkio",),
}


#: Alternative names of options in fio; a job file is read as if it had the first names.
ALIASES: Mapping[str, str] = {
    "readwrite": "rw",
    "blocksize": "bs",
    "ba": "blockalign",
    "io_limit": "io_size",
    "timeout": "runtime",
    "blocksize_range": "bsrange",
    "ratemin": "rate_min",
    "ratecycle": "rate_cycle",
    "fileoffset": "offset",
    "fill_fs": "fill_device",
    "wait_for_previous": "stonewall",
    "nr_files": "nrfiles",
}


_NEUTRAL = """
name description group_reporting thread threads exec_prerun exec_postrun
write_bw_log write_lat_log write_iops_log write_hist_log bwavgtime iopsavgtime per_job_logs
log_entries log_avg_msec log_hist_msec log_hist_coarseness log_max_value log_offset log_prio
log_compression log_store_compressed log_unix_epoch
clat_percentiles lat_percentiles slat_percentiles percentile_list significant_figures disk_util unit_base
gtod_reduce gtod_cpu disable_lat disable_clat disable_slat disable_bw_measurement
continue_on_error ignore_error error_dump
mem iomem iomem_align mem_align lockmem zero_buffers scramble_buffers buffer_pattern
refill_buffers buffer_compress_percentage buffer_compress_chunk
dedupe_percentage dedupe_mode dedupe_global dedupe_working_set_percentage
verify_pattern verify_interval verify_offset verify_dump verify_fatal
invalidate fadvise_hint fallocate overwrite unlink create_serialize create_fsync allow_file_create
allow_mounted_write create_on_open openfiles file_service_type
uid gid allrandrepeat cgroup_nodelete clocksource cpus_allowed_policy numa_cpu_nodes numa_mem_policy
"""


#: Accepted and ignored: names, reports, logs, and the content of data. The CPU time that fio takes for them
#: is part of a machine's costs.
NEUTRAL = frozenset(_NEUTRAL.split())


#: Options for which only these values are modelled: those that fio has by default.
ONLY: Mapping[str, frozenset[str]] = {
    "percentage_random": frozenset({"100"}),
    "nrfiles": frozenset({"1"}),
    "cmd_type": frozenset({"nvme"}),
    "iodepth_batch": frozenset({"1"}),
    "iodepth_batch_submit": frozenset({"1"}),
    "iodepth_batch_complete_min": frozenset({"1"}),
    "thinktime_blocks_type": frozenset({"complete"}),
    "rate_ignore_thinktime": frozenset({"0"}),
    "fsync": frozenset({"0"}),
    "fdatasync": frozenset({"0"}),
    "end_fsync": frozenset({"0"}),
    "fsync_on_close": frozenset({"0"}),
    "hipri": frozenset({"0"}),
    "replay_no_stall": frozenset({"0"}),
    "replay_time_scale": frozenset({"100"}),
}


_MODELLED = """
filename directory ioengine direct buffered sync rw rwmixread rwmixwrite bs bsrange bssplit blockalign
norandommap random_generator random_distribution randseed randrepeat read_iolog
size filesize fill_device offset offset_increment io_size number_ios loops
zonemode zonesize zonerange zoneskip max_open_zones iodepth io_submit_mode numjobs
rate rate_iops rate_process rate_min rate_iops_min rate_cycle
latency_target latency_window latency_percentile latency_run
thinktime thinktime_spin thinktime_blocks startdelay ramp_time runtime time_based
stonewall wait_for new_group exitall exit_what flow flow_id flow_sleep
verify do_verify verify_backlog verify_backlog_batch
prioclass prio cgroup cpus_allowed
"""


#: Modelled options.
MODELLED = frozenset(_MODELLED.split())


#: Options whose effect on a replayed trace is not modelled. fio ignores others, such as rw and bs, in a
#: replay.
NOT_WITH_TRACE = (
    "rate",
    "rate_iops",
    "thinktime",
    "size",
    "filesize",
    "offset",
    "offset_increment",
    "time_based",
    "loops",
    "zonemode",
    "zonesize",
    "flow",
    "verify",
    "latency_target",
    "io_submit_mode",
    "cmdprio_percentage",
    "cmdprio_bssplit",
)
