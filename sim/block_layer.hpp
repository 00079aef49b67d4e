// SPDX-License-Identifier: GPL-2.0-only
// A small model of blk-mq: the path of a bio through requests, tags, the scheduler, hardware queues and the drive, and back.
//
// Names are the kernel's; comments name the kernel function that a function models. This code does not depend on fio.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "c_interface.hpp"
#include "checker.hpp"
#include "engine.hpp"
#include "simulate.hpp"

namespace tailgate::sim
{

class BlockLayer;
struct Request;

/// An I/O submitted by a process. It may be split into several requests, and a request may contain several.
struct Io {
	uint64_t offset = 0;
	uint32_t bytes = 0;
	sim_op op = SIM_READ;
	bool through = false;
	uint16_t ioprio = 0;
	uint32_t process = 0, cgroup = 0; ///< numbers of the process and of its cgroup
	uint32_t processor = 0; ///< number of the submitting processor
	uint32_t flow = 0;
	uint32_t parts = 0; ///< parts that have not completed
	Action done; ///< called when the last part is complete
};

/// The part of an Io that is in one request.
struct Bio {
	Io *io;
	Bio *next;
	uint64_t sector;
	uint32_t sectors;
};

struct Request {
	sim_request rq; ///< first
	flash_command command;
	Bio *bios = nullptr;
	uint32_t flow = 0;
	uint32_t processor = 0;
	BlockLayer *layer;
};

class BlockLayer
{
    public:
	/// Called for each completed request: flow, operation, ns in the block layer, ns in the scheduler.
	struct Observer {
		virtual void completed(uint32_t flow, sim_op op, uint64_t block_ns,
				       uint64_t scheduler_ns) = 0;

	    protected:
		~Observer() = default;
	};

	BlockLayer(Engine &engine, std::vector<Processor> &processors, const Config &config,
		   Observer &observer);
	BlockLayer(const BlockLayer &) = delete;
	BlockLayer &operator=(const BlockLayer &) = delete;

	/// Submits an Io. Returns true if all its parts have a tag. Otherwise parts wait for tags, and `accepted` is called
	/// when the last part has one. The Io must stay valid until `done` is called.
	bool submit(Io *io, Action accepted);
	/// With a scheduler, the submitter calls this when all parts were accepted.
	void dispatch(uint32_t processor);
	/// An Io at this offset will be submitted soon: prefetches memory, for speed only.
	void expect(uint64_t offset) const
	{
		sim_drive_expect(drive_.get(), offset / 512);
	}
	/// Time of the drive's next event.
	uint64_t next_ns() const
	{
		return sim_drive_next_ns(drive_.get());
	}
	/// Advances the drive to the present time and handles its completions.
	void advance();
	bool has_scheduler() const
	{
		return scheduler_ != nullptr;
	}
	uint64_t sectors() const
	{
		return sectors_;
	}

	/// Present values of the knobs that are set to "auto", by name.
	std::map<std::string, uint64_t> found(const Scheduler &scheduler) const;

	/// Numbers that tell the scheduler's present state, by name; none for most schedulers.
	std::map<std::string, uint64_t> state() const;

	/// Sets knobs. UsageError for what the scheduler does not have or refuses.
	void configure(const std::map<std::string, uint64_t> &knobs);

	/// What was completed so far.
	Sample counted() const
	{
		return { engine_.now_ns, counted_, counted_rt_ };
	}

	uint64_t completed = 0; ///< requests completed
	uint64_t submitted = 0; ///< requests created
	const flash_statistics &statistics() const
	{
		return drive_->statistics;
	}
	/// Ends the scheduler. Throws std::logic_error if a request is left or an invariant was broken.
	void check_end();

    private:
	struct Waiter {
		Io *io;
		uint64_t sector;
		uint32_t sectors;
		Action accepted; ///< empty if more parts of the Io follow
	};

	/// A hardware queue (struct blk_mq_hw_ctx).
	struct Queue {
		Queue(BlockLayer *its_layer, uint32_t number) : layer(its_layer), index(number)
		{
		}

