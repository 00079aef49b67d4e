// SPDX-License-Identifier: GPL-2.0-only
/*
 * The player: see play.h. As in blk-mq, a hardware queue is run after an insertion, when the scheduler asks for it, when a frozen queue
 * begins to drain, and after a busy drive has refused a request. Nothing else runs it, so a lost wake-up strands requests.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <linux/bitops.h>

#include "../../sim/drive.h"
#include "play.h"
#include "subject.h"

#define IOS_MAX 32768
#define EVENTS_MAX 65536
#define EVENTS_LIMIT 60000 /* events in a play; then tasks stop, and the play drains */
#define RUN_NS 2000 /* delay until a worker runs a hardware queue */
#define KICK_NS_MAX 40000 /* longest delay of a run that the scheduler asks for */
#define BUSY_NS 3000000 /* BLK_MQ_RESOURCE_DELAY */
#define START_NS 1000000000ULL
#define DRAIN_NS (300ULL * 1000000000) /* until all have ended, or one is stranded */
#define RARE_PPM 10000 /* share of commands that take longer, if the drive has such */
#define STALL_KIB 4096 /* data programmed between two stalls, if the drive has stalls */
#define NEVER (~0ULL)

enum event_kind {
	EVENT_RUN,
	EVENT_KICK,
	EVENT_TASK,
	EVENT_TICK,
	EVENT_SET,
	EVENT_FREEZE,
	EVENT_THAW,
	EVENT_OFFLINE,
	EVENT_ONLINE,
	EVENT_INSERT,
	EVENT_BUSY
};

struct event {
	u64 at_ns;
	u64 order;
	u8 kind;
	u32 argument;
};

struct task {
	const u64 *values;
	u32 queue; /* hardware queue of the task's CPU */
	u32 waiting; /* requests that the task wants to submit and has no tag for */
	bool ended;
};

u64 player_now_ns;
bool player_drains;

static struct {
	const struct scenario *s;
	struct dice dice;
	const u64 *drive, *faults;
	u32 queues, tags;
	u64 time_ns;
	struct task tasks[TASKS_MAX];
	u32 task_count;
	struct flash *flash;
	u32 tags_used[QUEUES_MAX];
	u32 tags_of[QUEUES_MAX]
		   [LEVELS_MAX]; /* those of @tags_used that requests of each level hold */
	unsigned long runs, kicks; /* bitmaps of hardware queues that will be run */
	unsigned long offline; /* bitmap of hardware queues without an online CPU */
	bool busy; /* the drive has refused a request: the queues are run after BUSY_NS */
	struct io *held; /* the refused request, which stays in flight meanwhile */
	u64 armed_ns, in_system;
	u64 thaw_ns; /* end of a freeze, if all requests have ended by then */
	bool frozen;
	u64 events_done;
	u64 order;
} now;

static struct io_slot {
	struct flash_command command; /* must be first */
	struct io io;
} ios[IOS_MAX];
static u32 free_ios[IOS_MAX], free_count;
static struct event heap[EVENTS_MAX];
static u32 heap_count;
static jmp_buf failed;
static char failure[512];
static u64 requests_made;

void player_fail(const char *format, ...)
{
	va_list arguments;
	int used;

	va_start(arguments, format);
	used = vsnprintf(failure, sizeof(failure), format, arguments);
	va_end(arguments);
	snprintf(failure + used, sizeof(failure) - used, " (at %llu us)",
		 (unsigned long long)player_now_ns / 1000);
	longjmp(failed, 1);
}

/* --- events ---------------------------------------------------------------------------------------------------- */

static bool before(const struct event *a, const struct event *b)
{
	return a->at_ns < b->at_ns || (a->at_ns == b->at_ns && a->order < b->order);
}

static void push(u64 at_ns, enum event_kind kind, u32 argument)
{
	struct event event = { at_ns, now.order++, kind, argument };
	u32 i = heap_count++;

	if (i == EVENTS_MAX)
		abort();
	for (; i && before(&event, &heap[(i - 1) / 2]); i = (i - 1) / 2)
		heap[i] = heap[(i - 1) / 2];
	heap[i] = event;
}

static struct event pop(void)
{
	struct event first = heap[0], last = heap[--heap_count];
	u32 i = 0, child;

	while ((child = 2 * i + 1) < heap_count) {
		child += child + 1 < heap_count && before(&heap[child + 1], &heap[child]);
		if (!before(&heap[child], &last))
			break;
		heap[i] = heap[child];
		i = child;
	}
	heap[i] = last;
	return first;
}

