// SPDX-License-Identifier: GPL-2.0-only
// Invariants that hold at every step under any load: conservation of requests, the bounds, FIFO within a level and hardware
// queue, strict order of levels, a monotone clock.
#pragma once

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>

#include "c_interface.hpp"

namespace tailgate::sim
{

/// The promises of a scheduler that are checked; 0: no bound.
struct Promises {
	uint64_t inflight_max = 0; ///< most requests in the drive
	uint64_t inflight_kib_max =
		0; ///< most KiB in the drive when a background request is dispatched, unless it is alone
	bool levels = false; ///< it has K2's levels
	bool strict = true; ///< no request overtakes one of a more urgent level
};

class Checker
{
    public:
	explicit Checker(const Promises &promises) : promises_(promises)
	{
	}

	void inserted(const sim_request &rq, uint64_t now_ns)
	{
		clock(now_ns);
		made_++;
		if (promises_.levels) {
			order_[&rq] = sequence_++;
			queued_[level(rq)]++;
		}
	}

	/// A queued request was taken back, and will be inserted again in pieces.
	void withdrawn(const sim_request &rq)
	{
		made_--;
		if (promises_.levels) {
			order_.erase(&rq);
			queued_[level(rq)]--;
		}
	}

	/// The scheduler has dispatched a request.
	void chosen(const sim_request &rq)
	{
		if (!promises_.levels)
			return;
		check_order(rq);
		/* the floor dispatches background requests in spite of bounds */
		if (promises_.inflight_kib_max && promises_.strict && level(rq) == 8 &&
		    sectors_in_drive_ && rq.sectors &&
		    sectors_in_drive_ + rq.sectors > 2 * promises_.inflight_kib_max)
			fail("more bytes in the drive than inflight_kib_max");
	}

	/// A request was issued to the drive.
	void issued(const sim_request &rq, uint64_t now_ns)
	{
		clock(now_ns);
		sectors_in_drive_ += rq.sectors;
		if (++in_drive_ > promises_.inflight_max && promises_.inflight_max)
			fail("more requests in the drive than inflight_max");
	}

	void completed(const sim_request &rq, uint64_t now_ns)
	{
		clock(now_ns);
		ended_++;
		sectors_in_drive_ -= rq.sectors;
		if (!in_drive_--)
			fail("a request completed that was not in the drive");
	}

	void end() const
	{
		if (made_ != ended_)
			fail(std::to_string(made_) + " requests were made, " +
			     std::to_string(ended_) + " completed");
		if (sim_drive_overlaps())
			fail("a die served two operations at once");
	}

    private:
	/// K2's level: 0 to 7 real-time, 8 background.
	static uint32_t level(const sim_request &rq)
	{
		return SIM_IOPRIO_CLASS(rq.ioprio) == 1 ? rq.ioprio & 7 : 8;
	}

	[[noreturn]] static void fail(const std::string &what)
	{
		throw std::logic_error(what);
	}

	void clock(uint64_t now_ns)
	{
		if (now_ns < now_ns_)
			fail("the clock went back");
		now_ns_ = now_ns;
	}

	void check_order(const sim_request &rq)
	{
		uint64_t &last = last_[{ level(rq), rq.queue }];
		auto found = order_.find(&rq);

		if (found == order_.end())
			fail("a request was chosen that was not queued");
		for (uint32_t above = 0; promises_.strict && above < level(rq); above++)
			if (queued_[above])
				fail("a request overtook a more urgent level");
		if (last > found->second)
			fail("requests of a level and hardware queue changed their order");
		last = found->second;
		order_.erase(found);
		queued_[level(rq)]--;
	}

	Promises promises_;
	uint64_t now_ns_ = 0, sectors_in_drive_ = 0, made_ = 0, ended_ = 0, in_drive_ = 0,
		 sequence_ = 1;
	uint64_t queued_[9] = {};
	std::map<const sim_request *, uint64_t> order_;
	std::map<std::pair<uint32_t, uint32_t>, uint64_t> last_;
};

} // namespace tailgate::sim
