// SPDX-License-Identifier: GPL-2.0-only
// What the simulator is told, and what it answers. Times are in ns, sizes in bytes.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace tailgate::sim
{

/// What a caller got wrong, in one line.
struct UsageError : std::runtime_error {
	using std::runtime_error::runtime_error;
};

enum Direction : unsigned { READ, WRITE, DIRECTIONS };

/// Sizes of a process's requests: each with its share in percent; the shares add up to 100.
using BlockSizes = std::vector<std::pair<uint32_t, uint32_t>>;

/// One request of a trace: at `at_ns` after the start of the process, whatever became of those before.
struct TracedIo {
	uint64_t at_ns;
	Direction direction;
	uint64_t offset;
	uint32_t bytes;
};

enum class Distribution { RANDOM, ZIPF, PARETO, NORMAL, ZONED };

/// A part of what a process uses, and its share of the random requests in percent; places are from `offset`.
struct ZoneShare {
	uint32_t percent;
	uint64_t begin, end;
};

/// A share of the requests, in percent, that carries an I/O priority of its own; bytes 0: of any size.
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
	uint32_t flow = 0; ///< index of the result that it adds to
	bool synchronous = false; ///< sync, psync, pvsync: one request at a time, no queue
	uint32_t depth = 1; ///< iodepth of an asynchronous one
	uint32_t cpu = NO_CPU; ///< its processor; NO_CPU: the next in turn
	uint16_t ioprio = 0; ///< class << 13 | level, as in the kernel
	uint32_t cgroup = 0; ///< number of its cgroup: see Config
	std::array<uint32_t, DIRECTIONS> share = { 100, 0 }; ///< rwmixread, rwmixwrite in percent
	bool sequential = false;
	int64_t step = 0; ///< of a sequential one: added to the place after each request
	uint64_t offset = 0, size = 0; ///< the part of the drive that it uses; size 0: all of it
	std::array<BlockSizes, DIRECTIONS> block_sizes = { { { { 4096, 100 } },
							     { { 4096, 100 } } } };
	std::array<uint32_t, DIRECTIONS> bytes_most = {
		0, 0
	}; ///< bsrange: sizes up to this, in steps of the only one in block_sizes; 0: none
	uint32_t align = 0; ///< blockalign; 0: the least block size
	Distribution distribution = Distribution::RANDOM;
	double distribution_parameter =
		0; ///< zipf theta, pareto power, normal deviation in percent
	std::array<std::vector<ZoneShare>, DIRECTIONS> zones; ///< of the distribution ZONED
	uint64_t strided_range = 0; ///< zonemode=strided: bytes that it works in; 0: not strided
	uint64_t strided_bytes = 0; ///< zonesize: bytes used before each gap
	uint64_t strided_gap = 0; ///< zoneskip
	uint64_t zone_bytes = 0; ///< zonemode=zbd: each zone is written in order; 0: no zones
	uint32_t zones_open_most = 0; ///< max_open_zones; 0: any number
	bool exhaustive =
		false; ///< each block once a pass (no norandommap): its order is a permutation
	std::array<uint64_t, DIRECTIONS> rate_bytes = { 0, 0 }; ///< a second; 0: no limit
	std::array<uint64_t, DIRECTIONS> rate_ios = { 0, 0 };
	bool rate_poisson = false;
	std::array<uint64_t, DIRECTIONS> rate_least_bytes = { 0, 0 }; ///< rate_min: it ends below
	std::array<uint64_t, DIRECTIONS> rate_least_ios = { 0, 0 };
	uint64_t rate_cycle_ns = 1'000'000'000; ///< and looks at most so often
	bool offload = false; ///< io_submit_mode=offload: what is in flight delays no submission
	std::array<std::vector<PriorityShare>, DIRECTIONS> priorities; ///< cmdprio_*
	uint32_t balance_group = 0; ///< flow_id
	uint32_t balance_weight = 0; ///< flow: share of the group's requests; 0: in no group
	uint64_t balance_sleep_ns = 0; ///< flow_sleep
	uint64_t target_ns = 0; ///< latency_target: the depth follows it; 0: none
	uint64_t target_window_ns = 0;
	double target_percentile = 100;
	bool target_stays = false; ///< latency_run: goes on when the depth has been found
	uint64_t think_ns = 0; ///< pause after each `think_blocks` requests
	uint64_t think_spin_ns = 0; ///< of it with the CPU busy
	uint32_t think_blocks = 1;
	bool through = false; ///< writes are FUA (sync=1, O_DSYNC)
	uint64_t start_ns = 0; ///< startdelay
	uint64_t ramp_ns = 0; ///< after the start, not counted
	uint64_t runtime_ns = 0; ///< from start or, with a ramp, from its end; 0: no limit
	uint64_t ios_max = 0; ///< number_ios; 0: no limit
	uint64_t bytes_max = 0; ///< io_size; 0: no limit
	uint32_t loops = 1; ///< how often the whole is done
	bool repeats = true; ///< randrepeat: each loop draws the same
	bool verifies = false; ///< what it wrote is read back
	uint32_t verify_backlog = 0; ///< writes before some are read back; 0: at the end
	uint32_t verify_batch = 0; ///< how many are read back at a time
	bool passthrough = false; ///< of io_uring_cmd, which no scheduler sees
	uint32_t wave = 0; ///< stonewall: begins when all of lower waves have ended
	uint32_t after_flow = NO_FLOW; ///< wait_for: begins when all of this flow have ended
	uint32_t group = 0; ///< of the reports; see ends_what
	bool ends_all = false; ///< exitall
	Ends ends_what = Ends::GROUP; ///< exit_what
	uint64_t seed = 1;
	std::vector<TracedIo> trace; ///< instead of the above: read_iolog
};