void player_arm(u64 at_ns)
{
	now.armed_ns = at_ns;
	push(max(at_ns, player_now_ns), EVENT_TICK, 0);
}

static void run_later(u32 queue)
{
	if (now.runs & BIT(queue))
		return;
	now.runs |= BIT(queue);
	push(player_now_ns + RUN_NS, EVENT_RUN, queue);
}

static void run_all_later(void)
{
	u32 i;

	for (i = 0; i < now.queues; i++)
		run_later(i);
}

void player_run(u32 queue)
{
	if (now.kicks & BIT(queue))
		return;
	now.kicks |= BIT(queue);
	push(player_now_ns + dice_below(&now.dice, KICK_NS_MAX), EVENT_KICK, queue);
}

/* --- requests -------------------------------------------------------------------------------------------------- */

static struct io *make(u32 queue, const struct io *like, u32 sectors)
{
	struct io_slot *slot;

	if (!free_count)
		player_fail("the player has no request left");
	slot = &ios[free_ios[--free_count]];
	memset(slot, 0, sizeof(*slot));
	slot->io = *like;
	memset(slot->io.elv, 0, sizeof(slot->io.elv));
	INIT_LIST_HEAD(&slot->io.node);
	INIT_LIST_HEAD(&slot->io.law_node);
	slot->io.queue = queue;
	slot->io.sectors = sectors;
	slot->io.parts = 0;
	now.in_system++;
	requests_made++;
	return &slot->io;
}

/* The hardware queue that a task submits to; another CPU's while the task's own is offline. */
static u32 queue_of(const struct task *task)
{
	u32 queue = task->queue;

	while (now.offline & BIT(queue))
		queue = (queue + 1) % now.queues;
	return queue;
}

static void want_more(u32 task);

static void end_io(struct io *io)
{
	struct io *parent = io->parent;
	struct task *task = &now.tasks[io->task];
	u32 number = io->task;

	now.in_system--;
	free_ios[free_count++] = container_of(io, struct io_slot, io) - ios;
	if (parent) {
		if (!--parent->parts)
			end_io(parent);
		return;
	}
	if (!task->values[TASK_OPEN])
		push(player_now_ns + 1000 * task->values[TASK_THINK], EVENT_TASK, number);
}

static void take_tag(const struct io *io)
{
	now.tags_used[io->queue]++;
	now.tags_of[io->queue][io->level]++;
}

static void release_tag(u32 queue, u8 level)
{
	u32 i;

	now.tags_used[queue]--;
	now.tags_of[queue][level]--;
	for (i = 0; i < now.task_count; i++)
		if (now.tasks[i].waiting && queue_of(&now.tasks[i]) == queue)
			want_more(i);
}

static void finish(struct io *io)
{
	u32 queue = io->queue;
	u8 level = io->level;

	if (subject->finish(io))
		run_later(queue);
	end_io(io);
	release_tag(queue, level);
}

/* Submits a request to the drive. */
static void issue(struct io *io)
{
	static const u8 ops[] = { FLASH_READ, FLASH_WRITE, FLASH_DISCARD, FLASH_FLUSH };
	struct io_slot *slot = container_of(io, struct io_slot, io);

	slot->command.op = ops[io->op];
	slot->command.sectors = io->op == IO_FLUSH ? 0 : io->sectors;
	slot->command.sector = 8 * dice_below(&now.dice, 4096);
	sim_drive_submit(now.flash, io->queue, &slot->command, player_now_ns);
}

static void insert_pieces(struct io *whole, u32 sectors)
{
	struct io *pieces[1024];
	u32 left = whole->sectors, count = 0;

	while (left) {
		u32 n = min(left, sectors);

		pieces[count] = make(whole->queue, whole, n);
		pieces[count++]->parent = whole;
		take_tag(whole);
		left -= n;
	}
	whole->parts = count;
	subject->insert(pieces, count, false);
}

/* Returns whether a request has to be split before it is inserted. */
static bool is_large(const struct io *io)
{
	u32 piece = subject->piece ? subject->piece(io) : 0;

	return piece && io->sectors > piece && !io->whole;
}

static void insert(struct io *io)
{
	if (is_large(io) && io->sectors / subject->piece(io) < 1023) {
		insert_pieces(io, subject->piece(io));
		release_tag(io->queue, io->level);
	} else {
		subject->insert(&io, 1, false);
	}
}

