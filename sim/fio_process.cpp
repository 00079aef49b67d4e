// SPDX-License-Identifier: GPL-2.0-only
#include "fio_process.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace tailgate::sim
{

namespace
{

constexpr uint64_t SECOND_NS = 1'000'000'000;

} // namespace

// --- what a process awaits ------------------------------------------------------------------------------------------

struct FioProcess::Work {
	FioProcess &process;
	uint64_t ns;

	bool await_ready() const
	{
		return !ns;
	}
	void await_suspend(std::coroutine_handle<> h) const
	{
		process.processor_.work(ns, Action::resume(h));
	}
	void await_resume() const
	{
	}
};

struct FioProcess::Computation {
	FioProcess &process;
	uint64_t ns;

	bool await_ready() const
	{
		return !ns;
	}
	void await_suspend(std::coroutine_handle<> h) const
	{
		process.processor_.compute(ns, Action::resume(h));
	}
	void await_resume() const
	{
	}
};

struct FioProcess::Submission {
	FioProcess &process;
	IoUnit &unit;

	bool await_ready() const
	{
		return false;
	}
	bool await_suspend(std::coroutine_handle<>) const
	{
		return !process.stage_.layer.submit(
			&unit, { [](void *p) {
					auto *process = static_cast<FioProcess *>(p);

					process->wake(process->stage_.config.machine.costs.wake);
				},
				 &process });
	}
	void await_resume() const
	{
	}
};

struct FioProcess::Wait {
	FioProcess &process;
	uint64_t until_ns;
	uint32_t completions;

	bool await_ready() const
	{
		return until_ns <= process.stage_.engine.now_ns ||
		       (completions && process.reapable_.size() >= completions);
	}
	void await_suspend(std::coroutine_handle<>) const
	{
		process.asleep_ = true;
		process.wanted_ = completions;
		process.wake_at_ns_ = until_ns;
		if (until_ns == Engine::NEVER)
			return;
		process.stage_.engine.at(
			until_ns,
			{ [](void *p) {
				 auto *process = static_cast<FioProcess *>(p);
				 const Costs &costs = process->stage_.config.machine.costs;

				 /* it may have woken before, and sleep again by now */
				 if (process->asleep_ &&
				     process->wake_at_ns_ <= process->stage_.engine.now_ns)
					 process->wake(costs.timer);
			 },
			  &process });
	}
	void await_resume() const
	{
	}
};

FioProcess::Work FioProcess::work(uint64_t ns)
{
	return { *this, ns };
}

FioProcess::Computation FioProcess::compute(uint64_t ns)
{
	return { *this, ns };
}

FioProcess::Submission FioProcess::submit(IoUnit &unit)
{
	return { *this, unit };
}

FioProcess::Wait FioProcess::wait(uint64_t until_ns, uint32_t completions)
{
	return { *this, until_ns, completions };
}

void FioProcess::wake(uint64_t cost_ns)
{
	asleep_ = false;
	processor_.work(cost_ns, Action::resume(task_.handle()));
}

// --- accounts -------------------------------------------------------------------------------------------------------

FioProcess::FioProcess(Stage &stage, const Process &process, uint32_t number)
    : stage_(stage), process_(process),
      processor_index_((process.cpu == NO_CPU ? number : process.cpu) % stage.processors.size()),
      processor_(stage.processors[processor_index_]),
      pattern_(process, stage.layer.sectors() * 512),
      task_(process.trace.empty() ? run() : replay())
{
	if (!process.depth)
		throw UsageError("iodepth: expected at least 1");
	if (process.share[READ] + process.share[WRITE] != 100)
		throw UsageError("rwmixread and rwmixwrite: expected 100 in all");
	for (const TracedIo &io : process.trace)
		if (!io.bytes || io.offset + io.bytes > stage.layer.sectors() * 512)
			throw UsageError("trace: a request is outside of the drive");
	for (unsigned d = 0; d < DIRECTIONS; d++)
		rate_bytes_[d] = process.rate_bytes[d] ?
					 process.rate_bytes[d] :
					 process.rate_ios[d] * pattern_.least_bytes(Direction(d));
	units_.resize(process.synchronous ? 1 : process.depth);
	for (IoUnit &unit : units_) {
		unit.owner = this;
		unit.processor = processor_index_;
		unit.ioprio = process.ioprio;
		unit.process = number;
		unit.cgroup = process.cgroup;
		unit.flow = process.flow;
		unit.done = { [](void *u) {
				     auto *unit = static_cast<IoUnit *>(u);

				     unit->owner->completed(unit);
			     },
			      &unit };
		free_units_.push_back(&unit);
	}
}

/// fio releases its processes in turn, but each then prepares its buffers, for longer than the next one takes to follow.
uint64_t FioProcess::start_ns() const
{
	uint64_t spread_ns = stage_.config.machine.start_spread_ns;

	/* numbers of its own: what the process asks for stays the same */
	return process_.start_ns + Random(~process_.seed).below(spread_ns + 1);
}

void FioProcess::begin()
{
	started_ns_ = began_ns_ = stage_.engine.now_ns;
	counting_ = !process_.ramp_ns;
}

/// What happened during the ramp is forgotten, and the rate starts anew.
void FioProcess::count_if_ramped_up()
{
	if (counting_ || stage_.engine.now_ns < started_ns_ + process_.ramp_ns)
		return;
	counting_ = true;
	began_ns_ = stage_.engine.now_ns;
	ios_issued_ = bytes_issued_ = 0;
	issued_bytes_ = {};
	poisson_ns_ = {};
}

bool FioProcess::over()
{
	count_if_ramped_up();
	return stage_.stopping || (process_.ios_max && ios_issued_ >= process_.ios_max) ||
	       (process_.bytes_max && bytes_issued_ >= process_.bytes_max) ||
	       (process_.runtime_ns && counting_ &&
		stage_.engine.now_ns - began_ns_ >= process_.runtime_ns);
}

void FioProcess::end()
{
	ended_ = true;
	ended_ns_ = stage_.engine.now_ns;
	stage_.running--;
	if (process_.ends_all)
		stage_.stopping = true;
}

uint64_t FioProcess::due_ns(Direction direction) const
{
	uint64_t rate = rate_bytes_[direction], bytes = issued_bytes_[direction];

	if (!rate)
		return 0;
	if (process_.rate_poisson)
		return began_ns_ + uint64_t(poisson_ns_[direction]);
	return began_ns_ + bytes / rate * SECOND_NS + bytes % rate * SECOND_NS / rate;
}

void FioProcess::note_issue(const IoUnit &unit)
{
	Direction direction = unit.direction;

	ios_issued_++;
	bytes_issued_ += unit.bytes;
	issued_bytes_[direction] += unit.bytes;
	if (process_.rate_poisson && rate_bytes_[direction])
		poisson_ns_[direction] += -std::log(pattern_.random().unit()) * double(SECOND_NS) *
					  pattern_.least_bytes(direction) /
					  double(rate_bytes_[direction]);
}

FioProcess::IoUnit &FioProcess::prepare(const Access &access)
{
	IoUnit &unit = *free_units_.back();

	free_units_.pop_back();
	unit.direction = access.direction;
	unit.op = access.direction == READ ? SIM_READ : SIM_WRITE;
	unit.through = access.direction == WRITE && process_.through;
	unit.offset = access.offset;
	unit.bytes = access.bytes;
	stage_.layer.expect(access.offset);
	return unit;
}

uint64_t FioProcess::submission_ns(const IoUnit &unit) const
{
	const Costs &costs = stage_.config.machine.costs;

	return costs.submit + uint64_t(costs.submit_kib) * (unit.bytes / 1024);
}

void FioProcess::completed(IoUnit *unit)
{
	reapable_.push(unit);
	if (asleep_ && wanted_ && reapable_.size() >= wanted_)
		wake(stage_.config.machine.costs.wake);
}

/// Takes what has completed, all at one time; returns how many.
uint32_t FioProcess::reap()
{
	uint32_t n = reapable_.size();

	count_if_ramped_up();
	for (uint32_t i = 0; i < n; i++) {
		IoUnit *unit = reapable_.pop();

		if (counting_) {
			latencies_[unit->direction].add(stage_.engine.now_ns - unit->issued_ns);
			bytes_[unit->direction] += unit->bytes;
		}
		free_units_.push_back(unit);
	}
	in_flight_ -= n;
	return n;
}

// --- what it does ---------------------------------------------------------------------------------------------------

/* What was inserted goes to the drive after the scheduler's part. */
#define DISPATCH()                                                           \
	do {                                                                 \
		if (stage_.layer.has_scheduler()) {                          \
			co_await work(stage_.config.machine.costs.schedule); \
			stage_.layer.dispatch(processor_index_);             \
		}                                                            \
	} while (0)

#define REAP_AT_LEAST(n)                           \
	do {                                       \
		co_await wait(Engine::NEVER, (n)); \
		co_await work(reap() * reap_ns);   \
	} while (0)

/* At its end fio waits for all it has in flight at once (do_io): what completed before the last seems late by the wait. */
#define REAP_THE_REST()                            \
	do {                                       \
		if (in_flight_)                    \
			REAP_AT_LEAST(in_flight_); \
	} while (0)

Task FioProcess::run()
{
	const uint64_t reap_ns = stage_.config.machine.costs.reap;
	uint64_t think_left = process_.think_blocks;

	co_await wait(start_ns(), 0);
	begin();
	while (!over()) {
		Direction direction = pattern_.next_direction();
		uint64_t at_ns = due_ns(direction), now_ns = stage_.engine.now_ns;

		if (at_ns > now_ns && process_.share[READ] && process_.share[WRITE]) {
			/* ahead in this direction: perhaps not in the other one */
			Direction other = direction == READ ? WRITE : READ;

			if (due_ns(other) < at_ns) {
				direction = other;
				at_ns = due_ns(other);
			}
		}
		if (at_ns > now_ns) {
			/* fio does not sleep with requests in flight, and then sleeps as long as it meant to */
			while (in_flight_)
				REAP_AT_LEAST(1);
			co_await wait(stage_.engine.now_ns + (at_ns - now_ns), 0);
			if (over())
				break;
		}

		IoUnit &unit = prepare(pattern_.next(direction));
		unit.issued_ns = stage_.engine.now_ns;
		co_await work(submission_ns(unit));
		note_issue(unit);
		in_flight_++;
		co_await submit(unit);
		DISPATCH();
		if (!process_.synchronous)
			unit.issued_ns = stage_.engine.now_ns;
		if (full())
			REAP_AT_LEAST(1);

		if (process_.think_ns && !--think_left) {
			think_left = process_.think_blocks;
			while (in_flight_)
				REAP_AT_LEAST(1);
			uint64_t until_ns = stage_.engine.now_ns + process_.think_ns;
			co_await compute(process_.think_spin_ns);
			co_await wait(until_ns, 0);
		}
	}
	REAP_THE_REST();
	end();
}

/// A trace: each request at its time, or as soon as there is room for it.
Task FioProcess::replay()
{
	const uint64_t reap_ns = stage_.config.machine.costs.reap;

	co_await wait(start_ns(), 0);
	begin();
	for (const TracedIo &io : process_.trace) {
		uint64_t at_ns = started_ns_ + io.at_ns;

		while (stage_.engine.now_ns < at_ns) {
			co_await wait(at_ns, 1);
			co_await work(reap() * reap_ns);
		}
		while (full())
			REAP_AT_LEAST(1);
		if (over())
			break;
		IoUnit &unit = prepare({ io.direction, io.offset, io.bytes });
		/* response is counted from the scheduled release */
		unit.issued_ns = at_ns;
		co_await work(submission_ns(unit));
		note_issue(unit);
		in_flight_++;
		co_await submit(unit);
		DISPATCH();
	}
	REAP_THE_REST();
	end();
}

} // namespace tailgate::sim
