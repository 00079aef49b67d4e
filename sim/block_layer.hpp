// SPDX-License-Identifier: GPL-2.0-only
// A small blk-mq: from bios to requests, tags, the scheduler, hardware queues, the drive, and back.
//
// What the kernel does is told where it is done; the names are the kernel's. Nothing here knows of fio.
#pragma once

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

/// What a process submits; it may become several requests, and several may share one.
struct Io {
	uint64_t offset = 0;
	uint32_t bytes = 0;
	sim_op op = SIM_READ;
	bool through = false;
	uint16_t ioprio = 0;
	uint32_t process = 0, cgroup = 0; ///< numbers
	uint32_t processor = 0; ///< that submits it
	uint32_t flow = 0;
	uint32_t parts = 0; ///< requests that are not complete
	Action done; ///< called when the last part is complete
};

/// A part of an Io in a request.
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
	/// Called for each request that is complete: flow, operation, ns in the block layer, ns in the scheduler.
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

	/// Take an Io; its parts that get no tag wait for one, and `accepted` is called when the last has it. Returns
	/// true if all have one now: then `accepted` is not called. The Io stays where it is until `done`.
	bool submit(Io *io, Action accepted);
	/// With a scheduler, the submitter calls this when all has been accepted.
	void dispatch(uint32_t processor);
	/// Something at this offset will be submitted soon: only makes that faster.
	void expect(uint64_t offset) const
	{
		sim_drive_expect(drive_.get(), offset / 512);
	}
	/// When the drive has something to tell.
	uint64_t next_ns() const
	{
		return sim_drive_next_ns(drive_.get());
	}
	/// Let the drive tell it.
	void advance();
	bool has_scheduler() const
	{
		return scheduler_ != nullptr;
	}
	uint64_t sectors() const
	{
		return sectors_;
	}

	/// Of the knobs that are automatic, by name: what they have been found to be.
	std::map<std::string, uint64_t> found(const Scheduler &scheduler) const;

	uint64_t completed = 0; ///< requests
	uint64_t submitted = 0; ///< requests that were made
	const flash_statistics &statistics() const
	{
		return drive_->statistics;
	}
	/// std::logic_error if something is left, or was wrong on the way.
	void check_end() const;

    private:
	struct Waiter {
		Io *io;
		uint64_t sector;
		uint32_t sectors;
		Action accepted; ///< none: more parts follow
	};

	/// A hardware queue (struct blk_mq_hw_ctx).
	struct Queue {
		Queue(BlockLayer *its_layer, uint32_t number) : layer(its_layer), index(number)
		{
		}

		BlockLayer *layer;
		uint32_t index;
		uint32_t tags_used = 0; ///< of the scheduler, or of the drive without one
		uint32_t in_drive = 0; ///< tags of the drive, with a scheduler
		std::deque<Waiter> waiters;
		std::deque<Request *> dispatch; ///< chosen, but the drive had no tag
		bool run_pending = false; ///< a worker is on its way
		bool delayed = false; ///< will be, on a tick
		bool restart = false; ///< run the queue when a request ends
	};

	/// The device as schedulers see it; first member, so that their callbacks find the rest.
	struct Handle {
		sim_device device;
		BlockLayer *layer;
	};

	Processor &processor_of(const Queue &queue)
	{
		return processors_[queue.index % processors_.size()];
	}
	using Drive = std::unique_ptr<flash, void (*)(flash *)>;

	static Drive make_drive(const flash_parameters &parameters);
	void attach(const Device &device, flash_parameters &parameters);
	void make_elevator(const Config &config);
	Promises promises_of(const Scheduler &scheduler) const;
	uint32_t limit(const Io &io) const;
	bool accept(Queue &queue, Io *io, uint64_t sector, uint32_t sectors);
	bool merge(Io *io, uint64_t sector, uint32_t sectors);
	Request *make(Queue &queue, Io *io, uint64_t sector, uint32_t sectors);
	void add_bio(Request *request, Io *io, uint64_t sector, uint32_t sectors);
	uint32_t most_sectors(const Io &io) const;
	void run(Queue &queue);
	void run_later(Queue &queue);
	void run_after_delay();
	bool dispatch_some(Queue &queue);
	bool issue(Request *request);
	void complete(Request *request);
	void split_later(Request *request);
	void split(Request *request);
	void release(Request *request);
	void wake_waiters(Queue &queue);
	void arm(uint64_t at_ns);
	void tick();

	Engine &engine_;
	std::vector<Processor> &processors_;
	const Machine &machine_;
	Observer &observer_;
	const sim_scheduler *scheduler_; ///< none: null
	std::unique_ptr<void, bool (*)(void *)> elevator_{ nullptr, nullptr };
	Handle handle_{};
	std::vector<sim_cgroup> cgroups_;
	Drive drive_{ nullptr, nullptr };
	std::vector<Queue> queues_;
	uint32_t tags_ = 0; ///< that requests are made with, of each queue
	uint32_t depth_; ///< tags of the drive, of each queue
	uint32_t taken_ = 0; ///< requests that the driver takes at a time, of each queue
	bool budget_ = false; ///< the scheduler is asked only when the driver takes a request
	uint32_t max_sectors_ = 0;
	uint64_t sectors_ = 0;
	bool merges_ = false, worker_dispatches_ = false;
	std::optional<Checker> checker_;
	uint64_t armed_ns_ = Engine::NEVER;
	list_head done_;
	std::deque<Request> requests_;
	std::vector<Request *> free_requests_;
	std::deque<Bio> bios_;
	Bio *free_bios_ = nullptr;
};

} // namespace tailgate::sim