/* Splits requests that turned out to be too large after they were queued; a worker inserts the pieces. */
static void take_large(struct list_head *large)
{
	while (!list_empty(large)) {
		struct io *io = list_first_entry(large, struct io, node);

		list_del_init(&io->node);
		push(player_now_ns + RUN_NS, EVENT_INSERT,
		     container_of(io, struct io_slot, io) - ios);
	}
}

static void run(u32 queue)
{
	while (!now.busy && subject->has_work(queue)) {
		struct list_head large;
		struct io *io;

		INIT_LIST_HEAD(&large);
		io = subject->dispatch(queue, &large);
		take_large(&large);
		if (!io)
			break;
		if (dice_percent(&now.dice, now.faults[FAULTS_BUSY])) {
			now.busy = true;
			now.held = io;
			push(player_now_ns + BUSY_NS, EVENT_BUSY, 0);
		} else {
			issue(io);
		}
	}
}

static bool is_merged(struct io *io)
{
	(void)io;
	return dice_percent(&now.dice, 50);
}

static void merge(void)
{
	struct list_head merged, *node;
	u32 count = 0;

	INIT_LIST_HEAD(&merged);
	if (subject->merge(&merged, is_merged))
		run_later(0);
	while (!list_empty(&merged)) {
		struct io *io;

		node = merged.next;
		io = list_entry(node, struct io, node);
		list_del_init(node);
		end_io(io);
		release_tag(io->queue, io->level);
		count++;
	}
}

static void complete(struct io *io)
{
	if (dice_percent(&now.dice, now.faults[FAULTS_REQUEUE])) {
		bool again = dice_percent(&now.dice, 50);
		u32 queue = io->queue;

		if (subject->requeue(io, again))
			run_later(queue);
		if (again)
			push(player_now_ns + RUN_NS, EVENT_INSERT,
			     container_of(io, struct io_slot, io) - ios);
		else
			issue(io);
		return;
	}
	finish(io);
}

/* --- tasks ----------------------------------------------------------------------------------------------------- */

static u8 op_of(const struct task *task)
{
	switch (task->values[TASK_OP] % TASK_OPS) {
	case TASK_READS:
		return IO_READ;
	case TASK_WRITES:
		return IO_WRITE;
	case TASK_MIXES:
		return dice_percent(&now.dice, 50) ? IO_READ : IO_WRITE;
	case TASK_DISCARDS:
		return IO_DISCARD;
	default:
		return IO_FLUSH;
	}
}

/* Submits the requests that the task wants, as far as there are tags. */
static void want_more(u32 number)
{
	struct task *task = &now.tasks[number];
	u32 submitted = 0, queue = queue_of(task);

	while (task->waiting && !now.frozen) {
		struct io like = {
			.level = min_t(u64, task->values[TASK_LEVEL], subject->levels - 1),
			.op = op_of(task),
			.whole = task->values[TASK_WHOLE],
			.task = number,
			.cgroup = task->values[TASK_CGROUP],
			.weight = task->values[TASK_WEIGHT],
		};
		u32 sectors = like.op == IO_FLUSH ? 0 : 2 * task->values[TASK_KIB];
		struct io *io;
		u32 limit = subject->limit ? subject->limit(&like, now.tags) : now.tags;

		if (now.tags_used[queue] >= limit)
			break;
		task->waiting--;
		submitted++;
		io = make(queue, &like, sectors);
		take_tag(io);
		if (subject->granted)
			subject->granted(io, now.tags_of[queue][io->level], now.tags);
		insert(io);
		if (subject->merge && dice_percent(&now.dice, now.faults[FAULTS_MERGE]))
			merge();
	}
	if (submitted)
		run_later(queue);
}

static void wake_task(u32 number)
{
	struct task *task = &now.tasks[number];

	if (player_now_ns >= min_t(u64, START_NS + 1000 * task->values[TASK_END], now.time_ns))
		return;
	if (task->waiting < 64)
		task->waiting++;
	want_more(number);
	if (task->values[TASK_OPEN])
		push(player_now_ns + 1000 * task->values[TASK_THINK] +
			     dice_below(&now.dice, 100 * task->values[TASK_THINK] + 1),
		     EVENT_TASK, number);
}

/* --- the play -------------------------------------------------------------------------------------------------- */

