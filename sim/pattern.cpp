// SPDX-License-Identifier: GPL-2.0-only
#include "pattern.hpp"

#include <algorithm>
#include <cmath>
#include <string>

namespace tailgate::sim
{

namespace
{

/// Number of terms of a zipf distribution that fio sums (lib/zipf.c).
constexpr uint64_t ZIPF_TERMS = 10'000'000;

uint32_t least_of(const BlockSizes &sizes)
{
	uint32_t least = 0, shares = 0;

	for (auto [bytes, share] : sizes) {
		if (!bytes || bytes % 512)
			throw UsageError("block size: expected a multiple of 512, got " +
					 std::to_string(bytes));
		least = least ? std::min(least, bytes) : bytes;
		shares += share;
	}
	if (shares != 100)
		throw UsageError("block sizes: expected shares of 100 % in all, got " +
				 std::to_string(shares));
	return least;
}

uint32_t most_of(const Process &process, unsigned direction)
{
	const BlockSizes &sizes = process.block_sizes[direction];

	return std::max(std::max_element(sizes.begin(), sizes.end())->first,
			process.bytes_most[direction]);
}

} // namespace

void WriteZones::check(const Process &process)
{
	if (!process.zone_bytes)
		return;
	if (!zone_bytes_)
		zone_bytes_ = process.zone_bytes;
	if (zone_bytes_ != process.zone_bytes)
		throw UsageError("zonesize: expected the same for all jobs, got " +
				 std::to_string(zone_bytes_) + " and " +
				 std::to_string(process.zone_bytes));
}

/// Chooses the drawn zone. If no more zones may be opened, an open one of this part, or the drawn one if none of this part is open.
/// Returns the offset behind the zone's written bytes.
uint64_t WriteZones::place(const Process &process, uint64_t begin, uint64_t size, uint64_t at,
			   uint32_t bytes)
{
	uint64_t zone_bytes = process.zone_bytes, zones = size / zone_bytes;
	uint64_t first = begin / zone_bytes, zone = first + std::min(at / zone_bytes, zones - 1);
	auto ours = [first, zones](uint64_t other) { return other - first < zones; };

	if (std::find(open_.begin(), open_.end(), zone) == open_.end()) {
		uint64_t choices = 0;

		if (process.zones_open_most && open_.size() >= process.zones_open_most)
			choices = std::count_if(open_.begin(), open_.end(), ours);
		if (choices) {
			auto chosen = std::find_if(open_.begin(), open_.end(), ours);

			for (uint64_t skip = at * choices / size; skip; skip--)
				chosen = std::find_if(chosen + 1, open_.end(), ours);
			zone = *chosen;
		} else {
			open_.push_back(zone);
		}
	}
	uint64_t &written = written_[zone];
	if (written + bytes > zone_bytes)
		written = 0; /* a full zone is reset; a drive without zones gets no command */
	uint64_t offset = zone * zone_bytes + written;
	written += bytes;
	if (written + bytes > zone_bytes)
		std::erase(open_, zone);
	return offset;
}

Pattern::Pattern(const Process &process, uint64_t drive_bytes, WriteZones &write_zones)
    : process_(process), write_zones_(write_zones), random_(process.seed), offset_(process.offset),
      bytes_(process.size), position_{}, scatter_(random_.next())
{
	write_zones.check(process);
	if (offset_ >= drive_bytes || (bytes_ && bytes_ > drive_bytes - offset_))
		throw UsageError("offset and size: expected a part of the drive's " +
				 std::to_string(drive_bytes) + " bytes");
	if (!bytes_)
		bytes_ = drive_bytes - offset_;
	for (unsigned d = 0; d < DIRECTIONS; d++) {
		least_[d] = least_of(process.block_sizes[d]);
		align_[d] = process.align ? process.align : least_[d];
		uint32_t most = most_of(process, d);
		if (process.share[d] && most > bytes_)
			throw UsageError("size: expected at least a request of " +
					 std::to_string(most) + " bytes");
		varies_[d] = process.block_sizes[d].size() > 1 || process.bytes_most[d];
		blocks_[d] = (bytes_ - std::min<uint64_t>(bytes_, most)) / align_[d] + 1;
		/* with a random map the last blocks must be visited too, by small requests */
		if (process.exhaustive && varies_[d])
			blocks_[d] = bytes_ / align_[d];
		if (process.strided_range && process.share[d] && most > process.strided_range)
			throw UsageError("zonerange: expected at least a request of " +
					 std::to_string(most) + " bytes");
	}
	if (process.strided_range && !process.strided_bytes)
		throw UsageError("zonesize: expected at least 1");
	if (process.distribution == Distribution::ZIPF) {
		for (uint64_t i = 1; i <= std::min(blocks_[READ], ZIPF_TERMS); i++)
			zeta_ += std::pow(1.0 / double(i), process.distribution_parameter);
		zeta2_ = 1 + std::pow(0.5, process.distribution_parameter);
	}
}

Direction Pattern::next_direction()
{
	if (!process_.share[WRITE])
		return READ;
	if (!process_.share[READ])
		return WRITE;
	return random_.below(100) < process_.share[READ] ? READ : WRITE;
}

uint32_t Pattern::next_size(Direction direction)
{
	const BlockSizes &sizes = process_.block_sizes[direction];

	if (!varies_[direction])
		return sizes.front().first;
	if (uint32_t most = process_.bytes_most[direction]) {
		/* as in fio: all sizes are equally likely if the largest is a multiple of the step */
		uint32_t step = sizes.front().first;
		uint64_t bytes = step + random_.below(most);

		return std::min<uint64_t>(bytes - bytes % step, most);
	}
	uint64_t drawn = random_.below(100);
	for (auto [bytes, share] : sizes) {
		if (drawn < share)
			return bytes;
		drawn -= share;
	}
	return sizes.back().first;
}

/// Returns the block, or the next one that was not visited in this pass.
uint64_t Pattern::unvisited(uint64_t block)
{
	if (!left_) {
		visited_.assign(std::max(blocks_[READ], blocks_[WRITE]), false);
		left_ = visited_.size();
	}
	while (visited_[block])
		block = block + 1 < visited_.size() ? block + 1 : 0;
	visited_[block] = true;
	left_--;
	return block;
}

/// Visits the further blocks of a request, up to the first visited one: fio shortens the request there. Returns its size.
uint32_t Pattern::visit_more(uint64_t block, uint32_t bytes, uint32_t unit)
{
	uint64_t end = std::min<uint64_t>(block + (bytes + unit - 1) / unit, visited_.size());
	uint64_t next = block + 1;

	for (; next < end && !visited_[next]; next++) {
		visited_[next] = true;
		left_--;
	}
	return uint32_t(std::min<uint64_t>(bytes, (next - block) * unit));
}

uint64_t Pattern::next_block(Direction direction)
{
	uint64_t n = blocks_[direction];
	double parameter = process_.distribution_parameter;

	switch (process_.distribution) {
	case Distribution::RANDOM:
		return process_.exhaustive ? unvisited(random_.below(n)) % n : random_.below(n);
	case Distribution::ZIPF: {
		/* J. Gray et al., "Quickly generating billion-record synthetic databases", SIGMOD 1994 */
		double alpha = 1 / (1 - parameter), uniform = random_.unit(),
		       scaled = uniform * zeta_;
		double eta = (1 - std::pow(2.0 / double(n), 1 - parameter)) / (1 - zeta2_ / zeta_);
		uint64_t rank =
			scaled < 1 ? 0 :
			scaled < zeta2_ ?
				     1 :
				     uint64_t(double(n) * std::pow(eta * uniform - eta + 1, alpha));

		return (mix(rank) + scatter_) % n;
	}
	case Distribution::PARETO: {
		double power = std::log(parameter) / std::log(1 - parameter);

		return (mix(uint64_t(double(n - 1) * std::pow(random_.unit(), power))) + scatter_) %
		       n;
	}
	case Distribution::NORMAL: {
		double middle = double(n) / 2, deviation = double(n) * parameter / 100;

		return uint64_t(
			std::clamp(middle + deviation * random_.normal(), 0.0, double(n - 1)));
	}
	case Distribution::ZONED: {
		uint64_t drawn = random_.below(100);

		for (const ZoneShare &zone : process_.zones[direction]) {
			if (drawn < zone.percent) {
				uint64_t first = zone.begin / align_[direction];
				uint64_t blocks = zone.end / align_[direction] - first;

				return std::min(
					first + random_.below(std::max<uint64_t>(blocks, 1)),
					n - 1);
			}
			drawn -= zone.percent;
		}
	}
	}
	return 0;
}

void Pattern::restart(bool the_same)
{
	if (the_same) {
		random_ = Random(process_.seed);
		scatter_ = random_.next();
	}
	position_ = {};
	visited_.clear();
	left_ = 0;
	zone_at_ = zone_done_bytes_ = 0;
}

/// Sequential with a step between requests (rw=read:-8k): wraps around at both ends.
Access Pattern::next_stepped(Direction direction)
{
	uint32_t bytes = next_size(direction);
	uint64_t at = position_[direction];

	if (at) {
		at += uint64_t(process_.step); /* modulo 2^64: positions below 0 become large */
		if (at >= bytes_)
			at = process_.step > 0 ? 0 : bytes_ + uint64_t(process_.step);
	}
	if (at > bytes_ || bytes > bytes_ - at)
		at = 0;
	position_[direction] = at + bytes;
	return { direction, offset_ + at, bytes };
}

/// zonemode=strided: stays within a range for strided_bytes, then continues in the next range, after a gap.
Access Pattern::next_strided(Direction direction)
{
	uint32_t bytes = next_size(direction);
	uint64_t range = process_.strided_range;

	if (zone_done_bytes_ >= process_.strided_bytes) {
		zone_done_bytes_ = 0;
		zone_at_ += range + process_.strided_gap;
		position_ = { zone_at_, zone_at_ };
	}
	if (zone_at_ + bytes > bytes_)
		position_ = { zone_at_ = 0, 0 };
	uint64_t end = std::min(zone_at_ + range, bytes_), at = position_[direction];
	if (!process_.sequential)
		at = zone_at_ + random_.below((end - zone_at_ - bytes) / align_[direction] + 1) *
					align_[direction];
	else if (at + bytes > end)
		at = zone_at_;
	position_[direction] = at + bytes;
	zone_done_bytes_ += bytes;
	return { direction, offset_ + at, bytes };
}

Access Pattern::next(Direction direction)
{
	if (process_.strided_range)
		return next_strided(direction);
	if (process_.step)
		return next_stepped(direction);
	uint32_t bytes = next_size(direction);

	if (!process_.sequential) {
		uint64_t block = next_block(direction), at = block * align_[direction];

		if (process_.zone_bytes)
			return { direction,
				 write_zones_.place(process_, offset_, bytes_, at, bytes), bytes };
		if (process_.exhaustive && varies_[direction]) {
			while (at + bytes > bytes_)
				bytes = next_size(direction);
			bytes = visit_more(block, bytes, align_[direction]);
		}
		return { direction, offset_ + at, bytes };
	}
	if (position_[direction] + bytes > bytes_)
		position_[direction] = 0;
	uint64_t at = position_[direction];
	position_[direction] += bytes;
	if (process_.zone_bytes)
		return { direction, write_zones_.place(process_, offset_, bytes_, at, bytes),
			 bytes };
	return { direction, offset_ + at, bytes };
}

} // namespace tailgate::sim