		BlockLayer *layer;
		uint32_t index;
		uint32_t tags_used = 0; ///< scheduler tags in use; without a scheduler, the drive's
		uint32_t in_drive = 0; ///< with a scheduler: the drive's tags in use
		std::deque<Waiter> waiters;
		std::deque<Request *> dispatch; ///< dispatched, but the drive had no tag
		std::vector<Request *> flushes; ///< flushes that wait for the one in the drive
		std::vector<Request *> flushing; ///< flushes that the one in the drive stands for
		bool run_pending = false; ///< an asynchronous run is scheduled
		uint64_t delayed_until_ns = 0; ///< a delayed run is scheduled; 0: none is
		Processor *delayed_by = nullptr; ///< by this processor
		uint64_t timer_ns = 0; ///< when its last timer for a delayed run expires
		bool restart = false; ///< run the queue when a request completes
	};

	/// The device as schedulers see it; `device` is the first member, so that callbacks find `layer`.
	struct Handle {
		sim_device device;
		BlockLayer *layer;
	};

	/// The processor that runs a hardware queue in a worker (blk_mq_hctx_next_cpu()): one that it serves, but if it is the only
	/// one, the present processor.
	Processor &worker_of(const Queue &queue)
	{
		if (queues_.size() == 1 && engine_.present)
			return *engine_.present;
		return processors_[queue.index % processors_.size()];
	}
	using Drive = std::unique_ptr<flash, void (*)(flash *)>;

	static Drive make_drive(const flash_parameters &parameters);
	void attach(const Device &device, flash_parameters &parameters);
	void make_elevator(const Config &config);
	void start_checker();
	sim_bio bio_of(const Queue &queue, const Io &io, uint64_t sector, uint32_t sectors) const;
	bool accept(Queue &queue, Io *io, uint64_t sector, uint32_t sectors);
	bool merge(const Queue &queue, Io *io, uint64_t sector, uint32_t sectors);
	Request *make(Queue &queue, Io *io, uint64_t sector, uint32_t sectors);
	void add_bio(Request *request, Io *io, uint64_t sector, uint32_t sectors);
	uint32_t most_sectors(const Io &io) const;
	void run(Queue &queue);
	void run_later(Queue &queue);
	void run_after_delay(const Queue &present);
	bool dispatch_some(Queue &queue);
	bool issue(Request *request);
	void complete(Request *request);
	void begin_flush(Queue &queue);
	void end_flush(Queue &queue);
	void end_bios(Request *request);
	void split_later(Request *request);
	void split(Request *request);
	void release(Request *request);
	void wake_waiters(Queue &queue);
	void arm(uint64_t at_ns);
	void tick();
	/// Calls a function with each of the counts that a request belongs to.
	template <typename Function> void for_counts_of(const sim_request &rq, Function function)
	{
		function(counted_[rq.op == SIM_READ ? READ : WRITE]);
		if (SIM_IOPRIO_CLASS(rq.ioprio) == 1)
			function(counted_rt_);
	}

	Engine &engine_;
	std::vector<Processor> &processors_;
	const Machine &machine_;
	Observer &observer_;
	const sim_scheduler *scheduler_; ///< null for "none"
	std::unique_ptr<void, bool (*)(void *)> elevator_{ nullptr, nullptr };
	Handle handle_{};
	std::vector<sim_cgroup> cgroups_;
	Drive drive_{ nullptr, nullptr };
	std::array<Counted, DIRECTIONS> counted_;
	Counted counted_rt_;
	std::vector<Queue> queues_;
	uint32_t tags_ = 0; ///< tags for new requests, per queue
	uint32_t depth_; ///< tags of the drive, per queue
	uint32_t taken_ = 0; ///< most requests that the driver accepts at a time, per queue
	bool budget_ = false; ///< the driver is asked for a budget before the scheduler dispatches
	uint32_t max_sectors_ = 0;
	uint64_t sectors_ = 0;
	bool merges_ = false, worker_dispatches_ = false;
	std::optional<Checker> checker_;
	uint64_t armed_ns_ = Engine::NEVER;
	Processor *armed_by_ = nullptr;
	list_head done_;
	std::deque<Request> requests_;
	std::vector<Request *> free_requests_;
	std::deque<Bio> bios_;
	Bio *free_bios_ = nullptr;
};

} // namespace tailgate::sim
