// SPDX-License-Identifier: GPL-2.0-only
#include "block_layer.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <stdexcept>

namespace tailgate::sim
{

namespace
{

constexpr uint32_t SECTOR = 512;
/// BLK_MQ_BUDGET_DELAY: the queues run again after this time if a scheduler had work but dispatched nothing.
constexpr uint64_t DELAY_NS = 3'000'000;

constexpr uint32_t TAGS_LEAST = 4; ///< BLKDEV_MIN_RQ
constexpr uint32_t DEFAULT_KIB_MOST = 1280; ///< BLK_DEF_MAX_SECTORS_CAP

/// Drivers, in the order of Device::attachment; see kernel/vflash.c.
enum Attachment : uint32_t { NVME, USB, MMC, CQE, ATTACHMENTS };
constexpr uint32_t DEPTHS[ATTACHMENTS] = { 10240, 1, 64, 32 };

const sim_scheduler *find_scheduler(const std::string &name)
{
	std::string known = "none";

	if (name == "none")
		return nullptr;
	for (const sim_scheduler *const *s = sim_schedulers; *s; s++) {
		if (name == (*s)->name)
			return *s;
		known += std::string(", ") + (*s)->name;
	}
	throw UsageError("scheduler: expected one of " + known + ", got " + name);
}

flash_parameters parameters_of(const std::map<std::string, uint32_t> &drive)
{
	flash_parameters parameters = FLASH_PARAMETERS_DEFAULT;

	for (const auto &[name, value] : drive) {
		uint32_t i = 0;

		while (i < sim_drive_parameter_count && name != sim_drive_parameters[i].name)
			i++;
		if (i == sim_drive_parameter_count)
			throw UsageError("drive: there is no parameter " + name);
		std::memcpy(reinterpret_cast<char *>(&parameters) + sim_drive_parameters[i].offset,
			    &value, sizeof(value));
	}
	return parameters;
}

} // namespace

std::map<std::string, std::vector<Knob>> schedulers()
{
	std::map<std::string, std::vector<Knob>> all{ { "none", {} } };

	for (const sim_scheduler *const *s = sim_schedulers; *s; s++) {
		auto &knobs = all[(*s)->name];

		for (uint32_t i = 0; i < (*s)->knob_count; i++) {
			const struct knob &knob = (*s)->knobs[i];
			std::vector<std::string> words;

			for (uint64_t value = 0; knob.words && value <= knob.most; value++)
				words.emplace_back(knob.words[value]);
			knobs.push_back({ knob.name, knob.unit, knob.least, knob.most, knob.step,
					  knob.initial, knob.scale, words,
					  knob.flags & KNOB_MAY_BE_AUTO ? KNOB_AUTO : 0,
					  knob.what });
		}
	}
	return all;
}

BlockLayer::Drive BlockLayer::make_drive(const flash_parameters &parameters)
{
	const flash_parameter_info *wrong;
	const char *expected;
	Drive drive(sim_drive_create(&parameters, &wrong, &expected), sim_drive_destroy);

	if (!drive && wrong)
		throw UsageError(std::string("drive: ") + wrong->name + ": expected " +
				 (expected ? expected :
					     std::to_string(wrong->least) + " to " +
						     std::to_string(wrong->most)));
	if (!drive)
		throw std::bad_alloc();
	return drive;
}

BlockLayer::BlockLayer(Engine &engine, std::vector<Processor> &processors, const Config &config,
		       Observer &observer)
    : engine_(engine), processors_(processors), machine_(config.machine), observer_(observer),
      scheduler_(find_scheduler(config.scheduler.name))
{
	const Device &device = config.device;
	flash_parameters parameters = parameters_of(device.drive);

	attach(device, parameters);
	/* the kernel gives a drive at most as many queues as there are processors */
	parameters.queues = std::min<uint32_t>(parameters.queues, processors.size());
	drive_ = make_drive(parameters);
	tags_ = device.nr_requests ? std::max(device.nr_requests, TAGS_LEAST) :
		scheduler_	   ? 2 * std::min<uint32_t>(depth_, 128) :
				     depth_;
	if (!scheduler_) /* they are the driver's own */
		tags_ = std::min(tags_, depth_);
	sectors_ = uint64_t(parameters.capacity_mib) << 11;
	max_sectors_ =
		2 * std::min(device.max_sectors_kb ? device.max_sectors_kb : DEFAULT_KIB_MOST,
			     parameters.max_kib);
	cgroups_.resize(config.cgroups.size());
	for (uint32_t i = 0; i < cgroups_.size(); i++)
		cgroups_[i] = { i ? &cgroups_[config.cgroups[i].parent] : nullptr, i,
				config.cgroups[i].weight };
	INIT_LIST_HEAD(&done_);
	for (uint32_t i = 0; i < parameters.queues; i++)
		queues_.emplace_back(this, i);
	if (scheduler_)
		make_elevator(config);
	configure(config.scheduler.knobs);
	if (config.check)
		start_checker();
}

void BlockLayer::start_checker()
{
	std::optional<sim_promises> promises;

	if (scheduler_ && scheduler_->promises)
		scheduler_->promises(elevator_.get(), &promises.emplace());
	checker_.emplace(promises);
}

/// Applies the limits of the driver to the drive.
void BlockLayer::attach(const Device &device, flash_parameters &parameters)
{
	if (!device.depth || device.depth > 10240)
		throw UsageError("depth: expected 1 to 10240, got " + std::to_string(device.depth));
	if (device.attachment >= ATTACHMENTS)
		throw UsageError("attachment: expected 0 to " + std::to_string(ATTACHMENTS - 1) +
				 ", got " + std::to_string(device.attachment));
	depth_ = std::min(device.depth, DEPTHS[device.attachment]);
	taken_ = device.attachment == MMC ? std::min<uint32_t>(depth_, 2) : depth_;
	budget_ = device.attachment == USB;
	if (device.attachment != NVME)
		parameters.queues = 1;
	if (device.attachment == MMC)
		parameters.slots = 1; /* the second request waits in the driver */
}

void BlockLayer::make_elevator(const Config &config)
{
	merges_ = config.device.merges && scheduler_->try_merge;
	worker_dispatches_ = machine_.lone_requests_to_worker && !scheduler_->runs_itself;
	handle_.layer = this;
	handle_.device.queues = queues_.size();
	handle_.device.cpus = processors_.size();
	handle_.device.tags = tags_;
	handle_.device.max_sectors = max_sectors_;
	handle_.device.now_ns = &engine_.now_ns;
	handle_.device.run = [](sim_device *d, u32 queue) {
		BlockLayer *layer = reinterpret_cast<Handle *>(d)->layer;

		layer->run_later(layer->queues_[queue]);
	};
	handle_.device.arm = [](sim_device *d, u64 at_ns) {
		reinterpret_cast<Handle *>(d)->layer->arm(at_ns);
	};
	handle_.device.split = [](sim_device *d, sim_request *rq) {
		reinterpret_cast<Handle *>(d)->layer->split_later(reinterpret_cast<Request *>(rq));
	};
	elevator_ = { scheduler_->create(&handle_.device), scheduler_->destroy };
	if (!elevator_)
		throw std::bad_alloc();
}

void BlockLayer::configure(const std::map<std::string, uint64_t> &knobs)
{
	for (const auto &[name, value] : knobs) {
		std::string known, its = std::string(scheduler_ ? scheduler_->name : "none");
		uint32_t i = 0, count = scheduler_ ? scheduler_->knob_count : 0;

		for (; i < count && name != scheduler_->knobs[i].name; i++)
			known += (i ? ", " : "") + std::string(scheduler_->knobs[i].name);
		if (i == count)
			throw UsageError(its + " has no knob " + name +
					 (known.empty() ? "" : "; expected " + known));
		const struct knob &knob = scheduler_->knobs[i];
		std::string range =
			std::to_string(knob.least) + " to " + std::to_string(knob.most) +
			(knob.step > 1 ? " in steps of " + std::to_string(knob.step) : "");
		/* a default may be outside the range: "auto" */
		if (!(knob.flags & KNOB_MAY_BE_AUTO && value == KNOB_AUTO) &&
		    (value < knob.least || value > knob.most || value % knob.step))
			throw UsageError(its + "." + name + ": expected " + range + ", got " +
					 std::to_string(value));
		if (scheduler_->configure(elevator_.get(), i, value))
			throw UsageError(its + "." + name +
					 ": expected no more than max_sectors_kb, got " +
					 std::to_string(value));
	}
}

std::map<std::string, uint64_t> BlockLayer::found(const Scheduler &scheduler) const
{
	std::map<std::string, uint64_t> out;

	if (!scheduler_ || !scheduler_->found)
		return out;
	for (uint32_t i = 0; i < scheduler_->knob_count; i++) {
		auto set = scheduler.knobs.find(scheduler_->knobs[i].name);

		if (set != scheduler.knobs.end() && set->second == KNOB_AUTO)
			out[set->first] = scheduler_->found(elevator_.get(), i);
	}
	return out;
}

std::map<std::string, uint64_t> BlockLayer::state() const
{
	std::map<std::string, uint64_t> out;

	if (!scheduler_ || !scheduler_->state_names)
		return out;
	for (uint32_t i = 0; scheduler_->state_names[i]; i++)
		out[scheduler_->state_names[i]] = scheduler_->state(elevator_.get(), i);
	return out;
}

// --- requests -------------------------------------------------------------------------------------------------------

/// A part of an Io as schedulers see it.
sim_bio BlockLayer::bio_of(const Queue &queue, const Io &io, uint64_t sector,
			   uint32_t sectors) const
{
	return { .sector = sector,
		 .sectors = sectors,
		 .queue = uint16_t(queue.index),
		 .ioprio = io.ioprio,
		 .process = io.process,
		 .cgroup = &cgroups_[io.cgroup],
		 .op = uint8_t(io.op),
		 .sync = true,
		 .through = io.through };
}

/// Most sectors in a request: the smaller of the drive's limit and the scheduler's.
uint32_t BlockLayer::most_sectors(const Io &io) const
{
	uint32_t piece = scheduler_ && scheduler_->piece ?
				 scheduler_->piece(elevator_.get(), io.op, io.ioprio) :
				 0;

	return piece ? std::min(piece, max_sectors_) : max_sectors_;
}

void BlockLayer::add_bio(Request *request, Io *io, uint64_t sector, uint32_t sectors)
{
	Bio *bio = free_bios_;

	if (bio)
		free_bios_ = bio->next;
	else
		bio = &bios_.emplace_back();
	*bio = { io, request->bios, sector, sectors };
	request->bios = bio;
}

Request *BlockLayer::make(Queue &queue, Io *io, uint64_t sector, uint32_t sectors)
{
	Request *request;

	if (free_requests_.empty()) {
		request = &requests_.emplace_back();
	} else {
		request = free_requests_.back();
		free_requests_.pop_back();
	}
	*request = {};
	request->layer = this;
	request->rq.sector = sector;
	request->rq.sectors = sectors;
	request->rq.start_ns = engine_.now_ns;
	request->rq.queue = queue.index;
	request->rq.ioprio = io->ioprio;
	request->rq.process = io->process;
	request->rq.cgroup = &cgroups_[io->cgroup];
	request->rq.op = io->op;
	request->rq.sync = true;
	request->rq.through = io->through;
	request->command.op = io->op == SIM_FLUSH ? FLASH_FLUSH :
			      io->op == SIM_READ  ? FLASH_READ :
			      io->through	  ? FLASH_WRITE_THROUGH :
						    FLASH_WRITE;
	request->flow = io->flow;
	request->processor = io->processor;
	add_bio(request, io, sector, sectors);
	queue.tags_used++;
	submitted++;
	if (io->op != SIM_FLUSH)
		for_counts_of(request->rq, [](Counted &counted) { counted.outstanding++; });
	return request;
}

bool BlockLayer::submit(Io *io, Action accepted)
{
	Queue &queue = queues_[io->processor % queues_.size()];
	uint64_t sector = io->offset / SECTOR;
	uint32_t left = io->bytes / SECTOR, in_request = 0;
	uint32_t most = most_sectors(*io);
	bool waits = false;

	io->parts = 1; /* keeps the Io incomplete until all parts are submitted */
	do {
		/* the kernel splits to the drive's limit first, then to the scheduler's */
		uint32_t sectors = std::min({ left, max_sectors_ - in_request, most });

		left -= sectors;
		in_request = (in_request + sectors) % max_sectors_;
		io->parts++;
		if (waits || !accept(queue, io, sector, sectors)) {
			waits = true;
			queue.waiters.push_back(
				{ io, sector, sectors, left ? Action{} : accepted });
		}
		sector += sectors;
	} while (left);
	io->parts--;
	if (waits && scheduler_)
		dispatch(io->processor); /* dispatch before sleeping for a tag */
	return !waits;
}

/// Runs the submitter's hardware queue after an insertion.
void BlockLayer::dispatch(uint32_t processor)
{
	Queue &queue = queues_[processor % queues_.size()];

	if (worker_dispatches_)
		run_later(queue);
	else
		run(queue);
}

/// Merges a part into a queued request, or creates a request for it. Returns false if there is no tag.
bool BlockLayer::accept(Queue &queue, Io *io, uint64_t sector, uint32_t sectors)
{
	Request *request;

	if (merges_ && io->op != SIM_FLUSH && merge(queue, io, sector, sectors))
		return true;
	if (queue.tags_used >= tags_)
		return false;
	if (scheduler_ && scheduler_->limit && io->op != SIM_FLUSH) {
		sim_bio bio = bio_of(queue, *io, sector, sectors);

		if (queue.tags_used >= scheduler_->limit(elevator_.get(), &bio, tags_))
			return false;
	}
	request = make(queue, io, sector, sectors);
	if (io->op == SIM_FLUSH) {
		queue.flushes.push_back(request);
		begin_flush(queue);
		return true;
	}
	if (checker_)
		checker_->inserted(request->rq, engine_.now_ns);
	if (!scheduler_) {
		issue(request);
		return true;
	}
	scheduler_->insert(elevator_.get(), &request->rq, false, engine_.now_ns);
	return true;
}

bool BlockLayer::merge(const Queue &queue, Io *io, uint64_t sector, uint32_t sectors)
{
	uint32_t most = most_sectors(*io);
	sim_request *rq;
	sim_bio bio = bio_of(queue, *io, sector, sectors);

	if (most < max_sectors_ && piece_is_full(most, sectors))
		return false;
	rq = scheduler_->try_merge(elevator_.get(), &bio, most);
	if (!rq)
		return false;
	add_bio(reinterpret_cast<Request *>(rq), io, sector, sectors);
	return true;
}

/// Splits a request that the scheduler had queued, in a worker, as kernel/elevator/split.h does.
void BlockLayer::split_later(Request *request)
{
	const Costs &costs = machine_.costs;

	if (checker_)
		checker_->withdrawn(request->rq);
	submitted--;
	for_counts_of(request->rq, [](Counted &counted) { counted.outstanding--; });
	worker_of(queues_[request->rq.queue])
		.work(costs.wake + costs.run, { [](void *r) {
						       auto *request = static_cast<Request *>(r);

						       request->layer->split(request);
					       },
						request });
}

/// Splits the bios of a request into pieces, each with a tag of its own. Pieces without a tag wait behind earlier waiters.
void BlockLayer::split(Request *request)
{
	Queue &queue = queues_[request->rq.queue];
	std::vector<Bio> bios;

	for (Bio *bio = request->bios, *next; bio; bio = next) {
		next = bio->next;
		bios.push_back(*bio);
		bio->next = free_bios_;
		free_bios_ = bio;
	}
	release(request);
	std::sort(bios.begin(), bios.end(),
		  [](const Bio &a, const Bio &b) { return a.sector < b.sector; });
	for (const Bio &bio : bios) {
		uint32_t most = most_sectors(*bio.io);

		for (uint32_t done = 0, sectors; done < bio.sectors; done += sectors) {
			sectors = std::min(bio.sectors - done, most);
			bio.io->parts += done > 0; /* the first piece replaces the whole part */
			if (!accept(queue, bio.io, bio.sector + done, sectors))
				queue.waiters.push_back({ bio.io, bio.sector + done, sectors, {} });
		}
	}
	wake_waiters(queue);
	run(queue);
}

// --- flushes --------------------------------------------------------------------------------------------------------

/// blk_kick_flush(): a hardware queue has one flush in the drive, which a worker sends past the scheduler. Those that come meanwhile
/// share the next one.
void BlockLayer::begin_flush(Queue &queue)
{
	if (!queue.flushing.empty() || queue.flushes.empty())
		return;
	queue.flushing.swap(queue.flushes);
	worker_of(queue).work(machine_.costs.wake + machine_.costs.run,
			      { [](void *q) {
				       Queue *queue = static_cast<Queue *>(q);
				       BlockLayer *layer = queue->layer;
				       Request *request = queue->flushing.front();

				       if (!layer->scheduler_) {
					       layer->issue(request);
					       return;
				       }
				       queue->dispatch.push_front(request);
				       layer->run(*queue);
			       },
				&queue });
}

void BlockLayer::end_flush(Queue &queue)
{
	std::vector<Request *> ended;

	ended.swap(queue.flushing);
	if (scheduler_)
		queue.in_drive--;
	for (Request *request : ended) {
		completed++;
		end_bios(request);
		release(request);
	}
	if (queue.restart) {
		queue.restart = false;
		run_later(queue);
	}
	begin_flush(queue);
	wake_waiters(queue);
}

// --- hardware queues ------------------------------------------------------------------------------------------------

/// blk_mq_run_hw_queue(async = true)
void BlockLayer::run_later(Queue &queue)
{
	/* the same work: a run at once takes the place of a delayed one */
	queue.delayed_until_ns = 0;
	if (queue.run_pending)
		return;
	queue.run_pending = true;
	worker_of(queue).work(machine_.costs.wake + machine_.costs.run,
			      { [](void *q) {
				       Queue *queue = static_cast<Queue *>(q);

				       queue->run_pending = false;
				       queue->layer->run(*queue);
			       },
				&queue });
}

/// blk_mq_delay_run_hw_queues(): the delay is rounded up to whole ticks; queues with a scheduled run are skipped. Of a scheduler
/// whose requests are those of all queues, only the present processor's queue runs, and those with something dispatched.
void BlockLayer::run_after_delay(const Queue &present)
{
	uint64_t tick = machine_.tick_ns;
	uint64_t at_ns = (engine_.now_ns / tick + (DELAY_NS + tick - 1) / tick + 1) * tick;

	for (Queue &queue : queues_) {
		if (queue.delayed_until_ns || queue.run_pending)
			continue;
		if (scheduler_->device_wide && &queue != &present && queue.dispatch.empty())
			continue;
		queue.delayed_until_ns = at_ns;
		queue.delayed_by = engine_.present;
		if (queue.timer_ns == at_ns)
			continue; /* a run for then was taken back, the timer was not */
		queue.timer_ns = at_ns;
		engine_.at(at_ns, { [](void *q) {
					   Queue *queue = static_cast<Queue *>(q);

					   Engine &engine = queue->layer->engine_;

					   if (queue->delayed_until_ns != engine.now_ns)
						   return; /* its place was taken */
					   engine.present = queue->delayed_by;
					   queue->layer->run_later(*queue);
				   },
				    &queue });
	}
}

/// blk_mq_sched_dispatch_requests()
void BlockLayer::run(Queue &queue)
{
	while (!queue.dispatch.empty()) {
		queue.restart = true;
		if (!issue(queue.dispatch.front()))
			return;
		queue.dispatch.pop_front();
	}
	while (dispatch_some(queue))
		;
}

/// __blk_mq_do_dispatch_sched(): dispatches until there is nothing more, or no tag of the drive. Returns true if it is called again:
/// if all requests of another hardware queue than the full one have gone.
bool BlockLayer::dispatch_some(Queue &queue)
{
	const Queue *went = nullptr;
	bool several_went = false;

	while (scheduler_->has_work(elevator_.get(), queue.index)) {
		if (budget_ && queue.in_drive == taken_) {
			queue.restart = true; /* as SCSI does for a queue without budget */
			return false;
		}
		sim_request *rq =
			scheduler_->dispatch(elevator_.get(), queue.index, engine_.now_ns);
		if (!rq) {
			run_after_delay(queue);
			return false;
		}
		if (checker_)
			checker_->chosen(*rq, engine_.now_ns);
		Request *request = reinterpret_cast<Request *>(rq);
		Queue &own = queues_[rq->queue];
		if (!issue(request)) {
			own.dispatch.push_back(request);
			own.restart = true;
			return several_went || (went && went != &own);
		}
		several_went = several_went || (went && went != &own);
		went = &own;
	}
	return false;
}

/// Issues a request to the drive. Returns false if the drive has no tag.
bool BlockLayer::issue(Request *request)
{
	Queue &queue = queues_[request->rq.queue];

	if (scheduler_) {
		if (queue.in_drive == taken_)
			return false;
		queue.in_drive++;
	}
	request->rq.issue_ns = engine_.now_ns;
	request->command.sector = request->rq.sector;
	request->command.sectors = request->rq.sectors;
	if (checker_ && request->rq.op != SIM_FLUSH)
		checker_->issued(engine_.now_ns);
	sim_drive_submit(drive_.get(), queue.index, &request->command, engine_.now_ns);
	return true;
}

// --- completion -----------------------------------------------------------------------------------------------------

void BlockLayer::advance()
{
	list_head *node, *next;

	sim_drive_advance(drive_.get(), engine_.now_ns, &done_);
	for (node = done_.next; node != &done_; node = next) {
		next = node->next;
		auto *command = reinterpret_cast<flash_command *>(reinterpret_cast<char *>(node) -
								  offsetof(flash_command, node));
		auto *request = reinterpret_cast<Request *>(reinterpret_cast<char *>(command) -
							    offsetof(Request, command));
		const Costs &costs = machine_.costs;
		uint32_t processor = machine_.completes_where_submitted ?
					     request->processor :
					     request->rq.queue % processors_.size();
		uint64_t cost_ns =
			costs.complete + uint64_t(costs.complete_kib) * (request->rq.sectors / 2);

		processors_[processor].interrupt(
			cost_ns, { [](void *r) {
					  Request *request = static_cast<Request *>(r);

					  request->layer->complete(request);
				  },
				   request });
	}
	INIT_LIST_HEAD(&done_);
}

/// blk_mq_end_request()
void BlockLayer::complete(Request *request)
{
	Queue &queue = queues_[request->rq.queue];
	uint64_t now_ns = engine_.now_ns;

	if (request->rq.op == SIM_FLUSH) {
		end_flush(queue);
		return;
	}
	completed++;
	if (checker_)
		checker_->completed(request->rq, now_ns);
	observer_.completed(request->flow, sim_op(request->rq.op), now_ns - request->rq.start_ns,
			    request->rq.issue_ns - request->rq.start_ns);
	for_counts_of(request->rq, [request, now_ns](Counted &counted) {
		counted.ios++;
		counted.bytes += uint64_t(request->rq.sectors) * SECTOR;
		counted.ns += now_ns - request->rq.start_ns;
		counted.outstanding--;
	});
	end_bios(request);
	if (scheduler_) {
		if (scheduler_->complete)
			scheduler_->complete(elevator_.get(), &request->rq, now_ns);
		if (scheduler_->finish)
			scheduler_->finish(elevator_.get(), &request->rq, now_ns);
		queue.in_drive--;
	}
	release(request);
	if (queue.restart) {
		queue.restart = false;
		run_later(queue);
	}
	wake_waiters(queue);
}

void BlockLayer::end_bios(Request *request)
{
	for (Bio *bio = request->bios, *next; bio; bio = next) {
		next = bio->next;
		if (!--bio->io->parts)
			bio->io->done();
		bio->next = free_bios_;
		free_bios_ = bio;
	}
}

/// Frees a request and its tag; does not wake waiters.
void BlockLayer::release(Request *request)
{
	queues_[request->rq.queue].tags_used--;
	free_requests_.push_back(request);
}

/// Gives free tags to the longest waiters, skipping those whose limit does not allow one yet.
void BlockLayer::wake_waiters(Queue &queue)
{
	for (size_t i = 0; i < queue.waiters.size() && queue.tags_used < tags_;) {
		Waiter waiter = queue.waiters[i];

		if (!accept(queue, waiter.io, waiter.sector, waiter.sectors)) {
			i++;
			continue;
		}
		queue.waiters.erase(queue.waiters.begin() + i);
		if (waiter.accepted.function)
			waiter.accepted(); /* the process then dispatches */
		else if (scheduler_)
			run_later(queue);
	}
}

// --- the scheduler's timer ------------------------------------------------------------------------------------------

void BlockLayer::arm(uint64_t at_ns)
{
	armed_ns_ = at_ns;
	armed_by_ = engine_.present;
	engine_.at(at_ns, Action::call<&BlockLayer::tick>(this));
}

void BlockLayer::tick()
{
	if (armed_ns_ > engine_.now_ns)
		return; /* armed again for later */
	armed_ns_ = Engine::NEVER;
	engine_.present = armed_by_;
	scheduler_->tick(elevator_.get(), engine_.now_ns);
}

void BlockLayer::check_end()
{
	checker_->end();
	for (const Queue &queue : queues_)
		if (queue.tags_used || queue.in_drive || !queue.waiters.empty() ||
		    !queue.dispatch.empty() || !queue.flushes.empty() || !queue.flushing.empty())
			throw std::logic_error("a hardware queue still holds something");
	if (scheduler_ && !scheduler_->destroy(elevator_.release()))
		throw std::logic_error(
			"the scheduler still counts something as queued or in flight");
}

} // namespace tailgate::sim
