// SPDX-License-Identifier: GPL-2.0-only
// The sequence of a fio process's requests: direction, offset and size.
#pragma once

#include <array>
#include <cstdint>
#include <map>
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

/// Zones of the drive that all processes with zonemode=zbd write (fio 3.33, zbd.c, for a drive that has none).
class WriteZones
{
    public:
	/// Throws UsageError if zones of the process are not as large as those of others.
	void check(const Process &process);
	/// Returns the offset of a write whose drawn position is `at`, within `size` bytes from `begin`.
	uint64_t place(const Process &process, uint64_t begin, uint64_t size, uint64_t at,
		       uint32_t bytes);

    private:
	std::map<uint64_t, uint64_t> written_; ///< bytes written, by zone that was ever open
	std::vector<uint64_t> open_;
	uint64_t zone_bytes_ = 0;
};

class Pattern
{
    public:
	/// Throws UsageError if the process cannot run on a drive of this size.
	Pattern(const Process &process, uint64_t drive_bytes, WriteZones &write_zones);

	Direction next_direction();
	Access next(Direction direction);
	/// Starts again at the first request, with the same random numbers or with new ones.
	void restart(bool the_same);
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
	uint32_t visit_more(uint64_t block, uint32_t bytes, uint32_t unit);
	Access next_stepped(Direction direction);
	Access next_strided(Direction direction);

	const Process &process_;
	WriteZones &write_zones_;
	Random random_;
	uint64_t offset_, bytes_;
	std::array<uint32_t, DIRECTIONS> least_;
	std::array<uint64_t, DIRECTIONS> align_, blocks_, position_;
	std::vector<bool> visited_; ///< blocks visited in this pass, if each is to be visited once
	uint64_t left_ = 0;
	std::array<bool, DIRECTIONS> varies_; ///< there is more than one request size
	uint64_t zone_at_ = 0, zone_done_bytes_ = 0; ///< for zonemode=strided
	double zeta_ = 0, zeta2_ = 0; ///< constants of the zipf distribution
	uint64_t scatter_;
};

} // namespace tailgate::sim
