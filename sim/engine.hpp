// SPDX-License-Identifier: GPL-2.0-only
// The clock, the event queue, and the processors.
//
// An activity (a fio process, an interrupt, a worker) consists of pieces of work on a processor. A piece costs time and takes
// effect at its end. A processor does one piece at a time, in order of arrival; an interrupt suspends the piece. A process with
// more work goes to the end of the queue after each piece. Computations run only when there is no other work: the kernel's
// scheduler prefers workers and processes that wake up to a process that has used its time.
#pragma once

#include <algorithm>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace tailgate::sim
{

/// A function and its argument.
struct Action {
	void (*function)(void *) = nullptr;
	void *argument = nullptr;

	void operator()() const
	{
		function(argument);
	}

	static Action resume(std::coroutine_handle<> coroutine)
	{
		return { [](void *address) {
				std::coroutine_handle<>::from_address(address).resume();
			},
			 coroutine.address() };
	}

	template <auto Method, class Object> static Action call(Object *object)
	{
		return { [](void *o) { (static_cast<Object *>(o)->*Method)(); }, object };
	}
};

/// A FIFO queue in a ring buffer, whose memory grows and never shrinks.
template <class T> class Fifo
{
    public:
	bool empty() const
	{
		return head_ == tail_;
	}
	size_t size() const
	{
		return tail_ - head_;
	}
	void push(T value)
	{
		if (size() == ring_.size())
			grow();
		ring_[tail_++ & (ring_.size() - 1)] = std::move(value);
	}
	T pop()
	{
		return std::move(ring_[head_++ & (ring_.size() - 1)]);
	}

    private:
	void grow()
	{
		std::vector<T> larger(ring_.empty() ? 16 : 2 * ring_.size());
		size_t n = size();

		for (size_t i = 0; i < n; i++)
			larger[i] = std::move(ring_[(head_ + i) & (ring_.size() - 1)]);
		ring_ = std::move(larger);
		head_ = 0;
		tail_ = n;
	}

	std::vector<T> ring_;
	size_t head_ = 0, tail_ = 0;
};

class Processor;

/// The clock and the event queue. Events of the same time run in the order in which they were requested.
class Engine
{
    public:
	static constexpr uint64_t NEVER = ~uint64_t(0);

	uint64_t now_ns = 0;
	uint64_t events = 0;
	Processor *present = nullptr; ///< the processor whose work has just taken effect

	void at(uint64_t when_ns, Action action)
	{
		const Due due{ std::max(when_ns, now_ns), action };
		size_t i = due_.size();

		due_.push_back(due);
		for (; i && due_[i - 1].when_ns <= due.when_ns; i--)
			due_[i] = due_[i - 1];
		due_[i] = due;
	}
	/// Runs an action at the present time, after the one that is running.
	void soon(Action action)
	{
		soon_.push(action);
	}

	uint64_t next_ns() const
	{
		return due_.empty() ? NEVER : due_.back().when_ns;
	}

	/// Runs all actions that are due now, including those that they add.
	void settle()
	{
		for (;;) {
			while (!soon_.empty()) {
				events++;
				soon_.pop()();
			}
			if (next_ns() > now_ns)
				return;
			Action action = due_.back().action;
			due_.pop_back();
			events++;
			action();
		}
	}

    private:
	struct Due {
		uint64_t when_ns;
		Action action;
	};

	/// Sorted, the latest first. There are few: one per processor or sleeping process.
	std::vector<Due> due_;
	Fifo<Action> soon_;
};

class Processor
{
    public:
	explicit Processor(Engine &engine) : engine_(engine)
	{
	}

	/// Suspends the running task, which continues afterwards. Interrupts do not suspend each other.
	void interrupt(uint64_t cost_ns, Action effect)
	{
		if (interrupted_)
			interrupts_.push({ cost_ns, effect });
		else
			begin_interrupt({ cost_ns, effect });
	}
	void work(uint64_t cost_ns, Action effect)
	{
		if (interrupted_ || (working_ && !computing_)) {
			tasks_.push({ cost_ns, effect });
			return;
		}
		if (working_) {
			stale_ns_.push_back(ends_ns_);
			set_aside();
		}
		begin({ cost_ns, effect }, false);
	}
	/// Work that runs only when there is no other.
	void compute(uint64_t cost_ns, Action effect)
	{
		if (working_ || interrupted_)
			computations_.push({ cost_ns, effect });
		else
			begin({ cost_ns, effect }, true);
	}
	/// Time spent on work so far.
	uint64_t busy_ns() const
	{
		uint64_t ahead_ns = interrupted_ ? interrupt_ends_ns_ - engine_.now_ns : 0;

		return busy_ns_ - ahead_ns - left_ns();
	}

    private:
	struct Piece {
		uint64_t cost_ns;
		Action effect;
	};

	/// Remaining time of the running task.
	uint64_t left_ns() const
	{
		return !working_ ? 0 : interrupted_ ? left_ns_ : ends_ns_ - engine_.now_ns;
	}

	void begin_interrupt(Piece piece)
	{
		if (working_ && !interrupted_) {
			left_ns_ = left_ns();
			stale_ns_.push_back(ends_ns_);
		}
		interrupted_ = true;
		interrupt_effect_ = piece.effect;
		busy_ns_ += piece.cost_ns;
		interrupt_ends_ns_ = engine_.now_ns + piece.cost_ns;
		wait(piece.cost_ns, Action::call<&Processor::end_interrupt>(this));
	}

	void end_interrupt()
	{
		engine_.present = this;
		interrupt_effect_();
		if (!interrupts_.empty()) {
			begin_interrupt(interrupts_.pop());
			return;
		}
		if (working_ && computing_ && !tasks_.empty())
			set_aside();
		interrupted_ = false;
		if (working_)
			go_on(left_ns_);
		else
			next();
	}

	/// Suspends the running computation, which continues later.
	void set_aside()
	{
		uint64_t ns = left_ns();

		busy_ns_ -= ns;
		computations_.push({ ns, effect_ });
		working_ = false;
	}

	void next()
	{
		if (!tasks_.empty())
			begin(tasks_.pop(), false);
		else if (!computations_.empty())
			begin(computations_.pop(), true);
		else
			working_ = false;
	}

	void begin(Piece piece, bool computes)
	{
		working_ = true;
		computing_ = computes;
		effect_ = piece.effect;
		busy_ns_ += piece.cost_ns;
		go_on(piece.cost_ns);
	}

	void go_on(uint64_t ns)
	{
		ends_ns_ = engine_.now_ns + ns;
		wait(ns, Action::call<&Processor::end>(this));
	}

	void end()
	{
		auto stale = std::find(stale_ns_.begin(), stale_ns_.end(), engine_.now_ns);

		if (stale != stale_ns_.end()) { /* scheduled before an interruption */
			stale_ns_.erase(stale);
			return;
		}
		computing_ = false; /* work requested by the effect is queued behind it */
		engine_.present = this;
		effect_();
		next();
	}

	void wait(uint64_t ns, Action action)
	{
		if (ns)
			engine_.at(engine_.now_ns + ns, action);
		else
			engine_.soon(action);
	}

	Engine &engine_;
	Fifo<Piece> interrupts_, tasks_, computations_;
	Action effect_, interrupt_effect_;
	bool working_ = false, computing_ = false, interrupted_ = false;
	std::vector<uint64_t> stale_ns_; ///< original end times of interrupted work, to be ignored
	uint64_t busy_ns_ = 0, ends_ns_ = 0, left_ns_ = 0, interrupt_ends_ns_ = 0;
};

/// A process: a coroutine that starts when it is first resumed, and is destroyed with its owner.
class Task
{
    public:
	struct promise_type {
		Task get_return_object()
		{
			return Task(std::coroutine_handle<promise_type>::from_promise(*this));
		}
		std::suspend_always initial_suspend() noexcept
		{
			return {};
		}
		std::suspend_always final_suspend() noexcept
		{
			return {};
		}
		void return_void()
		{
		}
		void unhandled_exception()
		{
			throw;
		}
	};

	explicit Task(std::coroutine_handle<promise_type> handle) : handle_(handle)
	{
	}
	Task(const Task &) = delete;
	Task &operator=(const Task &) = delete;
	~Task()
	{
		handle_.destroy();
	}

	std::coroutine_handle<> handle() const
	{
		return handle_;
	}

    private:
	std::coroutine_handle<promise_type> handle_;
};

} // namespace tailgate::sim
