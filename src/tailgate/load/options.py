# SPDX-License-Identifier: GPL-2.0-only
"""Options of fio's job files: what the simulator models, what changes no figure of it, what it refuses."""

from collections.abc import Mapping

SYNCHRONOUS = frozenset({"sync", "psync", "pvsync", "pvsync2", "vsync"})


ASYNCHRONOUS = frozenset({"libaio", "io_uring", "posixaio"})


#: Other names that fio has for options.
ALIASES: Mapping[str, str] = {
    "readwrite": "rw",
    "blocksize": "bs",
    "ba": "blockalign",
    "io_limit": "io_size",
    "timeout": "runtime",
}


_NEUTRAL = """
name description group_reporting new_group thread exec_prerun exec_postrun
write_bw_log write_lat_log write_iops_log write_hist_log bwavgtime iopsavgtime per_job_logs
log_entries log_avg_msec log_hist_msec log_hist_coarseness log_max_value log_offset log_prio
log_compression log_store_compressed log_unix_epoch
clat_percentiles lat_percentiles slat_percentiles percentile_list significant_figures disk_util unit_base
mem iomem iomem_align mem_align lockmem zero_buffers scramble_buffers buffer_pattern
buffer_compress_percentage buffer_compress_chunk dedupe_percentage
invalidate fadvise_hint fallocate overwrite unlink create_serialize create_fsync allow_file_create
allow_mounted_write uid gid allrandrepeat cgroup_nodelete clocksource cpus_allowed_policy
"""


#: Options without a say in any result of the model: names, reports, logs, and what the data are. Their CPU
#: time in fio is part of a machine's costs.
NEUTRAL = frozenset(_NEUTRAL.split())


#: Options that are modelled with these values only: what fio does without them.
ONLY: Mapping[str, frozenset[str]] = {
    "randrepeat": frozenset({"", "1"}),
    "random_generator": frozenset({"tausworthe", "tausworthe64"}),
    "percentage_random": frozenset({"100"}),
    "nrfiles": frozenset({"1"}),
    "loops": frozenset({"1"}),
    "io_submit_mode": frozenset({"inline"}),
    "iodepth_batch": frozenset({"1"}),
    "iodepth_batch_submit": frozenset({"1"}),
    "iodepth_batch_complete_min": frozenset({"1"}),
    "thinktime_blocks_type": frozenset({"complete"}),
    "rate_ignore_thinktime": frozenset({"0"}),
    "buffered": frozenset({"0"}),
    "fsync": frozenset({"0"}),
    "fdatasync": frozenset({"0"}),
    "end_fsync": frozenset({"0"}),
    "fsync_on_close": frozenset({"0"}),
    "stonewall": frozenset({"0"}),
    "zonemode": frozenset({"none"}),
    "hipri": frozenset({"0"}),
    "replay_no_stall": frozenset({"0"}),
    "replay_time_scale": frozenset({"100"}),
}


_MODELLED = """
filename ioengine direct sync rw rwmixread rwmixwrite bs bssplit blockalign norandommap random_distribution
randseed read_iolog size filesize offset offset_increment io_size number_ios iodepth numjobs rate rate_iops
rate_process thinktime thinktime_spin thinktime_blocks startdelay ramp_time runtime time_based exitall
prioclass prio cgroup cpus_allowed
"""


#: Options that are modelled, each read below.
MODELLED = frozenset(_MODELLED.split())


#: What fio does with these when it replays a trace is not modelled; rw, bs and such it does not look at.
NOT_WITH_TRACE = (
    "rate",
    "rate_iops",
    "thinktime",
    "size",
    "filesize",
    "offset",
    "offset_increment",
    "time_based",
)