static void freeze(u64 for_us)
{
	u32 i;

	if (now.frozen)
		return;
	now.frozen = player_drains = true;
	now.thaw_ns = player_now_ns + 1000 * for_us;
	push(now.thaw_ns, EVENT_THAW, 0);
	for (i = 0; i < now.queues; i++)
		run(i);
}

static void thaw(void)
{
	u32 i;

	if (!now.frozen || player_now_ns < now.thaw_ns)
		return;
	if (now.in_system) {
		push(player_now_ns + BUSY_NS, EVENT_THAW, 0);
		return;
	}
	now.frozen = player_drains = false;
	for (i = 0; i < now.task_count; i++)
		want_more(i);
}

/* Takes the last CPU of a hardware queue offline, or brings it back. One queue always has a CPU. */
static void move_cpu(u32 queue, bool goes)
{
	u32 i;

	if (goes == !!(now.offline & BIT(queue)) ||
	    (now.offline | BIT(queue)) == BIT(now.queues) - 1)
		return;
	now.offline ^= BIT(queue);
	if (subject->leave)
		subject->leave(queue, goes);
	for (i = 0; i < now.task_count; i++)
		want_more(i);
}

static void happen(const struct event *event)
{
	struct io *io = &ios[event->argument].io;
	const u64 *values = now.s->lines[event->argument].values;

	switch (event->kind) {
	case EVENT_RUN:
		now.runs &= ~BIT(event->argument);
		run(event->argument);
		break;
	case EVENT_KICK:
		now.kicks &= ~BIT(event->argument);
		run(event->argument);
		break;
	case EVENT_TASK:
		wake_task(event->argument);
		break;
	case EVENT_TICK:
		if (now.armed_ns > player_now_ns || !now.armed_ns)
			break;
		now.armed_ns = 0;
		if (subject->tick())
			run(0);
		break;
	case EVENT_SET:
		if (subject->set(values[SET_NUMBER], values[SET_VALUE]))
			run_later(0);
		break;
	case EVENT_FREEZE:
		freeze(values[FREEZE_FOR]);
		break;
	case EVENT_THAW:
		thaw();
		break;
	case EVENT_OFFLINE:
		move_cpu(values[OFFLINE_QUEUE] % now.queues, true);
		push(player_now_ns + 1000 * values[OFFLINE_FOR], EVENT_ONLINE, event->argument);
		break;
	case EVENT_ONLINE:
		move_cpu(values[OFFLINE_QUEUE] % now.queues, false);
		break;
	case EVENT_INSERT:
		if (io->parts == 0 && !io->parent && is_large(io) && !io->urgent)
			insert(io);
		else
			subject->insert(&io, 1, dice_percent(&now.dice, 50));
		run_later(io->queue);
		break;
	case EVENT_BUSY:
		now.busy = false;
		issue(now.held);
		now.held = NULL;
		run_all_later();
		break;
	}
}

static void advance_drive(void)
{
	struct list_head done;

	INIT_LIST_HEAD(&done);
	sim_drive_advance(now.flash, player_now_ns, &done);
	while (!list_empty(&done)) {
		struct flash_command *command = list_first_entry(&done, struct flash_command, node);

		list_del_init(&command->node);
		complete(&((struct io_slot *)command)->io);
	}
}

static void set_up_drive(void)
{
	struct flash_parameters parameters = FLASH_PARAMETERS_DEFAULT;
	const struct flash_parameter_info *wrong;
	const char *expected;

	parameters.queues = now.queues;
	parameters.capacity_mib = 64;
	parameters.max_kib = 65535;
	parameters.slots = min_t(u64, now.drive[DRIVE_SLOTS], 65535);
	parameters.dies = min_t(u64, now.drive[DRIVE_DIES], 255);
	parameters.read_ns = 1000 * now.drive[DRIVE_READ];
	parameters.program_ns = 1000 * now.drive[DRIVE_PROGRAM];
	parameters.buffer_kib = now.drive[DRIVE_BUFFER];
	parameters.discard_ns = 1000 * now.drive[DRIVE_DISCARD];
	parameters.read_rare_ppm = RARE_PPM;
	parameters.read_rare_ns = 1000 * now.drive[DRIVE_READ_RARE];
	parameters.write_rare_ppm = RARE_PPM;
	parameters.write_rare_ns = 1000 * now.drive[DRIVE_WRITE_RARE];
	parameters.drain_kib_ns = now.drive[DRIVE_DRAIN];
	parameters.stall_kib = now.drive[DRIVE_STALL] ? STALL_KIB : 0;
	parameters.stall_ns = 1000 * now.drive[DRIVE_STALL];
	parameters.erase_kib = 0;
	parameters.seed = now.dice.state;
	now.flash = sim_drive_create(&parameters, &wrong, &expected);
	if (!now.flash)
		player_fail("the drive does not take %s", wrong ? wrong->name : "memory");
}

