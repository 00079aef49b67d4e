// SPDX-License-Identifier: GPL-2.0-only
// fio's latency_target: searches for the largest queue depth at which enough requests meet the target (fio 3.33, io_u.c).
#pragma once

#include <algorithm>
#include <cstdint>

#include "simulate.hpp"

namespace tailgate::sim
{

class LatencyTarget
{
    public:
	enum class Verdict {
		GO_ON,
		DRAIN, ///< the depth was reduced: wait for all requests in flight, then begin_window()
		MEASURE, ///< the depth was found: drain, begin_window(), and start counting
		DONE,
		FAILED ///< missed with one request in flight: the job ends
	};

	explicit LatencyTarget(const Process &process)
	    : process_(process), on_(process.target_ns),
	      depth_(on_ || process.synchronous ? 1 : process.depth), high_(process.depth)
	{
	}

	bool on() const
	{
		return on_;
	}
	uint32_t depth() const
	{
		return depth_;
	}
	void note(uint64_t latency_ns)
	{
		ios_++;
		if (latency_ns <= process_.target_ns)
			return;
		late_++;
		/* without a percentile, each late request misses the target, also those that complete while others are waited for */
		if (process_.target_percentile < 100)
			return;
		if (depth_ == 1)
			failed_ = true;
		else
			lower();
	}
	void begin_window(uint64_t now_ns)
	{
		since_ns_ = now_ns;
		ios_ = late_ = 0;
		lowered_ = false;
	}
	/// To be called after each request.
	Verdict check(uint64_t now_ns)
	{
		if (failed_)
			return Verdict::FAILED;
		if (lowered_)
			return Verdict::DRAIN;
		if (now_ns - since_ns_ < process_.target_window_ns)
			return Verdict::GO_ON;
		double met = 100 * double(ios_ - late_) / double(std::max<uint64_t>(ios_, 1));
		if (met >= process_.target_percentile)
			return raise(now_ns);
		if (depth_ == 1)
			return Verdict::
				GO_ON; /* fio looks again after each request, over all since the window began */
		lower();
		return Verdict::DRAIN;
	}

    private:
	void lower()
	{
		high_ = depth_;
		if (depth_ == low_)
			low_--;
		depth_ = std::max((depth_ + low_) / 2, 1U);
		calm_ = 0;
		lowered_ = true;
	}

	Verdict raise(uint64_t now_ns)
	{
		uint32_t before = depth_;

		low_ = depth_;
		if (depth_ + 1 == high_ && ++calm_ >= 3) {
			high_++;
			calm_ = 0;
		}
		/* doubles the depth until the target is missed once, then bisects */
		depth_ = high_ != process_.depth ? (depth_ + high_) / 2 : depth_ * 2;
		depth_ = std::min(depth_, process_.depth);
		begin_window(now_ns);
		if (depth_ != before || process_.target_stays)
			return Verdict::GO_ON;
		if (measuring_)
			return Verdict::DONE;
		measuring_ = true;
		return Verdict::MEASURE;
	}

	const Process &process_;
	bool on_, measuring_ = false, lowered_ = false, failed_ = false;
	uint32_t depth_, low_ = 1, high_, calm_ = 0;
	uint64_t since_ns_ = 0, ios_ = 0, late_ = 0;
};

} // namespace tailgate::sim