/// What processors cost, in ns of one of them; all 0: an ideal machine.
struct Costs {
	uint32_t submit = 0; ///< from the system call to the scheduler or driver, for each request
	uint32_t submit_kib = 0; ///< and for each KiB of it
	uint32_t schedule = 0; ///< with a scheduler, from insertion to dispatch, for each request
	uint32_t complete = 0; ///< interrupt to the end of the request
	uint32_t complete_kib = 0;
	uint32_t reap =
		0; ///< from the task's wake-up to the next submission, for each request that it finds done
	uint32_t wake = 0; ///< a sleeping task or worker: wake-up and context switch
	uint32_t run = 0; ///< a worker's run of a hardware queue
	uint32_t ipi = 0; ///< latency of an interrupt from one processor to another
	uint32_t timer = 0; ///< end of a sleep
};

struct Machine {
	uint32_t cpus = 1;
	Costs costs;
	uint32_t tick_ns = 4'000'000; ///< of the kernel's clock: delayed runs end on a tick
	uint32_t start_spread_ns = 0; ///< longest delay of a process's start; drawn by its seed
	bool lone_requests_to_worker = false; ///< 6.1: a worker dispatches what is not plugged
	bool completes_where_submitted = true; ///< rq_affinity
};

/// The drive and its queue. `drive` holds the parameters of flash/flash.h by name.
struct Device {
	std::map<std::string, uint32_t> drive;
	uint32_t attachment =
		0; ///< whose driver: 0 NVMe's, 1 usb-storage's, 2 eMMC's, 3 with command queueing
	uint32_t depth = 1023; ///< tags of a hardware queue; those other drivers have fewer
	uint32_t nr_requests =
		0; ///< scheduler tags of one; 0: as the kernel's default, 2 * min(depth, 128)
	uint32_t max_sectors_kb = 0; ///< larger requests are split; 0: the drive's max_kib
	bool merges = true; ///< nomerges=0
};

struct Scheduler {
	std::string name = "none";
	std::map<std::string, uint64_t> knobs;
};

/// A cgroup of version 2.
struct Cgroup {
	uint32_t parent = 0; ///< number of the one that it is in, which is less than its own
	uint32_t weight = 100; ///< io.mqfq.weight
};

struct Config {
	Machine machine;
	Device device;
	Scheduler scheduler;
	std::vector<Cgroup> cgroups = { {} }; ///< by number; 0 is the root
	std::vector<Process> processes;
	uint64_t limit_ns = 0; ///< end at the latest; 0: no limit
	bool check = false; ///< test every invariant at every step, at a price
};

/// fio's bins: below 2^7 ns one each, above 64 for each power of two. `bins` holds those with a count, ascending.
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
	Histogram latency; ///< clat: from the submission (system call of a synchronous one) until the process sees the end
	Histogram block; ///< in the block layer: from entering it until completion
	Histogram scheduler; ///< of it in the scheduler: from insertion to dispatch
	std::vector<PriorityResult>
		priorities; ///< ascending; none where all have that of the process
};

/// All processes of a flow together.
struct FlowResult {
	std::array<DirectionResult, DIRECTIONS> directions;
	double runtime_ns = 0; ///< time that was counted: the mean over its processes
};

struct Result {
	std::vector<FlowResult> flows;
	uint64_t now_ns = 0; ///< the clock at the end
	uint64_t ios = 0; ///< requests that the drive served, all of them
	uint64_t events = 0;
	double idle = 1; ///< share of the processors' time while flow 0 ran
	std::map<std::string, uint64_t> drive; ///< struct flash_statistics
	std::map<std::string, uint64_t> found; ///< by automatic knob: what it was found to be
};

/// Name, least, most, value of auto or 0; of a choice the words, by value.
using KnobInfo = std::tuple<std::string, uint64_t, uint64_t, uint64_t, std::vector<std::string>>;

/// By scheduler, its knobs.
std::map<std::string, std::vector<KnobInfo>> schedulers();

/// Runs it to the end. UsageError for what is not possible; std::logic_error, with `check`, for a broken invariant.
Result simulate(const Config &config);

} // namespace tailgate::sim