static void set_up(const struct scenario *s)
{
	u32 i;

	memset(&now, 0, sizeof(now));
	now.s = s;
	heap_count = 0;
	player_now_ns = START_NS;
	player_drains = false;
	for (free_count = 0; free_count < IOS_MAX; free_count++)
		free_ios[free_count] = IOS_MAX - 1 - free_count;
	for (i = 0; i < s->count; i++) {
		const u64 *values = s->lines[i].values;

		switch (s->lines[i].kind) {
		case SCENARIO_SEED:
			now.dice.state = values[0];
			break;
		case SCENARIO_QUEUES:
			now.queues = min_t(u64, values[0], QUEUES_MAX);
			break;
		case SCENARIO_TAGS:
			now.tags = values[0];
			break;
		case SCENARIO_TIME:
			now.time_ns = player_now_ns + 1000 * values[0];
			break;
		case SCENARIO_DRIVE:
			now.drive = values;
			break;
		case SCENARIO_FAULTS:
			now.faults = values;
			break;
		default:
			break;
		}
	}
}

static void begin(const struct scenario *s)
{
	static const u64 no_faults[SCENARIO_FIELDS];
	u32 i;

	now.faults = now.faults ? now.faults : no_faults;
	if (!now.queues || !now.tags || !now.drive || !now.time_ns)
		player_fail("the scenario lacks queues, tags, time or drive");
	set_up_drive();
	subject->create(now.queues);
	for (i = 0; i < s->count; i++) {
		const u64 *values = s->lines[i].values;
		struct task *task = &now.tasks[now.task_count];
		u64 j;

		switch (s->lines[i].kind) {
		case SCENARIO_KNOB:
			subject->set(values[KNOB_NUMBER], values[KNOB_VALUE]);
			break;
		case SCENARIO_SET:
			push(START_NS + 1000 * values[SET_AT], EVENT_SET, i);
			break;
		case SCENARIO_FREEZE:
			push(START_NS + 1000 * values[FREEZE_AT], EVENT_FREEZE, i);
			break;
		case SCENARIO_OFFLINE:
			push(START_NS + 1000 * values[OFFLINE_AT], EVENT_OFFLINE, i);
			break;
		case SCENARIO_TASK:
			if (now.task_count == TASKS_MAX)
				player_fail("too many tasks");
			task->values = values;
			task->queue = now.task_count % now.queues;
			for (j = 0; j < (values[TASK_OPEN] ? 1 : values[TASK_DEPTH]) && j < 256;
			     j++)
				push(START_NS + 1000 * values[TASK_BEGIN], EVENT_TASK,
				     now.task_count);
			now.task_count++;
			break;
		default:
			break;
		}
	}
}

static void go_on(void)
{
	for (;;) {
		u64 drive_ns = sim_drive_next_ns(now.flash),
		    event_ns = heap_count ? heap[0].at_ns : NEVER;

		if (drive_ns == NEVER && event_ns == NEVER)
			break;
		/* limit reached: tasks stop, and requests that have begun end */
		if (++now.events_done == EVENTS_LIMIT)
			now.time_ns = min(now.time_ns, player_now_ns);
		if (min(drive_ns, event_ns) > now.time_ns + DRAIN_NS)
			player_fail("%llu requests have not ended",
				    (unsigned long long)now.in_system);
		player_now_ns = max(player_now_ns, min(drive_ns, event_ns));
		if (drive_ns <= event_ns) {
			advance_drive();
		} else {
			struct event event = pop();

			happen(&event);
		}
		subject->check(now.busy ? BIT(now.queues) - 1 : now.runs | now.kicks, now.armed_ns);
	}
	if (now.in_system)
		player_fail("%llu requests are stranded", (unsigned long long)now.in_system);
	subject->destroy();
}

const char *play(const struct scenario *s)
{
	volatile bool broken = true;

	set_up(s);
	if (!setjmp(failed)) {
		begin(s);
		go_on();
		broken = false;
	}
	if (now.flash)
		sim_drive_destroy(now.flash);
	now.flash = NULL;
	return broken ? failure : NULL;
}

uint64_t play_requests(void)
{
	return requests_made;
}
