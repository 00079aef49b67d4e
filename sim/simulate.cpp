// SPDX-License-Identifier: GPL-2.0-only
#include "simulate.hpp"

#include <deque>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>

#include "block_layer.hpp"
#include "engine.hpp"
#include "fio_process.hpp"

namespace tailgate::sim
{

namespace
{

/// Most events of the drive without progress of time; more mean a load that never ends.
constexpr uint64_t AT_ONCE_MAX = 20'000'000;

/// Latencies in the block layer by flow and direction, while the flow was counted.
class FlowObserver final : public BlockLayer::Observer
{
    public:
	struct Direct {
		Latencies block, scheduler;
	};

	explicit FlowObserver(uint32_t flows) : flows_(flows), first_(flows)
	{
	}

	void add(uint32_t flow, const FioProcess *process)
	{
		if (!first_[flow])
			first_[flow] = process;
	}
	const Direct &of(uint32_t flow, Direction direction) const
	{
		return flows_[flow][direction];
	}

	void completed(uint32_t flow, sim_op op, uint64_t block_ns, uint64_t scheduler_ns) override
	{
		if (!first_[flow]->counts())
			return;
		Direct &direct = flows_[flow][op == SIM_READ ? READ : WRITE];
		direct.block.add(block_ns);
		direct.scheduler.add(scheduler_ns);
	}

