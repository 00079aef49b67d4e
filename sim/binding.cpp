// SPDX-License-Identifier: GPL-2.0-only
// The Python module tailgate_sim._core: the types and functions of simulate.hpp, with the same names.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "simulate.hpp"

namespace nb = nanobind;
using namespace tailgate::sim;

namespace
{

using Counts = nb::ndarray<nb::numpy, uint64_t, nb::ndim<1>>;

/// A copy of the values as an array owned by Python.
Counts to_numpy(const std::vector<uint64_t> &values)
{
	auto *data = new std::vector<uint64_t>(values);
	nb::capsule owner(data,
			  [](void *p) noexcept { delete static_cast<std::vector<uint64_t> *>(p); });

	return Counts(data->data(), { data->size() }, owner);
}

} // namespace

NB_MODULE(_core, m)
{
	nb::exception<UsageError>(m, "UsageError", PyExc_ValueError);
	nb::enum_<Direction>(m, "Direction").value("READ", READ).value("WRITE", WRITE);
	nb::enum_<Distribution>(m, "Distribution")
		.value("RANDOM", Distribution::RANDOM)
		.value("ZIPF", Distribution::ZIPF)
		.value("PARETO", Distribution::PARETO)
		.value("NORMAL", Distribution::NORMAL)
		.value("ZONED", Distribution::ZONED);
	nb::enum_<Ends>(m, "Ends")
		.value("GROUP", Ends::GROUP)
		.value("STARTED", Ends::STARTED)
		.value("ALL", Ends::ALL);
	nb::class_<ZoneShare>(m, "ZoneShare")
		.def(nb::init<uint32_t, uint64_t, uint64_t>(), nb::arg("percent"), nb::arg("begin"),
		     nb::arg("end"));
	nb::class_<PriorityShare>(m, "PriorityShare")
		.def(nb::init<uint32_t, uint32_t, uint16_t>(), nb::arg("bytes"), nb::arg("percent"),
		     nb::arg("ioprio"));
	nb::class_<TracedIo>(m, "TracedIo")
		.def(nb::init<uint64_t, Direction, uint64_t, uint32_t>(), nb::arg("at_ns"),
		     nb::arg("direction"), nb::arg("offset"), nb::arg("bytes"))
		.def_rw("at_ns", &TracedIo::at_ns)
		.def_rw("direction", &TracedIo::direction)
		.def_rw("offset", &TracedIo::offset)
		.def_rw("bytes", &TracedIo::bytes);
	nb::class_<Process>(m, "Process")
		.def(nb::init<>())
		.def_rw("flow", &Process::flow)
		.def_rw("synchronous", &Process::synchronous)
		.def_rw("depth", &Process::depth)
		.def_rw("cpu", &Process::cpu)
		.def_rw("ioprio", &Process::ioprio)
		.def_rw("cgroup", &Process::cgroup)
		.def_rw("share", &Process::share)
		.def_rw("sequential", &Process::sequential)
		.def_rw("step", &Process::step)
		.def_rw("offset", &Process::offset)
		.def_rw("size", &Process::size)
		.def_rw("block_sizes", &Process::block_sizes)
		.def_rw("bytes_most", &Process::bytes_most)
		.def_rw("align", &Process::align)
		.def_rw("distribution", &Process::distribution)
		.def_rw("distribution_parameter", &Process::distribution_parameter)
		.def_rw("zones", &Process::zones)
		.def_rw("strided_range", &Process::strided_range)
		.def_rw("strided_bytes", &Process::strided_bytes)
		.def_rw("strided_gap", &Process::strided_gap)
		.def_rw("zone_bytes", &Process::zone_bytes)
		.def_rw("zones_open_most", &Process::zones_open_most)
		.def_rw("exhaustive", &Process::exhaustive)
		.def_rw("rate_bytes", &Process::rate_bytes)
		.def_rw("rate_ios", &Process::rate_ios)
		.def_rw("rate_poisson", &Process::rate_poisson)
		.def_rw("rate_least_bytes", &Process::rate_least_bytes)
		.def_rw("rate_least_ios", &Process::rate_least_ios)
		.def_rw("rate_cycle_ns", &Process::rate_cycle_ns)
		.def_rw("offload", &Process::offload)
		.def_rw("priorities", &Process::priorities)
		.def_rw("balance_group", &Process::balance_group)
		.def_rw("balance_weight", &Process::balance_weight)
		.def_rw("balance_sleep_ns", &Process::balance_sleep_ns)
		.def_rw("target_ns", &Process::target_ns)
		.def_rw("target_window_ns", &Process::target_window_ns)
		.def_rw("target_percentile", &Process::target_percentile)
		.def_rw("target_stays", &Process::target_stays)
		.def_rw("think_ns", &Process::think_ns)
		.def_rw("think_spin_ns", &Process::think_spin_ns)
		.def_rw("think_blocks", &Process::think_blocks)
		.def_rw("through", &Process::through)
		.def_rw("start_ns", &Process::start_ns)
		.def_rw("ramp_ns", &Process::ramp_ns)
		.def_rw("runtime_ns", &Process::runtime_ns)
		.def_rw("ios_max", &Process::ios_max)
		.def_rw("bytes_max", &Process::bytes_max)
		.def_rw("loops", &Process::loops)
		.def_rw("repeats", &Process::repeats)
		.def_rw("verifies", &Process::verifies)
		.def_rw("verify_backlog", &Process::verify_backlog)
		.def_rw("verify_batch", &Process::verify_batch)
		.def_rw("passthrough", &Process::passthrough)
		.def_rw("wave", &Process::wave)
		.def_rw("after_flow", &Process::after_flow)
		.def_rw("group", &Process::group)
		.def_rw("ends_all", &Process::ends_all)
		.def_rw("ends_what", &Process::ends_what)
		.def_rw("seed", &Process::seed)
		.def_rw("trace", &Process::trace);
	nb::class_<Costs>(m, "Costs")
		.def(nb::init<>())
		.def_rw("submit", &Costs::submit)
		.def_rw("submit_kib", &Costs::submit_kib)
		.def_rw("schedule", &Costs::schedule)
		.def_rw("complete", &Costs::complete)
		.def_rw("complete_kib", &Costs::complete_kib)
		.def_rw("reap", &Costs::reap)
		.def_rw("wake", &Costs::wake)
		.def_rw("run", &Costs::run)
		.def_rw("timer", &Costs::timer);
	nb::class_<Machine>(m, "Machine")
		.def(nb::init<>())
		.def_rw("cpus", &Machine::cpus)
		.def_rw("costs", &Machine::costs)
		.def_rw("tick_ns", &Machine::tick_ns)
		.def_rw("start_spread_ns", &Machine::start_spread_ns)
		.def_rw("lone_requests_to_worker", &Machine::lone_requests_to_worker)
		.def_rw("completes_where_submitted", &Machine::completes_where_submitted);
	nb::class_<Device>(m, "Device")
		.def(nb::init<>())
		.def_rw("drive", &Device::drive)
		.def_rw("attachment", &Device::attachment)
		.def_rw("depth", &Device::depth)
		.def_rw("nr_requests", &Device::nr_requests)
		.def_rw("max_sectors_kb", &Device::max_sectors_kb)
		.def_rw("merges", &Device::merges)
		.def_rw("write_cache", &Device::write_cache);
	nb::class_<Scheduler>(m, "Scheduler")
		.def(nb::init<>())
		.def_rw("name", &Scheduler::name)
		.def_rw("knobs", &Scheduler::knobs);
	nb::class_<Cgroup>(m, "Cgroup")
		.def(nb::init<>())
		.def_rw("parent", &Cgroup::parent)
		.def_rw("weight", &Cgroup::weight);
	nb::class_<Config>(m, "Config")
		.def(nb::init<>())
		.def_rw("machine", &Config::machine)
		.def_rw("device", &Config::device)
		.def_rw("scheduler", &Config::scheduler)
		.def_rw("cgroups", &Config::cgroups)
		.def_rw("processes", &Config::processes)
		.def_rw("limit_ns", &Config::limit_ns)
		.def_rw("check", &Config::check);
	nb::class_<Histogram>(m, "Histogram")
		.def_prop_ro(
			"values_ns", [](const Histogram &h) { return to_numpy(h.values_ns); },
			nb::rv_policy::automatic)
		.def_prop_ro(
			"counts", [](const Histogram &h) { return to_numpy(h.counts); },
			nb::rv_policy::automatic);
	nb::class_<PriorityResult>(m, "PriorityResult")
		.def_ro("ioprio", &PriorityResult::ioprio)
		.def_ro("ios", &PriorityResult::ios)
		.def_ro("mean_ns", &PriorityResult::mean_ns)
		.def_ro("min_ns", &PriorityResult::min_ns)
		.def_ro("max_ns", &PriorityResult::max_ns)
		.def_ro("latency", &PriorityResult::latency);
	nb::class_<DirectionResult>(m, "DirectionResult")
		.def_ro("ios", &DirectionResult::ios)
		.def_ro("bytes", &DirectionResult::bytes)
		.def_ro("mean_ns", &DirectionResult::mean_ns)
		.def_ro("min_ns", &DirectionResult::min_ns)
		.def_ro("max_ns", &DirectionResult::max_ns)
		.def_ro("latency", &DirectionResult::latency)
		.def_ro("block", &DirectionResult::block)
		.def_ro("scheduler", &DirectionResult::scheduler)
		.def_ro("priorities", &DirectionResult::priorities);
	nb::class_<FlowResult>(m, "FlowResult")
		.def_ro("directions", &FlowResult::directions)
		.def_ro("runtime_ns", &FlowResult::runtime_ns);
	nb::class_<Result>(m, "Result")
		.def_ro("flows", &Result::flows)
		.def_ro("now_ns", &Result::now_ns)
		.def_ro("ios", &Result::ios)
		.def_ro("events", &Result::events)
		.def_ro("idle", &Result::idle)
		.def_ro("drive", &Result::drive)
		.def_ro("found", &Result::found)
		.def_ro("state", &Result::state);
	nb::class_<Counted>(m, "Counted")
		.def_ro("ios", &Counted::ios)
		.def_ro("bytes", &Counted::bytes)
		.def_ro("ns", &Counted::ns)
		.def_ro("outstanding", &Counted::outstanding);
	nb::class_<Sample>(m, "Sample")
		.def_ro("now_ns", &Sample::now_ns)
		.def_ro("completed", &Sample::completed)
		.def_ro("real_time", &Sample::real_time);
	m.def("simulate", &simulate, nb::arg("config"), nb::arg("every_ns") = 0,
	      nb::arg("watcher").none() = nb::none(), nb::call_guard<nb::gil_scoped_release>(),
	      "Run a simulation to its end. UsageError for what is not possible. Every `every_ns` the watcher sees a "
	      "Sample and returns the knobs that are to change.");
	nb::class_<Knob>(m, "Knob")
		.def_ro("name", &Knob::name)
		.def_ro("unit", &Knob::unit)
		.def_ro("least", &Knob::least)
		.def_ro("most", &Knob::most)
		.def_ro("step", &Knob::step)
		.def_ro("initial", &Knob::initial)
		.def_ro("scale", &Knob::scale)
		.def_ro("words", &Knob::words)
		.def_ro("automatic", &Knob::automatic)
		.def_ro("what", &Knob::what);
	m.def("schedulers", &schedulers, "By scheduler, its knobs.");
}
