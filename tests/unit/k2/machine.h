/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A machine around K2: threads that submit, a small blk-mq, a drive, completions. As in blk-mq, a hardware queue is run after an insertion;
 * when a completion, a merge or K2's timer asks for it; when a freeze begins; and after a knob has changed. Nothing else runs it, so a lost
 * wake-up strands requests.
 *
 * The file that includes this says how its threads wait for each other:
 *
 *	machine_enter(), machine_leave()   around accesses to struct machine
 *	machine_wait()                     inside: returns after another thread has called machine_changed(), or later
 *	machine_changed()                  inside
 *	machine_random(n)                  0 to n - 1
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* few, so that they run short */
#define AHEAD_FLOWS 2
#define K2_EXPERIMENTS
#include "../../../sched/k2.h"

#define MACHINE_CTXS 4

struct io {
	struct k2_entry entry;
	struct list_head node;
	unsigned int ctx;
	unsigned int level;
	unsigned int sectors;
	unsigned int key; /* identity within a level, for flows */
	bool urgent;
	bool discards;
	bool writes;
	u64 sequence; /* number of its insertion in its ctx */
	unsigned int met_sectors; /* sectors in the drive when it was picked, at least */
	unsigned int left; /* times it ended, by completion or by removal */
	unsigned int returns; /* how often the drive will still give it back */
};

#include "io.h"

static bool k2_may_split(struct k2_entry *e)
{
	(void)e;
	return true;
}

static void k2_picked(struct k2_entry *e);
static bool k2_draining(const struct k2 *k2);
static u64 k2_now(const struct k2 *k2);
static void k2_arm(struct k2 *k2, u64 at_ns);

#ifdef K2_OBSERVED
static unsigned int k2_observer(void);
static void k2_observe_hold(const struct k2 *k2, const struct bound_request *refusal);
static void k2_observe_release(const struct k2 *k2, enum k2_release why, u64 held_ns);

static void k2_observe_arrival(const struct k2 *k2, unsigned int flow, u64 arrived_ns, s64 error_ns,
			       bool in_time)
{
	(void)k2, (void)flow, (void)arrived_ns, (void)error_ns, (void)in_time;
}

static void k2_observe_rt_end(const struct k2 *k2, struct k2_entry *e, const struct k2_note *note,
			      u64 now_ns);
#endif

#include "../../../sched/k2.c"

static struct machine {
	struct io *ios;
	unsigned int io_count;
	unsigned int submitted;
	unsigned int left;
	struct list_head drive; /* dispatched requests */
	struct list_head returned; /* requests to insert again */
	unsigned int in_drive;
	unsigned int sectors_in_drive;
	unsigned int kib_max; /* largest bound on bytes so far; 0: there was none */
	unsigned int bound_max; /* largest value of inflight_max so far */
	bool is_active; /* bounds and splitting are in force only during real-time activity */
	bool is_ahead; /* the bound on bytes looks ahead */
	bool has_target; /* a target moves the bounds */
	bool owes; /* the debt of writes is bounded */
	bool has_discards; /* discards may be held */
	bool has_floor; /* the floor lets the background pass real-time requests and bounds */
	bool freezes; /* the queue is frozen now and then */
	bool drains_for_good; /* the queue stays frozen: only completions happen, and the timer never fires */
	int draining; /* read by K2 without a lock */
	bool discards_switched; /* the bound on discards was switched off for a time */
	unsigned int discards_in_drive; /* discards dispatched under the bound */
	bool ticking; /* a thread handles the timer */
	u64 now_ns; /* the clock, if one of these needs it; it moves only at arrivals and ticks */
	u64 armed_ns; /* expiry of the timer; 0: not armed */
	bool run[MACHINE_CTXS]; /* kblockd has to run the hardware queue */
} machine;

