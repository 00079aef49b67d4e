// SPDX-License-Identifier: GPL-2.0-only
// A process as fio 3.33 runs it (backend.c, io_u.c): fills its queue, reaps one when the queue is full, limits its rate, pauses.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "block_layer.hpp"
#include "engine.hpp"
#include "histogram.hpp"
#include "latency_target.hpp"
#include "pattern.hpp"
#include "simulate.hpp"

namespace tailgate::sim
{

class FioProcess;

/// State shared by the processes of a flow_id (fio 3.33, flow.c).
struct Balance {
	uint64_t ios = 1;
	uint32_t weight = 0; ///< sum of the weights of running processes
	std::vector<FioProcess *> waiting; ///< processes that are ahead of their share
};

/// State shared by all processes of a simulation.
struct Stage {
	Engine &engine;
	std::vector<Processor> &processors;
	BlockLayer &layer;
	const Config &config;
	uint32_t running = 0; ///< processes that have not ended
	std::map<uint32_t, uint32_t> running_in_wave{}, running_in_flow{};
	std::map<uint32_t, Balance> balances{};
	WriteZones write_zones{};
	std::vector<FioProcess *> processes{};
	std::vector<FioProcess *> held{}; ///< processes that wait for others to end
};

class FioProcess
{
    public:
	FioProcess(Stage &stage, const Process &process, uint32_t number);
	FioProcess(const FioProcess &) = delete;

	void start()
	{
		stage_.engine.soon(Action::resume(task_.handle()));
	}

	const Process &process() const
	{
		return process_;
	}
	/// Latencies of the counted requests, by direction.
	const std::array<Latencies, DIRECTIONS> &latencies() const
	{
		return latencies_;
	}
	const std::array<uint64_t, DIRECTIONS> &bytes() const
	{
		return bytes_;
	}
	/// Latencies by I/O priority if requests have priorities of their own; otherwise empty.
	const std::map<uint16_t, std::array<Latencies, DIRECTIONS>> &by_priority() const
	{
		return by_priority_;
	}
	uint64_t began_ns() const
	{
		return began_ns_;
	}
	uint64_t ended_ns() const
	{
		return ended_ns_;
	}
	bool ended() const
	{
		return ended_;
	}
	/// Whether it has begun, and its ramp is over.
	bool counted() const
	{
		return counting_;
	}
	/// Whether requests that complete now are counted.
	bool counts() const
	{
		return counting_ && !ended_;
	}

    private:
	struct IoUnit : Io {
		FioProcess *owner = nullptr;
		Direction direction = READ;
		uint64_t started_ns = 0; ///< before its submission
		uint64_t issued_ns = 0;
	};

	/// Awaitables: each suspends the process unless there is nothing to wait for.
	struct Work;
	struct Computation;
	struct Submission;
	struct Wait;
	struct Release;

	Task run();
	Task replay();
	Work work(uint64_t ns);
	/// Work that runs only when the processor has no other.
	Computation compute(uint64_t ns);
	Submission submit(Io &io);
	/// Waits until this time, or until `completions` can be reaped; 0: only until the time.
	Wait wait(uint64_t until_ns, uint32_t completions);
	/// Waits until the processes that it follows (stonewall, wait_for) have ended.
	Release release();
	void wake(uint64_t cost_ns);

	bool may_begin() const;
	uint64_t start_ns() const;
	void begin();
	/// Whether it was told to end or its runtime is over.
	bool finished();
	/// Whether it is finished, or has issued all requests of this loop.
	bool over();
	void end();
	void stop_others();
	void wake_balanced();
	void wake_at_end();
	uint64_t runtime_end_ns() const;
	uint64_t nap_end_ns(uint64_t until_ns) const;
	void count_if_ramped_up();
	void count_anew();
	bool full() const
	{
		return in_flight_ >= target_.depth();
	}
	bool pauses();
	bool ahead_of_balance();
	bool verifies_next();
	bool below_least_rate();
	uint64_t due_ns(Direction direction) const;
	uint64_t poisson_gap_us(Direction direction);
	void note_issue(const IoUnit &unit, bool verifying);
	void note_written(const Access &access);
	Access next_written();
	uint16_t draw_priority(const IoUnit &unit);
	IoUnit &prepare(const Access &access);
	uint64_t submission_ns(const IoUnit &unit) const;
	void completed(IoUnit *unit);
	void reap();

	Stage &stage_;
	const Process &process_;
	uint32_t processor_index_;
	Processor &processor_;
	Pattern pattern_;
	std::deque<IoUnit> units_;
	std::vector<IoUnit *> free_units_;
	Fifo<IoUnit *> reapable_;
	bool through_ = false; ///< writes are FUA
	bool flushes_ = false; ///< a flush follows each write
	Io flush_;
	uint32_t in_flight_ = 0; ///< submitted and not reaped
	bool asleep_ = false;
	uint32_t wanted_ = 0; ///< number of completions that it waits for
	uint64_t wake_at_ns_ = 0;
	bool begun_ = false, counting_ = false, ended_ = false, stopped_ = false;
	bool waits_for_balance_ = false;
	bool has_priorities_ = false, has_least_rate_ = false;
	uint64_t started_ns_ = 0, began_ns_ = 0, ended_ns_ = 0;
	uint64_t ios_issued_ = 0, bytes_issued_ = 0; ///< since counting began
	uint64_t ios_reaped_ = 0; ///< since counting began
	uint64_t paused_at_ios_ =
		0; ///< ios_reaped_ at the last pause, perhaps before counting began
	std::array<uint64_t, DIRECTIONS> rate_bytes_{}; ///< bytes per second; 0: no limit
	std::array<uint64_t, DIRECTIONS> issued_bytes_{};
	std::array<uint64_t, DIRECTIONS> poisson_us_{}; ///< time of the next request after began_ns_
	std::array<Latencies, DIRECTIONS> latencies_;
	std::array<uint64_t, DIRECTIONS> bytes_{};
	LatencyTarget target_;
	Balance *balance_ = nullptr;
	uint64_t balanced_ios_ = 0;
	Random priority_random_; ///< separate, so that offsets and sizes do not depend on it
	std::map<uint16_t, std::array<Latencies, DIRECTIONS>> by_priority_;
	std::deque<Access> written_; ///< writes to be read back, in this order
	uint64_t verify_left_ = 0; ///< reads left in the batch that is read back
	/// State at the last check of the least rate.
	struct RateLook {
		uint64_t at_ns = 0, bytes = 0, ios = 0;
	};
	std::array<RateLook, DIRECTIONS> rate_looks_{};
	std::array<uint64_t, DIRECTIONS> done_bytes_{}, done_ios_{}; ///< since counting began
	Task task_; ///< last member: it uses the others
};

} // namespace tailgate::sim
