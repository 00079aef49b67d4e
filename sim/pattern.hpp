// SPDX-License-Identifier: GPL-2.0-only
// What a fio process asks for next: direction, place and size.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "random.hpp"
#include "simulate.hpp"

namespace tailgate::sim
{

struct Access {
	Direction direction;
	uint64_t offset;
	uint32_t bytes;
};

class Pattern
{
    public:
	/// UsageError if the process cannot run on a drive of this size.
	Pattern(const Process &process, uint64_t drive_bytes);

	Direction next_direction();
	Access next(Direction direction);
	uint32_t least_bytes(Direction direction) const
	{
		return least_[direction];
	}
	Random &random()
	{
		return random_;
	}

    private:
	uint32_t next_size(Direction direction);
	uint64_t next_block(Direction direction);
	uint64_t unvisited(uint64_t block);

	const Process &process_;
	Random random_;
	uint64_t offset_, bytes_;
	std::array<uint32_t, DIRECTIONS> least_;
	std::array<uint64_t, DIRECTIONS> align_, blocks_, position_;
	std::vector<bool> visited_; ///< blocks, where each is to be taken once a pass
	uint64_t left_ = 0;
	double zeta_ = 0, zeta2_ = 0; ///< of the zipf distribution
	uint64_t scatter_;
};

} // namespace tailgate::sim