static u64 seed;
static struct k2 *k2;
static struct k2_ctx *ctxs[MACHINE_CTXS];
static u64 sequence[MACHINE_CTXS]; /* protected by sequence_locks[] */
static spinlock_t sequence_locks[MACHINE_CTXS];
static u64 picked_sequence[MACHINE_CTXS][K2_LISTS]; /* protected by k2->lock */

#define must(condition)                               \
	do {                                          \
		if (!(condition))                     \
			broken(#condition, __LINE__); \
	} while (0)

static void machine_enter(void);
static void machine_leave(void);
static void machine_wait(void);
static void machine_changed(void);
static unsigned int machine_random(unsigned int n);

static void broken(const char *condition, int line)
{
	printf("seed %llu, machine.h line %d: not so: %s\n", (unsigned long long)seed, line,
	       condition);
	fflush(stdout);
	_exit(1);
}

#ifdef K2_OBSERVED
static bool held; /* protected by k2->lock */

/* Observation is on in every other schedule. */
static unsigned int k2_observer(void)
{
	return seed % 2;
}

static void k2_observe_hold(const struct k2 *drive, const struct bound_request *r)
{
	bool is_of_bytes = r->why != K2_HOLD_COUNT && r->why != K2_HOLD_DISCARD;

	(void)drive;
	must(!held);
	held = true;
	must(r->sectors || !is_of_bytes);
	must(r->why != K2_HOLD_AHEAD || machine.is_ahead || machine.has_target);
	must(!is_of_bytes || machine.owes || r->met + r->sectors > r->limit);
}

static void k2_observe_release(const struct k2 *drive, enum k2_release why, u64 held_ns)
{
	(void)drive, (void)why, (void)held_ns;
	must(held);
	held = false;
}

static void k2_observe_rt_end(const struct k2 *drive, struct k2_entry *e,
			      const struct k2_note *note, u64 now_ns)
{
	(void)drive, (void)note, (void)now_ns;
	must(((struct io *)e)->level != K2_BACKGROUND);
}
#endif

static bool k2_draining(const struct k2 *drive)
{
	(void)drive;
	return READ_ONCE(machine.draining);
}

static bool machine_has_clock(void)
{
	return machine.is_ahead || machine.owes || machine.has_discards || machine.has_floor;
}

/* Lets real-time activity seem to have ended, at random. */
static u64 k2_now(const struct k2 *drive)
{
	static u64 now_ns;

	(void)drive;
	if (machine_has_clock())
		return __atomic_load_n(&machine.now_ns, __ATOMIC_RELAXED);
	if (!machine.is_active)
		return 0;
	return __atomic_add_fetch(&now_ns, machine_random(4) ? 1000 : ACTIVITY_GRACE_NS_MIN,
				  __ATOMIC_RELAXED);
}

static void k2_picked(struct k2_entry *e)
{
	struct io *io = (struct io *)e;
	u64 *last = &picked_sequence[io->ctx][e->list];
	unsigned int list, before = e->list;

	must(e->state == K2_QUEUED);
	/* first in, first out, for each ctx and list */
	must(io->sequence > *last);
	*last = io->sequence;
	/* by its floor the background may pass real-time requests; either of its two lists may be first */
	if (before >= K2_LIST_BACKGROUND)
		before = machine.has_floor ? K2_LIST_URGENT + 1 : K2_LIST_BACKGROUND;
	for (list = 0; list < before; list++)
		must(list_empty(&k2->levels.lists[list])); /* no more urgent entry is staged */
	io->met_sectors = __atomic_load_n(&machine.sectors_in_drive, __ATOMIC_RELAXED);
}

static bool may_be_held(const struct io *io)
{
	return io->entry.list == K2_LIST_DISCARDS;
}

static void count_sectors(unsigned int sectors)
{
	__atomic_add_fetch(&machine.sectors_in_drive, sectors, __ATOMIC_RELAXED);
}

/* Are the bounds always in force, and exact? Debt, looking ahead and targets only lower them. */
static bool is_exact(void)
{
	return !machine.is_active && !machine.has_floor && !machine.freezes;
}

static void run_here(unsigned int ctx)
{
	(void)ctx;
	while (k2_has_work(k2)) {
		LIST_HEAD(large);
		struct k2_entry *e = k2_dispatch(k2, k2_now(k2), &large);
		struct io *io, *next;

		machine_enter();
		/* one piece stands for all pieces of an entry that is to be split */
		list_for_each_entry_safe(io, next, &large, node) {
			must(io->level == K2_BACKGROUND && io->sectors > 8);
			list_del_init(&io->node);
			io->sectors = 8;
			list_add_tail(&io->node, &machine.returned);
			machine_changed();
		}
		if (!e) {
			machine_leave();
			break;
		}
		io = (struct io *)e;
		must(++machine.in_drive <= machine.bound_max || machine.is_active);
		must(e->list < K2_LIST_BACKGROUND || !machine.kib_max || !is_exact() ||
		     !io->sectors || !io->met_sectors ||
		     io->met_sectors + io->sectors <= 2 * machine.kib_max);
		count_sectors(io->sectors);
		machine.discards_in_drive += may_be_held(io);
		must(machine.discards_in_drive <= 1 || machine.discards_switched || !is_exact());
		list_add_tail(k2_node(e), &machine.drive);
		machine_changed();
		machine_leave();
	}
}

/* blk_mq_run_hw_queue() */
static void run(unsigned int ctx, bool async)
{
	if (!k2_has_work(k2))
		return;
	if (!async) {
		run_here(ctx);
		return;
	}
	machine_enter();
	machine.run[ctx] = true;
	machine_changed();
	machine_leave();
}

/* Runs a random hardware queue from a context that must not dispatch. */
static void run_any(void)
{
	run(machine_random(k2->levels.ctx_count), true);
}

static void run_all(bool async)
{
	unsigned int ctx;

	for (ctx = 0; ctx < k2->levels.ctx_count; ctx++)
		run(ctx, async);
}

static void k2_arm(struct k2 *drive, u64 at_ns)
{
	(void)drive;
	machine_enter();
	machine.armed_ns = at_ns;
	machine_changed();
	machine_leave();
}

/* Begins to handle the timer; the caller is in the machine. Return: false if it is not armed, or another thread handles it. */
static bool begin_tick(void)
{
	if (!machine.armed_ns || machine.ticking || machine.drains_for_good)
		return false;
	if (machine.armed_ns > __atomic_load_n(&machine.now_ns, __ATOMIC_RELAXED))
		__atomic_store_n(&machine.now_ns, machine.armed_ns, __ATOMIC_RELAXED);
	machine.armed_ns = 0;
	machine.ticking = true;
	return true;
}

static void tick(void)
{
	if (k2_tick(k2))
		run_any();
	machine_enter();
	machine.ticking = false;
	machine_changed();
	machine_leave();
}

/* blk_freeze_queue_start() runs the queues. All queued requests are dispatched, and no timer is needed for that. */
static void freezer(unsigned int times)
{
	for (; times; times--) {
		WRITE_ONCE(machine.draining, 1);
		run_all(machine_random(2));
		if (machine.drains_for_good)
			return;
		WRITE_ONCE(machine.draining, 0);
	}
}

/* Arrival time of an entry: real-time entries arrive at regular intervals. */
static u64 arrival_ns(const struct io *io)
{
	if (!machine_has_clock())
		return 0;
	if (io->level == K2_BACKGROUND)
		return __atomic_load_n(&machine.now_ns, __ATOMIC_RELAXED);
	/* when an entry with a flow of its own arrives, other flows have gone */
	return __atomic_add_fetch(&machine.now_ns, io->key ? 200000000 : 1000000, __ATOMIC_RELAXED);
}

static void insert(struct io *io, bool urgent)
{
	LIST_HEAD(entries);

	io->urgent = urgent;
	k2_prepare(k2, &io->entry, io->level, urgent, io->discards, arrival_ns(io));
	list_add_tail(&io->node, &entries);
	spin_lock(&sequence_locks[io->ctx]);
	io->sequence = ++sequence[io->ctx];
	levels_insert(&k2->levels, ctxs[io->ctx], &entries);
	spin_unlock(&sequence_locks[io->ctx]);
}

static bool all_left(void)
{
	return machine.left == machine.io_count;
}

static void end(struct io *io)
{
	must(!io->left++);
	machine.left++;
	machine_changed();
}

static void submitter(void)
{
	for (;;) {
		struct io *io = NULL;
		unsigned int ctx;

		machine_enter();
		if (machine.submitted < machine.io_count)
			io = &machine.ios[machine.submitted++];
		machine_leave();
		if (!io)
			break;
		/* once an entry is inserted, it may end at any time */
		ctx = io->ctx;
		insert(io, false);
		run(ctx, machine_random(2));
	}
}

static void kblockd(void)
{
	machine_enter();
	while (!all_left()) {
		struct io *io = NULL;
		unsigned int ctx;

		if (!list_empty(&machine.returned)) {
			io = list_first_entry(&machine.returned, struct io, node);
			list_del_init(&io->node);
			ctx = io->ctx;
			machine_leave();
			insert(io, machine_random(4));
			run(ctx, false);
			machine_enter();
			continue;
		}
		for (ctx = 0; ctx < k2->levels.ctx_count && !machine.run[ctx]; ctx++)
			;
		if (ctx < k2->levels.ctx_count) {
			machine.run[ctx] = false;
			machine_leave();
			run_here(ctx);
			machine_enter();
			continue;
		}
		if (begin_tick()) {
			machine_leave();
			tick();
			machine_enter();
			continue;
		}
		machine_wait();
	}
	machine_leave();
}

/* Fires the timer as soon as it is armed. Without this thread kblockd() does so when it has nothing else to do. */
static void timer(void)
{
	machine_enter();
	while (!all_left()) {
		if (!begin_tick()) {
			machine_wait();
			continue;
		}
		machine_leave();
		tick();
		machine_enter();
	}
	machine_leave();
}

/* The drive completes in any order, and gives requests back. */
static void completer(void)
{
	machine_enter();
	while (!all_left()) {
		struct list_head *node = machine.drive.next;
		unsigned int skip;
		struct io *io;
		bool given_back, again;

		if (list_empty(&machine.drive)) {
			machine_wait();
			continue;
		}
		for (skip = machine_random(machine.in_drive); skip; skip--)
			node = node->next == &machine.drive ? machine.drive.next : node->next;
		io = list_entry(node, struct io, node);
		list_del_init(node);
		given_back = io->returns;
		again = given_back && machine_random(2);
		io->returns -= given_back;
		if (!given_back || again) {
			machine.in_drive--;
			count_sectors(-io->sectors);
			machine.discards_in_drive -= may_be_held(io);
		}
		machine_leave();
		if ((!given_back || again) && k2_finish(k2, &io->entry, again))
			run_any();
		machine_enter();
		if (again)
			list_add_tail(&io->node, &machine.returned);
		else if (given_back)
			list_add_tail(&io->node, &machine.drive);
		else
			end(io);
		machine_changed();
	}
	machine_leave();
}

/* Ends an entry that was merged into another; it is never urgent. */
static void visit(struct k2_entry *e, void *argument)
{
	struct io *io = (struct io *)e;
	struct list_head *merged = argument;

	must(e->state == K2_QUEUED && !io->urgent);
	if (machine_random(4))
		return;
	k2_remove(k2, e);
	list_add_tail(&io->node, merged);
}

/* bio_merge of a bio that joined a request: nothing is inserted, and a queue is run only if K2 asks for it. */
static void merger(unsigned int times)
{
	for (; times; times--) {
		LIST_HEAD(merged);
		struct io *io, *next;

		if (!k2_merge_begin(k2))
			continue;
		k2_visit_new(k2, K2_BACKGROUND, visit, &merged);
		if (k2_merge_end(k2))
			run_any();
		list_for_each_entry_safe(io, next, &merged, node) {
			list_del_init(&io->node);
			must(!k2_finish(k2, &io->entry, false));
			machine_enter();
			end(io);
			machine_leave();
		}
	}
}

/*
 * Switches the bound on discards off and on again. Held discards become ordinary background requests, and discards dispatched meanwhile are
 * not counted.
 */
static void switch_discards(void)
{
	machine_enter();
	machine.discards_switched = true;
	machine_leave();
	must(!k2_configure(k2, K2_KNOB_discard_kib_max, 0));
	must(!k2_configure(k2, K2_KNOB_discard_kib_max, 64));
}

static void configurer(unsigned int times)
{
	for (; times; times--) {
		must(!k2_configure(k2, K2_KNOB_inflight_max,
				   machine_random(2) ? 1 : 1 + machine_random(machine.bound_max)));
		if (machine.kib_max)
			must(!k2_configure(k2, K2_KNOB_inflight_kib_max,
					   1 + machine_random(machine.kib_max)));
		must(!k2_configure(k2, K2_KNOB_split_kib, 4 * machine_random(10)));
		if (machine.has_discards && !machine_random(4))
			switch_discards();
		run_all(true);
	}
}

/* Gives K2 a history: arrivals that make the next one expected, and the drive's rate. */
static void learn(void)
{
	unsigned int flow, i;

	spin_lock(&k2->lock);
	k2->ahead.rate = 1U << 31;
	for (i = 0; i < 4; i++) {
		machine.now_ns += 1000000;
		for (flow = 0; flow < 2; flow++) {
			must(ahead_find(&k2->ahead, flow, 0, machine.now_ns) == flow);
			ahead_rt_went(&k2->ahead, flow, false, machine.now_ns, machine.now_ns);
			ahead_ended(&k2->ahead, flow, true, machine.now_ns + 100000);
		}
	}
	spin_unlock(&k2->lock);
	must(k2->ahead.predicted == 3);
	machine.now_ns += machine_random(1500) * 1000;
	k2->ahead.rate = machine_random(4) ? 1 + machine_random(1 << 20) : 0;
	k2_apply(k2);
}

static void machine_init(unsigned int ctx_count, unsigned int io_count, unsigned int bound_max)
{
	unsigned int i;

	memset(&machine, 0, sizeof(machine));
	memset(sequence, 0, sizeof(sequence));
	memset(picked_sequence, 0, sizeof(picked_sequence));
	INIT_LIST_HEAD(&machine.drive);
	INIT_LIST_HEAD(&machine.returned);
#ifdef K2_OBSERVED
	held = false;
#endif
	machine.is_ahead = machine_random(2);
	machine.owes = machine_random(2);
	machine.has_discards = machine_random(2);
	machine.has_floor = !machine_random(3);
	machine.freezes = !machine_random(3);
	machine.drains_for_good = machine.freezes && machine_random(2);
	machine.io_count = io_count;
	machine.bound_max = bound_max;
	machine.ios = calloc(io_count, sizeof(*machine.ios));
	for (i = 0; i < io_count; i++) {
		struct io *io = &machine.ios[i];

		INIT_LIST_HEAD(&io->node);
		io->ctx = machine_random(ctx_count);
		io->level = machine_random(2) ? K2_BACKGROUND : machine_random(K2_LEVELS);
		if (machine.is_ahead && io->level != K2_BACKGROUND)
			io->level = machine_random(2);
		io->key = i % 3 == 2 ? i : 0;
		io->sectors = machine_random(3) ? 8 : 8 * (1 + machine_random(32));
		io->writes = machine_random(2);
		io->returns = machine_random(5) ? 0 : machine_random(3);
		if (io->level == K2_BACKGROUND && machine.has_discards && machine_random(2)) {
			io->discards = true;
			io->sectors = 0;
		}
	}
	k2 = aligned_alloc(64, sizeof(*k2));
	memset(k2, 0, sizeof(*k2));
	for (i = 0; i < ctx_count; i++) {
		ctxs[i] = aligned_alloc(64, sizeof(*ctxs[i]));
		memset(ctxs[i], 0, sizeof(*ctxs[i]));
		spin_lock_init(&sequence_locks[i]);
	}
	k2_init(k2, ctxs, ctx_count, 1);
	must(!k2_configure(k2, K2_KNOB_inflight_max, 1 + machine_random(bound_max)));
	machine.is_active = machine_random(2);
	must(!k2_configure(k2, K2_KNOB_bound_when, machine.is_active));
	must(!k2_configure(k2, K2_KNOB_be_floor_iops, machine.has_floor * 1000));
	must(!k2_configure(k2, K2_KNOB_split_kib, machine_random(2) * 16));
	machine.kib_max = machine_random(2) ? 0 : 4 + machine_random(150);
	must(!k2_configure(k2, K2_KNOB_inflight_kib_max, machine.kib_max));
	must(!k2_configure(k2, K2_KNOB_bound_mode, machine.is_ahead));
	must(!k2_configure(k2, K2_KNOB_discard_kib_max, machine.has_discards * 64));
	must(!k2_configure(k2, K2_KNOB_ahead_lo_kib, machine_random(2) * machine_random(16)));
	must(!k2_configure(k2, K2_KNOB_ahead_hi_kib, 1 + machine_random(32)));
	must(!k2_configure(k2, K2_KNOB_ahead_fallback_kib, 1 + machine_random(32)));
	must(!k2_configure(k2, K2_KNOB_ahead_lead_us, machine_random(2) * 200));
	machine.has_target = (machine.is_ahead || machine.owes) && machine_random(2);
	must(!k2_configure(k2, K2_KNOB_rt_target_us,
			   machine.has_target ? 1 + machine_random(2000) : 0));
	must(!k2_configure(k2, K2_KNOB_rt_target_percentile, machine_random(2)));
	must(!k2_configure(k2, K2_KNOB_write_debt_kib_max,
			   machine.owes ? 1 + machine_random(150) : 0));
	if (machine.is_ahead)
		learn();
	/* a known rate, and a debt */
	if (machine.owes && machine_random(4)) {
		k2->debt.rate = 1 + machine_random(1 << 20);
		k2->debt.empty_ns = machine.now_ns + machine_random(1 << 30);
	}
}

static void machine_deinit(void)
{
	unsigned int i, level;
	u64 inserted, dispatched = 0, all = 0;

	must(all_left());
	for (i = 0; i < AHEAD_FLOWS; i++)
		must(!atomic_read(&k2->ahead.flows[i].inflight));
	for (i = 0; i < machine.io_count; i++)
		must(machine.ios[i].left == 1);
	must(k2_deinit(k2));
	for (level = 0; level < K2_LEVELS; level++) {
		inserted = 0;
		for (i = 0; i < k2->levels.ctx_count; i++)
			inserted += ctxs[i]->inserted[level];
		if (level == K2_BACKGROUND)
			inserted -= k2->taken;
		must(inserted == k2->dispatched[level] + k2->removed[level]);
		dispatched += k2->dispatched[level];
		for (i = 0; i < K2_WAIT_BUCKETS; i++)
			all += k2->wait[level][i];
	}
	must(dispatched == all);
	must(!atomic_read(&k2->rt_inflight_all) && !k2->notes_used);
	for (i = 0; i < k2->levels.ctx_count; i++)
		free(ctxs[i]);
	free(k2);
	free(machine.ios);
}
