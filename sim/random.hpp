// SPDX-License-Identifier: GPL-2.0-only
// Random numbers: SplitMix64 (G. Steele, D. Lea, C. Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

namespace tailgate::sim
{

inline uint64_t mix(uint64_t x)
{
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
	x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
	return x ^ (x >> 31);
}

class Random
{
    public:
	explicit Random(uint64_t seed) : state_(mix(seed + 0x9e3779b97f4a7c15))
	{
	}

	uint64_t next()
	{
		return mix(state_ += 0x9e3779b97f4a7c15);
	}
	/// uniform in 0 to n - 1
	uint64_t below(uint64_t n)
	{
		return uint64_t((__uint128_t(next()) * n) >> 64);
	}
	/// uniform in (0, 1]
	double unit()
	{
		return double((next() >> 11) + 1) * 0x1p-53;
	}
	/// normal, mean 0, standard deviation 1 (Box and Muller)
	double normal()
	{
		double radius = std::sqrt(-2 * std::log(unit()));

		return radius * std::cos(2 * std::numbers::pi * unit());
	}

    private:
	uint64_t state_;
};

} // namespace tailgate::sim
