// SPDX-License-Identifier: GPL-2.0-only
#include "pattern.hpp"

#include <algorithm>
#include <cmath>
#include <string>

namespace tailgate::sim
{

namespace
{

/// fio sums so many terms of a zipf distribution (lib/zipf.c).
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

uint32_t most_of(const BlockSizes &sizes)
{
	return std::max_element(sizes.begin(), sizes.end())->first;
}

} // namespace

Pattern::Pattern(const Process &process, uint64_t drive_bytes)
    : process_(process), random_(process.seed), offset_(process.offset),
      bytes_(process.size), position_{}, scatter_(random_.next())
{
	if (offset_ >= drive_bytes || (bytes_ && bytes_ > drive_bytes - offset_))
		throw UsageError("offset and size: expected a part of the drive's " +
				 std::to_string(drive_bytes) + " bytes");
	if (!bytes_)
		bytes_ = drive_bytes - offset_;
	for (unsigned d = 0; d < DIRECTIONS; d++) {
		least_[d] = least_of(process.block_sizes[d]);
		align_[d] = process.align ? process.align : least_[d];
		if (process.share[d] && most_of(process.block_sizes[d]) > bytes_)
			throw UsageError("size: expected at least a request of " +
					 std::to_string(most_of(process.block_sizes[d])) +
					 " bytes");
		blocks_[d] =
			(bytes_ - std::min<uint64_t>(bytes_, most_of(process.block_sizes[d]))) /
				align_[d] +
			1;
	}
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

	if (sizes.size() == 1)
		return sizes.front().first;
	uint64_t drawn = random_.below(100);
	for (auto [bytes, share] : sizes) {
		if (drawn < share)
			return bytes;
		drawn -= share;
	}
	return sizes.back().first;
}

/// The block, or the next one that this pass has not had.
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
	}
	return 0;
}

Access Pattern::next(Direction direction)
{
	uint32_t bytes = next_size(direction);

	if (!process_.sequential)
		return { direction, offset_ + next_block(direction) * align_[direction], bytes };
	if (position_[direction] + bytes > bytes_)
		position_[direction] = 0;
	uint64_t at = position_[direction];
	position_[direction] += bytes;
	return { direction, offset_ + at, bytes };
}

} // namespace tailgate::sim
