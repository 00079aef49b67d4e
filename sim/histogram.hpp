// SPDX-License-Identifier: GPL-2.0-only
// Latencies in fio's bins (stat.c, FIO_IO_U_PLAT_BITS 6), so that percentiles have the same resolution as fio's.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <vector>

#include "simulate.hpp"

namespace tailgate::sim
{

class Latencies
{
    public:
	void add(uint64_t ns)
	{
		uint32_t bin = bin_of(ns);

		if (bin >= bins_.size())
			bins_.resize(bin + 1);
		bins_[bin]++;
		count_++;
		sum_ns_ += ns;
		min_ns_ = std::min(min_ns_, ns);
		max_ns_ = std::max(max_ns_, ns);
	}

	void add(const Latencies &other)
	{
		if (bins_.size() < other.bins_.size())
			bins_.resize(other.bins_.size());
		for (size_t bin = 0; bin < other.bins_.size(); bin++)
			bins_[bin] += other.bins_[bin];
		count_ += other.count_;
		sum_ns_ += other.sum_ns_;
		min_ns_ = std::min(min_ns_, other.min_ns_);
		max_ns_ = std::max(max_ns_, other.max_ns_);
	}

	uint64_t count() const
	{
		return count_;
	}
	double mean_ns() const
	{
		return count_ ? double(sum_ns_) / double(count_) : 0;
	}
	double min_ns() const
	{
		return count_ ? double(min_ns_) : 0;
	}
	double max_ns() const
	{
		return double(max_ns_);
	}

	Histogram histogram() const
	{
		Histogram h;

		for (uint32_t bin = 0; bin < bins_.size(); bin++) {
			if (bins_[bin]) {
				h.values_ns.push_back(middle_of(bin));
				h.counts.push_back(bins_[bin]);
			}
		}
		return h;
	}

    private:
	static constexpr uint32_t BITS = 6;

	static uint32_t bin_of(uint64_t ns)
	{
		uint32_t highest = ns ? 63 - std::countl_zero(ns) : 0;
		uint32_t dropped = highest > BITS ? highest - BITS : 0;

		if (!dropped)
			return ns;
		return ((dropped + 1) << BITS) + ((ns >> dropped) & ((1U << BITS) - 1));
	}

	static uint64_t middle_of(uint32_t bin)
	{
		uint32_t dropped;

		if (bin < 2U << BITS)
			return bin;
		dropped = (bin >> BITS) - 1;
		return ((uint64_t(1) << BITS) + bin % (1U << BITS)) * (uint64_t(1) << dropped) +
		       (uint64_t(1) << dropped) / 2;
	}

	std::vector<uint64_t> bins_;
	uint64_t count_ = 0, sum_ns_ = 0, max_ns_ = 0;
	uint64_t min_ns_ = std::numeric_limits<uint64_t>::max();
};

} // namespace tailgate::sim
