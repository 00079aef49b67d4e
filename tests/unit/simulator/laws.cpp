// SPDX-License-Identifier: GPL-2.0-only
// The simulator under sanitizers, with every law checked, on loads, drives and schedulers drawn at random.
//
//	laws FIRST_SEED COUNT	exits with 1 and names the seed when something does not hold
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "c_interface.hpp"
#include "random.hpp"
#include "simulate.hpp"

using namespace tailgate::sim;

namespace
{

constexpr uint64_t AUTO = KNOB_AUTO;

template <class T> T one_of(Random &random, std::initializer_list<T> values)
{
	return values.begin()[random.below(values.size())];
}

Process draw_process(Random &random, uint32_t flow)
{
	Process p;

	p.flow = flow;
	p.synchronous = random.below(3) == 0;
	p.depth = 1 + random.below(random.below(4) ? 40 : 200);
	p.ioprio = one_of<uint16_t>(random, { 0, 1 << 13, (1 << 13) | 3, 2 << 13, (3 << 13) | 7 });
	p.share[READ] = one_of<uint32_t>(random, { 0, 30, 100 });
	p.share[WRITE] = 100 - p.share[READ];
	p.sequential = random.below(3) == 0;
	for (BlockSizes &sizes : p.block_sizes) {
		sizes = { { one_of<uint32_t>(random, { 512, 4096, 65536 }), 100 } };
		if (random.below(4) == 0)
			sizes = { { 4096, 60 }, { 16384, 40 } };
	}
	p.distribution = one_of(random, { Distribution::RANDOM, Distribution::ZIPF,
					  Distribution::PARETO, Distribution::NORMAL });
	p.distribution_parameter = p.distribution == Distribution::NORMAL ? 20 : 0.3;
	p.exhaustive = p.block_sizes[READ].size() == 1 && p.block_sizes[WRITE].size() == 1 &&
		       p.block_sizes[READ] == p.block_sizes[WRITE] &&
		       p.distribution == Distribution::RANDOM && random.below(2);
	if (random.below(3) == 0)
		p.rate_ios = { 1000 + random.below(20000), 1000 + random.below(20000) };
	p.rate_poisson = random.below(2);
	p.think_ns = one_of<uint64_t>(random, { 0, 0, 10000, 2000000 });
	p.think_spin_ns = p.think_ns / one_of<uint64_t>(random, { 2, 1000000000 });
	p.think_blocks = 1 + random.below(3);
	p.through = random.below(4) == 0;
	p.start_ns = random.below(3) * random.below(1000000);
	p.ramp_ns = random.below(4) ? 0 : 1000000;
	p.ios_max = 1 + random.below(200);
	p.seed = random.next();
	if (random.below(6) == 0)
		for (uint64_t i = 0, at = 0; i < p.ios_max; i++, at += random.below(200000))
			p.trace.push_back({ at, random.below(2) ? READ : WRITE,
					    4096 * random.below(4000), 4096 });
	return p;
}

Config draw(Random &random)
{
	Config c;
	uint32_t processes = 1 + random.below(6);

	c.check = true;
	c.machine.cpus = 1 + random.below(5);
	for (uint32_t *cost :
	     { &c.machine.costs.submit, &c.machine.costs.schedule, &c.machine.costs.complete,
	       &c.machine.costs.reap, &c.machine.costs.wake, &c.machine.costs.run,
	       &c.machine.costs.timer })
		*cost = one_of<uint32_t>(random, { 0, 900, 7000 });
	c.machine.lone_requests_to_worker = random.below(3) == 0;
	c.machine.completes_where_submitted = random.below(2);
	c.device.drive = { { "capacity_mib", 16 },
			   { "queues", 1 + uint32_t(random.below(4)) },
			   { "slots", one_of<uint32_t>(random, { 1, 3, 256 }) },
			   { "dies", 1 + uint32_t(random.below(8)) },
			   { "placement", uint32_t(random.below(3)) },
			   { "admission", uint32_t(random.below(2)) },
			   { "buffer_kib", one_of<uint32_t>(random, { 64, 1024 }) },
			   { "max_kib", one_of<uint32_t>(random, { 16, 512 }) },
			   { "read_spread_percent", one_of<uint32_t>(random, { 0, 30 }) },
			   { "erase_kib", one_of<uint32_t>(random, { 0, 512 }) },
			   { "transfer_ns", one_of<uint32_t>(random, { 0, 300 }) } };
	c.device.depth = one_of<uint32_t>(random, { 1, 4, 64, 1023 });
	c.device.nr_requests = one_of<uint32_t>(random, { 0, 2, 4, 64, 1023 });
	c.device.max_sectors_kb = one_of<uint32_t>(random, { 0, 4, 64 });
	c.device.merges = random.below(2);
	c.device.attachment = one_of<uint32_t>(random, { 0, 0, 0, 1, 2, 3 });
	c.scheduler.name =
		one_of<const char *>(random, { "none", "k2", "mq-deadline", "kyber", "mqfq" });
	if (c.scheduler.name == "k2") {
		uint64_t most = std::min(c.device.drive["max_kib"],
					 c.device.max_sectors_kb ? c.device.max_sectors_kb : 512);

		c.scheduler.knobs = {
			{ "inflight_max", random.below(4) ? 1 + random.below(70) : AUTO },
			{ "inflight_kib_max", one_of<uint32_t>(random, { 0, 0, 1, 16, 200 }) },
			{ "split_kib",
			  std::min<uint64_t>(one_of<uint32_t>(random, { 0, 4, 12, 64 }), most) },
			{ "bound_when", random.below(2) },
			{ "bound_mode", random.below(2) },
			{ "write_debt_kib_max", one_of<uint64_t>(random, { 0, 0, 64, AUTO }) },
			{ "rt_target_us", one_of<uint64_t>(random, { 0, 0, 200, 3000, AUTO }) },
			{ "rt_target_percentile", random.below(2) },
			{ "be_floor_iops", one_of<uint32_t>(random, { 0, 0, 10, 100, 100000 }) },
			{ "rt_tags", random.below(91) }
		};
		if (random.below(3) == 0) /* about half of the knobs keep their defaults */
			std::erase_if(c.scheduler.knobs,
				      [&](const auto &) { return random.below(2); });
	}
	if (c.scheduler.name == "mqfq")
		c.scheduler.knobs = { { "d", 1 + random.below(70) },
				      { "t_kib", one_of<uint32_t>(random, { 0, 4, 1000 }) } };
	for (uint32_t i = 0; i < processes; i++)
		c.processes.push_back(draw_process(random, i));
	if (random.below(3) == 0)
		for (Process &p : c.processes) {
			p.balance_group = random.below(2);
			p.balance_weight = random.below(4); /* 0: runs at its own pace */
			p.balance_sleep_ns = one_of<uint64_t>(random, { 0, 0, 50000 });
			p.runtime_ns = one_of<uint64_t>(random, { 0, 3000000 });
		}
	if (random.below(3) == 0)
		for (Process &p : c.processes)
			p.ends_all = true;
	c.device.write_cache = 2 * random.below(2);
	return c;
}

} // namespace

int main(int argc, char **argv)
{
	uint64_t first = argc > 1 ? strtoull(argv[1], nullptr, 10) : 1;
	uint64_t count = argc > 2 ? strtoull(argv[2], nullptr, 10) : 100;

	for (uint64_t seed = first; seed < first + count; seed++) {
		Random random(seed);
		Config config = draw(random);

		try {
			Result result = simulate(config);

			for (const Process &p : config.processes) {
				uint64_t ios = 0;

				for (const DirectionResult &d : result.flows[p.flow].directions)
					ios += d.ios;
				bool may_end = p.runtime_ns || p.ends_all;

				if (!p.ramp_ns && (may_end ? ios > p.ios_max : ios != p.ios_max))
					throw std::logic_error(
						"a process did not get all of its requests");
			}
		} catch (const std::exception &e) {
			fprintf(stderr, "seed %llu: %s, %s\n", (unsigned long long)seed,
				config.scheduler.name.c_str(), e.what());
			return 1;
		}
	}
	return 0;
}
