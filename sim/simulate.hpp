// SPDX-License-Identifier: GPL-2.0-only
// The simulator's configuration and results. Times are in ns, sizes in bytes.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace tailgate::sim
{

/// An error in the configuration, described in one line.
struct UsageError : std::runtime_error {
	using std::runtime_error::runtime_error;
};

enum Direction : unsigned { READ, WRITE, DIRECTIONS };

/// Sizes of a process's requests in bytes, each with its share in percent; the shares add up to 100.
using BlockSizes = std::vector<std::pair<uint32_t, uint32_t>>;

/// One request of a trace, due `at_ns` after the start of the process whether or not earlier ones have completed.
struct TracedIo {
	uint64_t at_ns;
	Direction direction;
	uint64_t offset;
	uint32_t bytes;
};

enum class Distribution { RANDOM, ZIPF, PARETO, NORMAL, ZONED };

/// A part of the process's area, relative to its `offset`, and its share of the random requests in percent.
struct ZoneShare {
	uint32_t percent;
	uint64_t begin, end;
};

/// A share of the requests, in percent, with an I/O priority of its own; bytes 0: requests of any size.
struct PriorityShare {
	uint32_t bytes;
	uint32_t percent;
	uint16_t ioprio;
};

/// Which processes exitall ends: those of the group, those that have started, or all.
enum class Ends { GROUP, STARTED, ALL };

constexpr uint32_t NO_CPU = ~0U;
constexpr uint32_t NO_FLOW = ~0U;

/// One process of a fio job (a section with numjobs=3 makes three), as fio 3.33 would run it.
struct Process {
	uint32_t flow = 0; ///< index of its result; several processes may share one
	bool synchronous = false; ///< sync, psync, pvsync: one request at a time, no queue
	uint32_t depth = 1; ///< iodepth, if asynchronous
	uint32_t cpu = NO_CPU; ///< its processor; NO_CPU: assigned in turn
	uint16_t ioprio = 0; ///< class << 13 | level, as in the kernel
	uint32_t cgroup = 0; ///< number of its cgroup: see Config
	std::array<uint32_t, DIRECTIONS> share = { 100, 0 }; ///< rwmixread, rwmixwrite in percent
	bool sequential = false;
	int64_t step = 0; ///< if sequential: bytes added to the position after each request
	uint64_t offset = 0, size = 0; ///< its area of the drive; size 0: to the end
	std::array<BlockSizes, DIRECTIONS> block_sizes = { { { { 4096, 100 } },
							     { { 4096, 100 } } } };
	std::array<uint32_t, DIRECTIONS> bytes_most = {
		0, 0
	}; ///< bsrange: largest size, in steps of the only size in block_sizes; 0: no range
	uint32_t align = 0; ///< blockalign; 0: the smallest block size
	Distribution distribution = Distribution::RANDOM;
	double distribution_parameter =
		0; ///< zipf theta, pareto power, or standard deviation of normal in percent
	std::array<std::vector<ZoneShare>, DIRECTIONS> zones; ///< for Distribution::ZONED
	uint64_t strided_range = 0; ///< zonemode=strided: zonerange; 0: not strided
	uint64_t strided_bytes = 0; ///< zonesize: bytes used before each gap
	uint64_t strided_gap = 0; ///< zoneskip
	uint64_t zone_bytes = 0; ///< zonemode=zbd: zone size, each written in order; 0: no zones
	uint32_t zones_open_most = 0; ///< max_open_zones; 0: any number
	bool exhaustive = false; ///< visits each block once per pass (no norandommap)
	std::array<uint64_t, DIRECTIONS> rate_bytes = { 0, 0 }; ///< bytes per second; 0: no limit
	std::array<uint64_t, DIRECTIONS> rate_ios = { 0, 0 };
	bool rate_poisson = false;
	std::array<uint64_t, DIRECTIONS> rate_least_bytes = { 0, 0 }; ///< rate_min: ends below
	std::array<uint64_t, DIRECTIONS> rate_least_ios = { 0, 0 };
	uint64_t rate_cycle_ns = 1'000'000'000; ///< interval of checks of the least rate
	bool offload = false; ///< io_submit_mode=offload: a separate thread submits
	std::array<std::vector<PriorityShare>, DIRECTIONS> priorities; ///< cmdprio_*
	uint32_t balance_group = 0; ///< flow_id
	uint32_t balance_weight = 0; ///< flow: weight in the group; 0: in no group
	uint64_t balance_sleep_ns = 0; ///< flow_sleep
	uint64_t target_ns = 0; ///< latency_target: the depth is adjusted to meet it; 0: none
	uint64_t target_window_ns = 0;
	double target_percentile = 100;
	bool target_stays = false; ///< latency_run: continues after the depth was found
	uint64_t think_ns = 0; ///< thinktime: pause after each `think_blocks` requests
	uint64_t think_spin_ns = 0; ///< thinktime_spin: part of the pause with a busy CPU
	uint32_t think_blocks = 1;
	bool through = false; ///< O_DSYNC (sync=1 or dsync): see Device::write_cache
	uint64_t start_ns = 0; ///< startdelay
	uint64_t ramp_ns = 0; ///< ramp_time: time after the start that is not counted
	uint64_t runtime_ns = 0; ///< runtime, without the ramp; 0: no limit
	uint64_t ios_max = 0; ///< number_ios; 0: no limit
	uint64_t bytes_max = 0; ///< io_size; 0: no limit
	uint32_t loops = 1; ///< number of passes
	bool repeats = true; ///< randrepeat: each loop draws the same random numbers
	bool verifies = false; ///< reads its writes back
	uint32_t verify_backlog = 0; ///< writes before a batch is read back; 0: at the end
	uint32_t verify_batch = 0; ///< number of writes in a batch that is read back
	bool passthrough = false; ///< io_uring_cmd: bypasses the scheduler
	uint32_t wave = 0; ///< stonewall: begins when all processes of lower waves have ended
	uint32_t after_flow = NO_FLOW; ///< wait_for: begins when this flow has ended
	uint32_t group = 0; ///< reporting group; see ends_what
	bool ends_all = false; ///< exitall
	Ends ends_what = Ends::GROUP; ///< exit_what
	uint64_t seed = 1;
	std::vector<TracedIo> trace; ///< read_iolog: replayed instead of a pattern; may be empty
};

/// Processor time of operations, in ns; all 0: an ideal machine.
struct Costs {
	uint32_t submit = 0; ///< per request: from the system call to the scheduler or driver
	uint32_t submit_kib = 0; ///< in addition, per KiB submitted
	uint32_t schedule = 0; ///< per request: from insertion to dispatch, with a scheduler
	uint32_t complete = 0; ///< per request: from the interrupt to the end of the request
	uint32_t complete_kib = 0; ///< in addition, per KiB completed
	uint32_t reap = 0; ///< per reaped request: from the task's wake-up to its next submission
	uint32_t wake = 0; ///< wake-up of a sleeping task or worker, with the context switch
	uint32_t run = 0; ///< a worker's run of a hardware queue
	uint32_t timer = 0; ///< wake-up of a task by its timer
};

struct Machine {
	uint32_t cpus = 1;
	Costs costs;
	uint32_t tick_ns = 4'000'000; ///< the kernel's tick: delayed runs end on a tick
	uint32_t start_spread_ns = 0; ///< longest random delay of a process's start
	bool lone_requests_to_worker = false; ///< 6.1: unplugged requests go to a worker
	bool completes_where_submitted = true; ///< rq_affinity
};

/// The drive and its queue. `drive` holds the parameters of flash/flash.h by name.
struct Device {
	std::map<std::string, uint32_t> drive;
	uint32_t attachment =
		0; ///< driver: 0 NVMe, 1 usb-storage, 2 eMMC, 3 eMMC with command queueing
	uint32_t depth = 1023; ///< tags of a hardware queue; drivers other than NVMe have fewer
	uint32_t nr_requests =
		0; ///< tags of a queue, at least 4; 0: the kernel's default, depth, or with a scheduler 2 * min(depth, 128)
	uint32_t max_sectors_kb =
		0; ///< largest request in KiB; 0: the kernel's default, the drive's max_kib, but at most 1280
	bool merges = true; ///< nomerges=0
	/// 0: claims no volatile write cache, so O_DSYNC has no effect; 1: claims one; 2: claims one that knows FUA
	uint32_t write_cache = 0;
};

struct Scheduler {
	std::string name = "none";
	std::map<std::string, uint64_t> knobs;
};

/// A cgroup (version 2).
struct Cgroup {
	uint32_t parent = 0; ///< number of its parent, lower than its own
	uint32_t weight = 100; ///< io.mqfq.weight
};

struct Config {
	Machine machine;
	Device device;
	Scheduler scheduler;
	std::vector<Cgroup> cgroups = { {} }; ///< by number; 0 is the root
	std::vector<Process> processes;
	uint64_t limit_ns = 0; ///< latest end of the simulation; 0: no limit
	bool check = false; ///< check all invariants at every step; slower
};

/// A histogram in fio's bins: one per ns below 2^7 ns, then 64 per power of two. Contains non-empty bins, ascending.
struct Histogram {
	std::vector<uint64_t> values_ns; ///< middle of the bin, as fio prints it
	std::vector<uint64_t> counts;
};

/// Latencies of the requests of one I/O priority.
struct PriorityResult {
	uint16_t ioprio = 0;
	uint64_t ios = 0;
	double mean_ns = 0, min_ns = 0, max_ns = 0;
	Histogram latency;
};

struct DirectionResult {
	uint64_t ios = 0, bytes = 0;
	double mean_ns = 0, min_ns = 0, max_ns = 0;
	Histogram latency; ///< clat: from submission (if synchronous, from the system call) until the process reaps it
	Histogram block; ///< time in the block layer, from the request's creation to its completion
	Histogram scheduler; ///< part of it in the scheduler, from insertion to dispatch
	std::vector<PriorityResult>
		priorities; ///< ascending; empty if all requests have the process's priority
};

/// Result of all processes of a flow.
struct FlowResult {
	std::array<DirectionResult, DIRECTIONS> directions;
	double runtime_ns = 0; ///< counted time, mean over its processes
};

struct Result {
	std::vector<FlowResult> flows;
	uint64_t now_ns = 0; ///< the clock at the end
	uint64_t ios = 0; ///< number of all requests that the drive served
	uint64_t events = 0;
	double idle = 1; ///< idle share of the processors' time while flow 0 ran
	std::map<std::string, uint64_t> drive; ///< struct flash_statistics
	std::map<std::string, uint64_t> found; ///< final values of knobs set to "auto", by name
	std::map<std::string, uint64_t> state; ///< the scheduler's state at the end, by name
};

/// A knob as its scheduler declares it: struct knob in sched/knobs.h. `automatic` is the value of "auto", 0 if it has none.
struct Knob {
	std::string name, unit;
	uint64_t least, most, step, initial;
	std::string scale;
	std::vector<std::string> words;
	uint64_t automatic;
	std::string what;
};

/// The knobs of each scheduler, by the scheduler's name.
std::map<std::string, std::vector<Knob>> schedulers();

/// What the block layer has counted in one direction so far, as in /sys/block/*/stat: completed requests, their bytes, and
/// their times from creation to completion, added up.
struct Counted {
	uint64_t ios = 0, bytes = 0, ns = 0;
	/// Requests that were created and have not completed; /sys/block/*/inflight leaves out those that the scheduler holds.
	uint64_t outstanding = 0;
};

struct Sample {
	uint64_t now_ns = 0;
	std::array<Counted, DIRECTIONS> completed;
	Counted real_time; ///< those of class RT, of both directions
};

/// Sees a sample, and returns the knobs that are to change.
using Watcher = std::function<std::map<std::string, uint64_t>(const Sample &)>;

/// Runs a simulation. Throws UsageError for an invalid configuration and, with `check`, std::logic_error for a broken invariant.
/// A watcher is called every `every_ns`; `check` is not possible with it.
Result simulate(const Config &config, uint64_t every_ns = 0, const Watcher &watcher = {});

} // namespace tailgate::sim