    private:
	std::vector<std::array<Direct, DIRECTIONS>> flows_;
	std::vector<const FioProcess *>
		first_; ///< first process of each flow: it decides when the flow is counted
};

void check(const Config &config)
{
	if (config.processes.empty())
		throw UsageError("processes: expected at least one");
	if (!config.machine.cpus || config.machine.cpus > 64)
		throw UsageError("cpus: expected 1 to 64, got " +
				 std::to_string(config.machine.cpus));
	if (!config.machine.tick_ns)
		throw UsageError("tick_ns: expected at least 1");
	if (config.cgroups.empty())
		throw UsageError("cgroups: expected at least the root");
	for (uint32_t i = 0; i < config.cgroups.size(); i++) {
		if (config.cgroups[i].parent >= std::max(i, 1U))
			throw UsageError("cgroups: expected a parent with a lower number");
		if (!config.cgroups[i].weight || config.cgroups[i].weight > 10'000)
			throw UsageError("cgroups: expected a weight, 1 to 10000");
	}
	uint32_t write_cache = config.device.write_cache;
	if (write_cache > 2)
		throw UsageError("write_cache: expected 0 to 2, got " +
				 std::to_string(write_cache));
	bool ends = config.limit_ns, first = false;
	for (const Process &process : config.processes) {
		if (process.cpu != NO_CPU && process.cpu >= config.machine.cpus)
			throw UsageError("cpus_allowed: there is no processor " +
					 std::to_string(process.cpu));
		if (process.cgroup >= config.cgroups.size())
			throw UsageError("cgroup: there is no number " +
					 std::to_string(process.cgroup));
		if (write_cache == 1 && process.through &&
		    (process.share[WRITE] || !process.trace.empty()))
			throw UsageError(
				"sync: a write cache without FUA is not modelled; expected write_cache 0 or 2, got 1");
		if (process.passthrough && config.scheduler.name != "none")
			throw UsageError(
				"ioengine: no scheduler sees what io_uring_cmd sends; expected none, got " +
				config.scheduler.name);
		if (process.target_ns && process.synchronous)
			throw UsageError("latency_target: expected an asynchronous engine");
		if (process.verify_backlog && !process.verify_batch)
			throw UsageError("verify_backlog_batch: expected at least 1");
		if (!process.loops)
			throw UsageError("loops: expected at least 1");
		first = first || !process.flow;
		ends = ends || process.ends_all || process.runtime_ns || process.ios_max ||
		       process.bytes_max || !process.trace.empty();
	}
	if (!first)
		throw UsageError("flow: expected at least one process with 0");
	if (!ends)
		throw UsageError(
			"nothing ends the simulation: expected a runtime, a number of requests, or limit_ns");
}

uint64_t busy_ns(const std::vector<Processor> &processors)
{
	uint64_t sum = 0;

	for (const Processor &processor : processors)
		sum += processor.busy_ns();
	return sum;
}

DirectionResult direction_result(const Latencies &latencies, uint64_t bytes,
				 const FlowObserver::Direct &seen)
{
	DirectionResult result;

	result.ios = latencies.count();
	result.bytes = bytes;
	result.mean_ns = latencies.mean_ns();
	result.min_ns = latencies.min_ns();
	result.max_ns = latencies.max_ns();
	result.latency = latencies.histogram();
	result.block = seen.block.histogram();
	result.scheduler = seen.scheduler.histogram();
	return result;
}

/// Results by I/O priority, for priorities with a request in this direction.
std::vector<PriorityResult>
priority_results(const std::map<uint16_t, std::array<Latencies, DIRECTIONS>> &by_priority,
		 unsigned direction)
{
	std::vector<PriorityResult> results;

	for (const auto &[ioprio, latencies] : by_priority) {
		const Latencies &its = latencies[direction];

		if (its.count())
			results.push_back({ ioprio, its.count(), its.mean_ns(), its.min_ns(),
					    its.max_ns(), its.histogram() });
	}
	return results;
}

} // namespace

Result simulate(const Config &config, uint64_t every_ns, const Watcher &watcher)
{
	check(config);
	if (watcher && !every_ns)
		throw UsageError("every_ns: expected a time");
	if (watcher && config.check)
		throw UsageError("check: expected no watcher, as it changes what is checked");
	uint32_t flows = 0;
	for (const Process &process : config.processes)
		flows = std::max(flows, process.flow + 1);

	Engine engine;
	std::vector<Processor> processors(config.machine.cpus, Processor(engine));
	FlowObserver observer(flows);
	BlockLayer layer(engine, processors, config, observer);
	Stage stage{ engine, processors, layer, config };
	std::deque<FioProcess> processes;
	for (const Process &process : config.processes) {
		processes.emplace_back(stage, process, processes.size());
		observer.add(process.flow, &processes.back());
		stage.processes.push_back(&processes.back());
		stage.running++;
		stage.running_in_wave[process.wave]++;
		stage.running_in_flow[process.flow]++;
	}
	for (FioProcess &process : processes)
		process.start();

	const FioProcess &first =
		*std::find_if(processes.begin(), processes.end(),
			      [](const FioProcess &p) { return p.process().flow == 0; });
	uint64_t busy_at_begin = 0, busy_at_end = 0, counted_from = 0;
	uint64_t at_once = 0;
	bool counting = false, counted = false;
	uint64_t watch_ns = watcher ? every_ns : Engine::NEVER;
	for (;;) {
		engine.settle();
		if (!counting && first.counts()) {
			counting = true;
			counted_from = engine.now_ns;
			busy_at_begin = busy_ns(processors);
		} else if (counting && !counted && first.ended()) {
			counted = true;
			busy_at_end = busy_ns(processors);
		}
		uint64_t drive_ns = layer.next_ns();
		uint64_t next_ns = std::min(engine.next_ns(), drive_ns);
		if (!stage.running && layer.submitted == layer.completed)
			break;
		if (next_ns == Engine::NEVER)
			throw std::logic_error("the simulation stood still with " +
					       std::to_string(stage.running) +
					       " processes waiting");
		if (config.limit_ns && next_ns > config.limit_ns) {
			engine.now_ns = config.limit_ns;
			break;
		}
		if (next_ns > watch_ns) {
			engine.now_ns = watch_ns;
			watch_ns += every_ns;
			layer.configure(watcher(layer.counted()));
			continue;
		}
		at_once = next_ns > engine.now_ns ? 0 : at_once + 1;
		if (at_once == AT_ONCE_MAX)
			throw UsageError(
				"time stands still: expected a drive or processors that take some");
		engine.now_ns = std::max(engine.now_ns, next_ns);
		if (drive_ns <= engine.now_ns)
			layer.advance();
	}
	Result result;
	result.flows.resize(flows);
	for (uint32_t flow = 0; flow < flows; flow++) {
		FlowResult &out = result.flows[flow];
		std::array<Latencies, DIRECTIONS> latencies;
		std::array<uint64_t, DIRECTIONS> bytes{};
		std::map<uint16_t, std::array<Latencies, DIRECTIONS>> by_priority;
		uint32_t n = 0;

		for (const FioProcess &process : processes) {
			if (process.process().flow != flow)
				continue;
			if (process.counted()) {
				uint64_t end = process.ended() ? process.ended_ns() : engine.now_ns;
				n++;
				out.runtime_ns += double(end - process.began_ns());
			}
			for (unsigned d = 0; d < DIRECTIONS; d++) {
				latencies[d].add(process.latencies()[d]);
				bytes[d] += process.bytes()[d];
			}
			for (const auto &[ioprio, its] : process.by_priority())
				for (unsigned d = 0; d < DIRECTIONS; d++)
					by_priority[ioprio][d].add(its[d]);
		}
		if (n)
			out.runtime_ns /= n;
		for (unsigned d = 0; d < DIRECTIONS; d++) {
			out.directions[d] = direction_result(latencies[d], bytes[d],
							     observer.of(flow, Direction(d)));
			out.directions[d].priorities = priority_results(by_priority, d);
		}
	}
	if (!counted)
		busy_at_end = busy_ns(processors);
	uint64_t counted_to = counted ? first.ended_ns() : engine.now_ns;
	if (counting && counted_to > counted_from)
		result.idle = 1 - double(busy_at_end - busy_at_begin) /
					  double(counted_to - counted_from) /
					  double(processors.size());
	result.now_ns = engine.now_ns;
	result.ios = layer.completed;
	result.events = engine.events;
	result.found = layer.found(config.scheduler);
	result.state = layer.state();
	const flash_statistics &drive = layer.statistics();
	result.drive = {
		{ "commands", drive.commands },	  { "slots_used_max", drive.slots_used_max },
		{ "die_reads", drive.die_reads }, { "programs", drive.programs },
		{ "erases", drive.erases },	  { "held", drive.held }
	};
	if (config.check && !stage.running)
		layer.check_end();
	return result;
}

} // namespace tailgate::sim
