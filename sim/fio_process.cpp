// SPDX-License-Identifier: GPL-2.0-only
#include "fio_process.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

namespace tailgate::sim
{

namespace
{

constexpr uint64_t SECOND_NS = 1'000'000'000;

} // namespace

// --- awaitables -----------------------------------------------------------------------------------------------------

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
	Io &io;

	bool await_ready() const
	{
		return false;
	}
	bool await_suspend(std::coroutine_handle<>) const
	{
		return !process.stage_.layer.submit(
			&io, { [](void *p) {
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

				 /* the process may have woken earlier and be asleep again */
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

struct FioProcess::Release {
	FioProcess &process;

	bool await_ready() const
	{
		return process.may_begin();
	}
	void await_suspend(std::coroutine_handle<>) const
	{
		process.stage_.held.push_back(&process);
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

FioProcess::Submission FioProcess::submit(Io &io)
{
	return { *this, io };
}

FioProcess::Wait FioProcess::wait(uint64_t until_ns, uint32_t completions)
{
	return { *this, until_ns, completions };
}

FioProcess::Release FioProcess::release()
{
	return { *this };
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
      pattern_(process, stage.layer.sectors() * 512, stage.write_zones), target_(process),
      priority_random_(mix(process.seed)), task_(process.trace.empty() ? run() : replay())
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
	for (unsigned d = 0; d < DIRECTIONS; d++)
		if (process.rate_poisson && rate_bytes_[d] &&
		    rate_bytes_[d] < pattern_.least_bytes(Direction(d)))
			throw UsageError(
				"rate_process: poisson needs a rate of a request a second or more");
	for (unsigned d = 0; d < DIRECTIONS; d++) {
		has_priorities_ = has_priorities_ || !process.priorities[d].empty();
		has_least_rate_ = has_least_rate_ || process.rate_least_bytes[d] ||
				  process.rate_least_ios[d];
	}
	/* without a volatile cache the kernel takes FUA away, and flushes end at once (submit_bio_noacct()) */
	through_ = process.through && stage.config.device.write_cache;
	flushes_ = through_ && process.synchronous;
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

bool FioProcess::may_begin() const
{
	const auto &waves = stage_.running_in_wave;

	if (stopped_)
		return true;
	if (process_.after_flow != NO_FLOW && stage_.running_in_flow.at(process_.after_flow))
		return false;
	return std::all_of(waves.begin(), waves.lower_bound(process_.wave),
			   [](const auto &wave) { return !wave.second; });
}

/// Time of the start, with a random delay: fio releases its processes one after the other, but each then prepares its buffers, which
/// takes longer than the interval between two releases.
uint64_t FioProcess::start_ns() const
{
	uint64_t spread_ns = stage_.config.machine.start_spread_ns;

	/* a separate generator, so that the process's requests do not depend on it */
	return std::max(stage_.engine.now_ns, process_.start_ns) +
	       Random(~process_.seed).below(spread_ns + 1);
}

void FioProcess::begin()
{
	started_ns_ = began_ns_ = stage_.engine.now_ns;
	begun_ = true;
	counting_ = !process_.ramp_ns;
	target_.begin_window(started_ns_);
	if (process_.balance_weight) {
		balance_ = &stage_.balances[process_.balance_group];
		balance_->weight += process_.balance_weight;
		wake_at_end();
	}
}

/// At the end of its runtime, wakes the process if it waits for its share.
void FioProcess::wake_at_end()
{
	if (!process_.runtime_ns)
		return;
	stage_.engine.at(runtime_end_ns(),
			 { [](void *p) {
				  auto *process = static_cast<FioProcess *>(p);
				  const Costs &costs = process->stage_.config.machine.costs;

				  if (process->ended_)
					  return;
				  if (!process->finished()) /* the ramp ended late */
					  process->wake_at_end();
				  else if (process->waits_for_balance_ && process->asleep_)
					  process->wake(costs.timer);
			  },
			   this });
}

/// At the end of the ramp, starts counting and restarts the rate.
void FioProcess::count_if_ramped_up()
{
	if (counting_ || stage_.engine.now_ns < started_ns_ + process_.ramp_ns)
		return;
	counting_ = true;
	began_ns_ = stage_.engine.now_ns;
	ios_issued_ = bytes_issued_ = ios_reaped_ = 0;
	issued_bytes_ = {};
	poisson_us_ = {};
	done_bytes_ = done_ios_ = {};
	rate_looks_ = {};
	target_.begin_window(began_ns_);
}

/// Discards all results: with a latency target, only requests at the depth that was found are counted.
void FioProcess::count_anew()
{
	latencies_ = {};
	bytes_ = {};
	by_priority_.clear();
	counting_ = false;
	started_ns_ = stage_.engine.now_ns - process_.ramp_ns;
	count_if_ramped_up();
}

bool FioProcess::finished()
{
	count_if_ramped_up();
	return stopped_ || (process_.runtime_ns && counting_ &&
			    stage_.engine.now_ns - began_ns_ >= process_.runtime_ns);
}

/// When its runtime is over; NEVER if it has none.
uint64_t FioProcess::runtime_end_ns() const
{
	if (!process_.runtime_ns)
		return Engine::NEVER;
	return (counting_ ? began_ns_ : started_ns_ + process_.ramp_ns) + process_.runtime_ns;
}

/// When a process that sleeps until this time looks whether it was told to end (usec_sleep): a nap is shorter than 2 s.
uint64_t FioProcess::nap_end_ns(uint64_t until_ns) const
{
	uint64_t now_ns = stage_.engine.now_ns, left_ns = until_ns - std::min(until_ns, now_ns);

	return left_ns < 2 * SECOND_NS ? until_ns : now_ns + SECOND_NS + left_ns % SECOND_NS;
}

bool FioProcess::over()
{
	return finished() || (process_.ios_max && ios_issued_ >= process_.ios_max) ||
	       (process_.bytes_max && bytes_issued_ >= process_.bytes_max);
}

void FioProcess::end()
{
	Stage &stage = stage_;

	ended_ = true;
	ended_ns_ = stage.engine.now_ns;
	stage.running--;
	stage.running_in_wave[process_.wave]--;
	stage.running_in_flow[process_.flow]--;
	if (balance_) {
		balance_->ios -= balanced_ios_;
		balance_->weight -= process_.balance_weight;
		wake_balanced();
	}
	if (process_.ends_all)
		stop_others();
	for (FioProcess *process : std::exchange(stage.held, {})) {
		if (process->may_begin())
			stage.engine.soon(Action::resume(process->task_.handle()));
		else
			stage.held.push_back(process);
	}
}

/// exitall: the other processes end when their requests in flight have completed; those not begun yet issue none.
void FioProcess::stop_others()
{
	for (FioProcess *each : stage_.processes) {
		FioProcess &other = *each;

		if (other.ended_ ||
		    (process_.ends_what == Ends::GROUP && other.process_.group != process_.group) ||
		    (process_.ends_what == Ends::STARTED && !other.begun_))
			continue;
		other.stopped_ = true;
		if (other.waits_for_balance_ && other.asleep_)
			other.wake(0);
	}
}

/// Lets those of its group that wait for their share look again, but for those that have woken already.
void FioProcess::wake_balanced()
{
	for (FioProcess *process : std::exchange(balance_->waiting, {}))
		if (process->asleep_)
			process->wake(0);
}

/// Returns whether the process is ahead of its share of the group's requests. If not, counts one more request.
bool FioProcess::ahead_of_balance()
{
	double share = double(process_.balance_weight) / double(balance_->weight);

	if (double(balanced_ios_) / double(balance_->ios) > share)
		return true;
	balance_->ios++;
	balanced_ios_++;
	wake_balanced();
	return false;
}

/// Whether it pauses now (handle_thinktime). What completes while it waits for all in flight counts for the next pause. At the end of
/// the ramp fio sets the number of completed requests to 0, but not the one at the last pause, so the next pause comes late.
bool FioProcess::pauses()
{
	if (!process_.think_ns || ios_reaped_ < paused_at_ios_ + process_.think_blocks)
		return false;
	paused_at_ios_ = ios_reaped_;
	return true;
}

/// Whether the next request reads a write back: after verify_backlog writes, a batch of them is read.
bool FioProcess::verifies_next()
{
	if (!verify_left_ && process_.verify_backlog && written_.size() >= process_.verify_backlog)
		verify_left_ = process_.verify_batch;
	return verify_left_ && !written_.empty();
}

/// rate_min: checked once per cycle, but not during the ramp and the two seconds after it.
bool FioProcess::below_least_rate()
{
	uint64_t now_ns = stage_.engine.now_ns;

	if (!counting_ || now_ns - began_ns_ < 2 * SECOND_NS)
		return false;

	for (unsigned d = 0; d < DIRECTIONS; d++) {
		uint64_t bytes = process_.rate_least_bytes[d], ios = process_.rate_least_ios[d];
		RateLook &last = rate_looks_[d];

		if ((!bytes && !ios) || !done_bytes_[d])
			continue;
		if (last.at_ns) {
			double spent_s = double(now_ns - last.at_ns) / double(SECOND_NS);

			if (now_ns - last.at_ns < std::max<uint64_t>(process_.rate_cycle_ns, 1))
				continue;
			if (double(done_bytes_[d] - last.bytes) / spent_s < double(bytes) ||
			    double(done_ios_[d] - last.ios) / spent_s < double(ios))
				return true;
		}
		last = { now_ns, done_bytes_[d], done_ios_[d] };
	}
	return false;
}

uint64_t FioProcess::due_ns(Direction direction) const
{
	uint64_t rate = rate_bytes_[direction], bytes = issued_bytes_[direction];

	if (!rate)
		return 0;
	if (process_.rate_poisson)
		return began_ns_ + 1000 * poisson_us_[direction];
	return began_ns_ + bytes / rate * SECOND_NS + bytes % rate * SECOND_NS / rate;
}

/// A gap of whole microseconds, of which the mean is cut down to a whole number too (usec_for_io).
uint64_t FioProcess::poisson_gap_us(Direction direction)
{
	uint64_t iops = rate_bytes_[direction] / pattern_.least_bytes(direction);

	return uint64_t(double(1'000'000 / iops) * -std::log(pattern_.random().unit()));
}

void FioProcess::note_issue(const IoUnit &unit, bool verifying)
{
	Direction direction = unit.direction;

	if (verifying)
		return;
	ios_issued_++;
	bytes_issued_ += unit.bytes;
	issued_bytes_[direction] += unit.bytes;
	if (process_.rate_poisson && rate_bytes_[direction])
		poisson_us_[direction] += poisson_gap_us(direction);
	if (process_.verifies && direction == WRITE)
		note_written({ WRITE, unit.offset, unit.bytes });
}

/// Records a write to be read back. Random writes keep their order, sequential ones are sorted by offset without duplicates.
void FioProcess::note_written(const Access &access)
{
	if (!process_.sequential || written_.empty() || written_.back().offset < access.offset) {
		written_.push_back(access);
		return;
	}
	auto place = std::lower_bound(written_.begin(), written_.end(), access,
				      [](const Access &a, const Access &b) {
					      return a.offset < b.offset;
				      });
	if (place == written_.end() || place->offset != access.offset)
		written_.insert(place, access);
}

/// The next write to be read back.
Access FioProcess::next_written()
{
	Access access = written_.front();

	written_.pop_front();
	verify_left_--;
	access.direction = READ;
	return access;
}

uint16_t FioProcess::draw_priority(const IoUnit &unit)
{
	uint64_t drawn = priority_random_.below(100);

	for (const PriorityShare &part : process_.priorities[unit.direction]) {
		if (part.bytes && part.bytes != unit.bytes)
			continue;
		if (drawn < part.percent)
			return part.ioprio;
		drawn -= part.percent;
	}
	return process_.ioprio;
}

FioProcess::IoUnit &FioProcess::prepare(const Access &access)
{
	IoUnit &unit = *free_units_.back();

	free_units_.pop_back();
	unit.direction = access.direction;
	unit.op = access.direction == READ ? SIM_READ : SIM_WRITE;
	unit.through = access.direction == WRITE && through_;
	unit.offset = access.offset;
	unit.bytes = access.bytes;
	if (has_priorities_)
		unit.ioprio = draw_priority(unit);
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

/// Reaps one completed request, with the present time as its end.
void FioProcess::reap()
{
	IoUnit *unit = reapable_.pop();
	uint64_t latency_ns = stage_.engine.now_ns - unit->issued_ns;

	ios_reaped_++;
	count_if_ramped_up();
	if (counting_) {
		latencies_[unit->direction].add(latency_ns);
		bytes_[unit->direction] += unit->bytes;
		if (has_priorities_ && !process_.priorities[unit->direction].empty())
			by_priority_[unit->ioprio][unit->direction].add(latency_ns);
	}
	if (target_.on() && counting_)
		target_.note(stage_.engine.now_ns - unit->started_ns);
	if (has_least_rate_) {
		done_bytes_[unit->direction] += unit->bytes;
		done_ios_[unit->direction]++;
	}
	free_units_.push_back(unit);
	in_flight_--;
}

// --- the main loop --------------------------------------------------------------------------------------------------

/* Dispatches the inserted requests, after the processor time of the scheduler. */
#define DISPATCH()                                                           \
	do {                                                                 \
		if (stage_.layer.has_scheduler()) {                          \
			co_await work(stage_.config.machine.costs.schedule); \
			stage_.layer.dispatch(processor_index_);             \
		}                                                            \
	} while (0)

/*
 * Waits for a completion and reaps one, even if more are there: each gets the time at which it is reaped (io_u_queued_complete()
 * with iodepth_batch_complete_max=1, the default).
 */
#define REAP_ONE()                               \
	do {                                     \
		co_await wait(Engine::NEVER, 1); \
		reap();                          \
		co_await work(reap_ns);          \
	} while (0)

/* Waits until this time. Reaps what completes until then, one after the other. */
#define REAP_UNTIL(at_ns)                                \
	do {                                             \
		while (stage_.engine.now_ns < (at_ns)) { \
			co_await wait((at_ns), 1);       \
			if (!reapable_.empty()) {        \
				reap();                  \
				co_await work(reap_ns);  \
			}                                \
		}                                        \
	} while (0)

/* The flush that follows a synchronous O_DSYNC write, in the same system call (generic_write_sync()). */
#define FLUSH_AFTER(unit)                                                  \
	do {                                                               \
		if (flushes_ && (unit).direction == WRITE) {               \
			co_await wait(Engine::NEVER, 1);                   \
			flush_ = *reapable_.pop();                         \
			flush_.op = SIM_FLUSH;                             \
			flush_.bytes = 0;                                  \
			flush_.through = false;                            \
			co_await work(stage_.config.machine.costs.submit); \
			co_await submit(flush_);                           \
		}                                                          \
	} while (0)

/* io_u_quiesce() */
#define QUIESCE()                   \
	do {                        \
		while (in_flight_)  \
			REAP_ONE(); \
	} while (0)

/*
 * At its end fio waits for all requests in flight at once (do_io). Requests that completed before the last one get its
 * completion time. With io_submit_mode=offload each thread waits for its own request.
 */
#define REAP_THE_REST()                                           \
	do {                                                      \
		if (process_.offload) {                           \
			QUIESCE();                                \
		} else if (in_flight_) {                          \
			uint64_t cost_ns = in_flight_ * reap_ns;  \
                                                                  \
			co_await wait(Engine::NEVER, in_flight_); \
			while (in_flight_)                        \
				reap();                           \
			co_await work(cost_ns);                   \
		}                                                 \
	} while (0)

/* usec_sleep() */
#define SLEEP_UNTIL(at_ns)                           \
	do {                                         \
		co_await wait(nap_end_ns(at_ns), 0); \
	} while (stage_.engine.now_ns < (at_ns) && !stopped_)

/* Waits for its turn among the processes of its flow_id: fio sleeps for flow_sleep, or polls if that is 0. */
#define BALANCE()                                                                           \
	do {                                                                                \
		if (process_.balance_sleep_ns) {                                            \
			QUIESCE();                                                          \
			co_await wait(stage_.engine.now_ns + process_.balance_sleep_ns, 0); \
		} else {                                                                    \
			waits_for_balance_ = true;                                          \
			balance_->waiting.push_back(this);                                  \
			co_await wait(Engine::NEVER, 0);                                    \
			waits_for_balance_ = false;                                         \
			std::erase(balance_->waiting, this);                                \
		}                                                                           \
	} while (0)

Task FioProcess::run()
{
	const uint64_t reap_ns = stage_.config.machine.costs.reap;
	uint32_t loops_left = process_.loops;
	bool failed = false;

	co_await release();
	co_await wait(start_ns(), 0);
	begin();
	while (!failed) {
		bool verifying = process_.verifies && verifies_next();

		if (verifying ? finished() : over()) {
			REAP_THE_REST();
			if (finished())
				break;
			if (!verifying && !written_.empty()) {
				verify_left_ = written_.size();
				continue;
			}
			if (!--loops_left)
				break;
			bytes_issued_ = 0;
			pattern_.restart(process_.repeats);
			continue;
		}
		if (balance_ && ahead_of_balance()) {
			BALANCE();
			continue;
		}

		Direction direction = verifying ? READ : pattern_.next_direction();
		uint64_t at_ns = verifying ? 0 : due_ns(direction), now_ns = stage_.engine.now_ns;

		if (at_ns > now_ns && process_.share[READ] && process_.share[WRITE]) {
			/* too early for this direction: the other one may be due sooner */
			Direction other = direction == READ ? WRITE : READ;

			if (due_ns(other) < at_ns) {
				direction = other;
				at_ns = due_ns(other);
			}
		}
		if (at_ns > now_ns) {
			at_ns = std::min(at_ns, runtime_end_ns());
			if (process_.offload) {
				do {
					uint64_t nap_ns = nap_end_ns(at_ns);

					REAP_UNTIL(nap_ns);
				} while (stage_.engine.now_ns < at_ns && !stopped_);
			} else {
				/* fio reaps all requests in flight first, and then sleeps for the time computed before */
				QUIESCE();
				at_ns += stage_.engine.now_ns - now_ns;
				SLEEP_UNTIL(at_ns);
			}
			if (over())
				continue;
		}

		IoUnit &unit = prepare(verifying ? next_written() : pattern_.next(direction));
		unit.started_ns = stage_.engine.now_ns;
		if (process_.offload)
			co_await work(stage_.config.machine.costs.wake);
		unit.issued_ns = stage_.engine.now_ns;
		co_await work(submission_ns(unit));
		note_issue(unit, verifying);
		in_flight_++;
		co_await submit(unit);
		DISPATCH();
		FLUSH_AFTER(unit);
		if (!process_.synchronous)
			unit.issued_ns = stage_.engine.now_ns;
		if (full())
			REAP_ONE();
		failed = has_least_rate_ && below_least_rate();

		if (target_.on() && counting_) {
			LatencyTarget::Verdict verdict = target_.check(stage_.engine.now_ns);

			if (verdict == LatencyTarget::Verdict::DONE ||
			    verdict == LatencyTarget::Verdict::FAILED)
				break;
			if (verdict != LatencyTarget::Verdict::GO_ON) {
				QUIESCE();
				target_.begin_window(stage_.engine.now_ns);
			}
			if (verdict == LatencyTarget::Verdict::MEASURE)
				count_anew();
		}

		if (pauses()) {
			QUIESCE();
			uint64_t until_ns = stage_.engine.now_ns + process_.think_ns;
			co_await compute(process_.think_spin_ns);
			SLEEP_UNTIL(until_ns);
		}
	}
	REAP_THE_REST();
	end();
}

/// Replays a trace: issues each request at its time, or as soon as there is room in the queue.
Task FioProcess::replay()
{
	const uint64_t reap_ns = stage_.config.machine.costs.reap;

	co_await release();
	co_await wait(start_ns(), 0);
	begin();
	for (const TracedIo &io : process_.trace) {
		uint64_t at_ns = started_ns_ + io.at_ns;

		while (stage_.engine.now_ns < at_ns && !stopped_) { /* iolog_delay() */
			uint64_t nap_ns = std::min(at_ns, stage_.engine.now_ns + SECOND_NS / 2);

			REAP_UNTIL(nap_ns);
		}
		while (full())
			REAP_ONE();
		if (over())
			break;
		IoUnit &unit = prepare({ io.direction, io.offset, io.bytes });
		/* latency counts from the scheduled time */
		unit.issued_ns = at_ns;
		co_await work(submission_ns(unit));
		note_issue(unit, false);
		in_flight_++;
		co_await submit(unit);
		DISPATCH();
		FLUSH_AFTER(unit);
	}
	REAP_THE_REST();
	end();
}

} // namespace tailgate::sim
