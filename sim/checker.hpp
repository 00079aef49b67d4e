// SPDX-License-Identifier: GPL-2.0-only
// Invariants that hold at every step under any load: conservation of requests, a monotone clock, and for a scheduler with K2's
// levels: FIFO within a level and hardware queue, the order of levels, the fixed bounds, and how often the floor may go against
// the order and the bound on bytes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "c_interface.hpp"

namespace tailgate::sim
{

class Checker
{
    public:
	/// Promises of a scheduler with K2's levels; of another, none.
	explicit Checker(const std::optional<sim_promises> &promises) : promises_(promises)
	{
	}

	void inserted(const sim_request &rq, uint64_t now_ns)
	{
		clock(now_ns);
		made_++;
		if (!promises_)
			return;
		order_[&rq] = sequence_++;
		/* a background request is due an interval after the first came; the pieces of a split one continue its wait */
		if (!queued_[level(rq)]++ && level(rq) == BACKGROUND &&
		    !std::exchange(keeps_turn_, false))
			excepted_ns_[0] = excepted_ns_[1] = now_ns;
	}

	/// A queued request was taken back, and will be inserted again in pieces.
	void withdrawn(const sim_request &rq)
	{
		made_--;
		if (!promises_)
			return;
		order_.erase(&rq);
		if (!--queued_[level(rq)] && level(rq) == BACKGROUND)
			keeps_turn_ = true;
	}

	/// The scheduler has dispatched a request.
	void chosen(const sim_request &rq, uint64_t now_ns)
	{
		clock(now_ns);
		if (!promises_)
			return;
		check_fifo(rq);
		check_bounds(rq, now_ns);
		queued_[level(rq)]--;
		chosen_++;
		chosen_sectors_ += rq.sectors;
		if (level(rq) == BACKGROUND)
			return;
		real_time_chosen_++;
		real_time_ns_ = now_ns;
		overtook_ = false;
	}

	/// A request was issued to the drive.
	void issued(uint64_t now_ns)
	{
		clock(now_ns);
		in_drive_++;
	}

	void completed(const sim_request &rq, uint64_t now_ns)
	{
		clock(now_ns);
		ended_++;
		if (!in_drive_--)
			fail("a request completed that was not in the drive");
		if (!promises_)
			return;
		chosen_--;
		chosen_sectors_ -= rq.sectors;
		real_time_chosen_ -= level(rq) != BACKGROUND;
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
	static constexpr uint32_t BACKGROUND = 8;

	/// K2's level: 0 to 7 real-time, 8 background.
	static uint32_t level(const sim_request &rq)
	{
		return SIM_IOPRIO_CLASS(rq.ioprio) == 1 ? rq.ioprio & 7 : BACKGROUND;
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

	void check_fifo(const sim_request &rq)
	{
		uint64_t &last = last_[{ level(rq), rq.queue }];
		auto found = order_.find(&rq);

		if (found == order_.end())
			fail("a request was chosen that was not queued");
		if (last > found->second)
			fail("requests of a level and hardware queue changed their order");
		last = found->second;
		order_.erase(found);
	}

	void check_bounds(const sim_request &rq, uint64_t now_ns)
	{
		bool background = level(rq) == BACKGROUND, overtakes = more_urgent_waits(level(rq));
		bool bounded = bounds_in_force(now_ns);

		if (bounded && promises_->inflight_max && chosen_ >= promises_->inflight_max)
			fail("more requests in the drive than inflight_max");
		if (overtakes && !(background && promises_->floor_ns))
			fail("a request overtook a more urgent level");
		if (overtakes && overtook_)
			fail("be_floor_iops: two requests overtook a waiting real-time request");
		bool too_large = bounded && background && promises_->inflight_kib_max &&
				 chosen_sectors_ && rq.sectors &&
				 chosen_sectors_ + rq.sectors > 2 * promises_->inflight_kib_max;
		if (too_large && !promises_->floor_ns)
			fail("more bytes in the drive than inflight_kib_max");
		if (background)
			overtook_ = overtakes;
		if (overtakes || too_large)
			check_floor(now_ns);
	}

	/// The floor catches up by one request at most: the second next one is dispatched an interval later.
	void check_floor(uint64_t now_ns)
	{
		if (now_ns < excepted_ns_[0] + promises_->floor_ns)
			fail("more exceptions from order and inflight_kib_max than be_floor_iops");
		excepted_ns_[0] = excepted_ns_[1];
		excepted_ns_[1] = now_ns;
	}

	bool more_urgent_waits(uint32_t level) const
	{
		return std::any_of(queued_, queued_ + level, [](uint64_t n) { return n > 0; });
	}

	bool bounds_in_force(uint64_t now_ns) const
	{
		return !promises_->grace_ns || more_urgent_waits(BACKGROUND) || real_time_chosen_ ||
		       (real_time_ns_ && now_ns - real_time_ns_ <= promises_->grace_ns);
	}

	std::optional<sim_promises> promises_;
	uint64_t now_ns_ = 0, made_ = 0, ended_ = 0, in_drive_ = 0, sequence_ = 1;
	/// Chosen and not completed: as the scheduler counts what is in the drive.
	uint64_t chosen_ = 0, chosen_sectors_ = 0, real_time_chosen_ = 0;
	uint64_t real_time_ns_ = 0; ///< when a real-time request was last chosen
	/// The latest background request overtook a real-time one, and no real-time request was chosen since.
	bool overtook_ = false;
	/// No background request waits but one that is being split.
	bool keeps_turn_ = false;
	/// When the latest two background requests were chosen against order or bytes.
	uint64_t excepted_ns_[2] = {};
	uint64_t queued_[BACKGROUND + 1] = {};
	std::map<const sim_request *, uint64_t> order_;
	std::map<std::pair<uint32_t, uint32_t>, uint64_t> last_;
};

} // namespace tailgate::sim
