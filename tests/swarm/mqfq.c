// SPDX-License-Identifier: GPL-2.0-only
/*
 * MQFQ as the subject, and its laws. The laws do their own accounting of queued requests, of requests in the drive, and of costs. From MQFQ
 * they read start tags and virtual time.
 */
#include <linux/list.h>
#include <linux/rbtree.h>

#include "../../sched/mqfq.h"
#include "subject.h"

/* Shorter than in the kernel, so that automatic knobs change within a play of a second. */
#define PERIOD_NS 1000000

_Static_assert(sizeof(struct mqfq_entry) <= sizeof(((struct io *)0)->elv), "size");

static inline struct mqfq_entry *mqfq_entry(struct io *io)
{
	return (struct mqfq_entry *)io->elv;
}

static inline struct io *mqfq_io(struct mqfq_entry *e)
{
	return container_of((void *)e, struct io, elv);
}

static inline struct list_head *mqfq_node(struct mqfq_entry *e)
{
	return &mqfq_io(e)->node;
}

static inline struct mqfq_entry *mqfq_entry_of(struct list_head *node)
{
	return mqfq_entry(list_entry(node, struct io, node));
}

static inline struct rb_node *mqfq_rb_node(struct mqfq_entry *e)
{
	return &mqfq_io(e)->rb_node;
}

static inline struct mqfq_entry *mqfq_entry_of_rb(struct rb_node *node)
{
	return mqfq_entry(rb_entry(node, struct io, rb_node));
}

static void mqfq_run(struct mqfq *m, unsigned int hctx);

static unsigned int mqfq_period(const struct mqfq *m)
{
	(void)m;
	return player_now_ns / PERIOD_NS;
}

static u64 mqfq_now(const struct mqfq *m)
{
	(void)m;
	return player_now_ns;
}

static unsigned int mqfq_sectors(struct mqfq_entry *e)
{
	return mqfq_io(e)->op <= IO_WRITE ? mqfq_io(e)->sectors : 0;
}

#include "../../sched/mqfq.c"

#include "../unit/mqfq/create.h"

/* MQFQ's queues: some CPUs for each hardware queue. */
#define CPUS 2
#define QUEUES (QUEUES_MAX * CPUS)
/* Flows are cgroups, then processes. The first cgroups are at the top, the others are children of one parent. */
#define CGROUPS 16
#define CGROUPS_TOP 3
#define PARENT 100
#define PROCESSES 16
/* Flows without a place in the table share one entry, and count as one flow. */
#define OTHERS (CGROUPS + PROCESSES)
#define FLOWS (OTHERS + 1)
/* Places in the table of flows that are free at the start: fewer than there may be flows. */
#define PLACES 4
/*
 * Lines: requests that leave a queue in the order of insertion. A queue has a line for each flow, and for each level that is not shared
 * fairly.
 */
#define LINES (FLOWS + WAITING_LEVELS)
/* Virtual time at the start, so that it wraps around after 32 MiB. */
#define BEGIN (-(SHARES_SECTOR << 16))

static struct mqfq mqfq;

/**
 * struct law_queue - the laws' account of a queue
 * @queued: number of queued requests, by level
 * @lines: queued requests by line, oldest first
 * @refused: when its hardware queue was last run, none of its requests was allowed to go; since then nothing was inserted, and no run was
 * asked for
 * @told: virtual time knows the queue's least start tag: it was refused, and has had requests of flows ever since
 * @idle_since: period in which its first class-idle request was inserted, or in which the one before that was dispatched
 * @idle_waited: that period was over MQFQ_IDLE_PERIODS ago at the latest insertion into any queue
 * @runnable: MQFQ counts the queue as runnable while its hardware queue is run
 * @leaves: its hardware queue has no online CPU
 * @has_left: its hardware queue was without a CPU, and it may still have tokens from that time
 * @passed: requests of other queues dispatched at its real-time level since it was refused
 */
struct law_queue {
	u32 queued[WAITING_LEVELS];
	struct list_head lines[LINES];
	bool refused, told;
	u32 idle_since;
	bool idle_waited;
	bool runnable;
	bool leaves, has_left;
	u64 passed;
};

/**
 * struct law_flow - the laws' account of a flow
 * @price: tag units for a sector
 * @cost_most: highest cost of a request of the flow
 * @start: start tag of the latest inserted request
 * @end: highest end tag of a dispatched request
 * @served: total cost of its dispatched requests, without those that virtual time had passed
 * @queued: number of queued requests
 * @in_window: see update_windows()
 * @least: by other flow, the least difference within the window between that flow's @served and this one's
 */
struct law_flow {
	u64 price, cost_most, start, end, served;
	u32 queued;
	bool in_window;
	s64 least[FLOWS];
};

/**
 * struct law_place - the laws' account of a place in the table of flows
 * @requests: dispatched requests
 * @sectors: sectors of @requests
 * @before: @requests at the time when the present flow got the place
 * @sectors_before: @sectors at that time
 * @idle: completions that left a slot idle, because the queue waited for this flow to come near virtual time
 * @taken: a flow has the place
 */
struct law_place {
	u64 requests, sectors, before, sectors_before, idle;
	bool taken;
};

static struct {
	u64 vt, t;
	u64 inserted, dispatched, inflight, sectors[2];
	u32 queued[WAITING_LEVELS];
	unsigned int d_most;
	struct law_queue queues[QUEUES];
	struct law_flow flows[FLOWS];
	struct law_place places[FLOWS_COUNT];
} law;

/* Keys of flows. The search for a place begins at the same place for all, so a flow that was idle for a while loses its place. */
static u64 keys[OTHERS];

static void mqfq_run(struct mqfq *m, unsigned int hctx)
{
	unsigned int i;

	for (i = 0; i < m->hctxs[hctx].count; i++)
		law.queues[m->hctxs[hctx].queues[i]].refused = false;
	player_run(hctx);
}

static u64 queued_requests(void)
{
	return law.inserted - law.dispatched;
}

static struct io *first_in(unsigned int queue, unsigned int line)
{
	return list_first_entry_or_null(&law.queues[queue].lines[line], struct io, law_node);
}

/* The bounds as they are set. No law checks automatic values. */
static u64 d_now(void)
{
	return mqfq_is_auto(&mqfq, MQFQ_KNOB_d) ? mqfq.d : mqfq.knobs[MQFQ_KNOB_d];
}

static u64 t_now(void)
{
	if (mqfq_is_auto(&mqfq, MQFQ_KNOB_t_kib))
		return mqfq.t;
	return max_t(u64, 2 * SHARES_SECTOR * mqfq.knobs[MQFQ_KNOB_t_kib],
		     (1 << MQFQ_SPAN_SHIFT_MIN) - 1);
}

static void find_keys(void)
{
	unsigned int i;
	u64 key = 0;

	for (i = 0; i < OTHERS && !keys[i]; i++) {
		do
			key++;
		while ((key * 0x9e3779b97f4a7c15ULL >> 32) % FLOWS_PLACES);
		keys[i] = key;
	}
}

/* Fills all places but PLACES with flows that keep them. */
static void fill_places(void)
{
	unsigned int i;

	for (i = PLACES; i < FLOWS_TRIES; i++) {
		mqfq.flows.flows[i].key = ~0ULL - i;
		mqfq.flows.flows[i].end.counter = BEGIN + (1ULL << 62);
	}
}

static u64 write_cost_now(void)
{
	return mqfq_is_auto(&mqfq, MQFQ_KNOB_write_cost_pct) ? mqfq.write_cost_pct :
							       mqfq.knobs[MQFQ_KNOB_write_cost_pct];
}

static void subject_create(unsigned int queues)
{
	unsigned int i, j;

	free(mqfq.hctxs);
	create_mqfq(&mqfq, queues, CPUS, BEGIN);
	memset(&law, 0, sizeof(law));
	find_keys();
	fill_places();
	law.vt = BEGIN;
	for (i = 0; i < QUEUES; i++)
		for (j = 0; j < LINES; j++)
			INIT_LIST_HEAD(&law.queues[i].lines[j]);
	for (i = 0; i < FLOWS; i++)
		law.flows[i].start = law.flows[i].end = BEGIN;
	/* lower than the defaults, so that few tasks in a short time reach the bounds */
	mqfq_configure(&mqfq, MQFQ_KNOB_d, 4);
	mqfq_configure(&mqfq, MQFQ_KNOB_t_kib, 8);
}

/* --- laws of virtual time -------------------------------------------------------------------------------------- */

/* Virtual time never falls, and does not pass a request in a queue whose tags it knows. */
static void check_time(void)
{
	u64 was = law.vt, vt = atomic64_read(&mqfq.vt);
	unsigned int i, flow;
	struct io *io;

	if (vt == was)
		return;
	if (tag_after(was, vt))
		player_fail("virtual time fell");
	law.vt = vt;
	for (i = 0; i < mqfq.queue_count; i++) {
		for (flow = 0; flow < FLOWS && law.queues[i].told; flow++) {
			io = first_in(i, flow);
			if (io && !tag_after(was, mqfq_entry(io)->start) &&
			    tag_after(vt, mqfq_entry(io)->start))
				player_fail("virtual time passed a request that waits");
		}
	}
}

/* The least start tag of a flow's queued requests. */
static u64 first_start(unsigned int flow)
{
	u64 least = law.flows[flow].start;
	unsigned int i;

	for (i = 0; i < mqfq.queue_count; i++) {
		struct io *io = first_in(i, flow);

		if (io && tag_after(least, mqfq_entry(io)->start))
			least = mqfq_entry(io)->start;
	}
	return least;
}

/* --- laws of a dispatched request ------------------------------------------------------------------------------ */

/*
 * A window of a flow is a time in which it always has requests queued. In a window any other flow is served at most 2 T, and the cost of a
 * request of each, more than this one (docs/mqfq/how-it-works.md). Why: in tags, the service of the other flow lies between virtual time at
 * the beginning and T above virtual time at the end; this flow was at most T ahead at the beginning, and is served until virtual time at
 * the end. The limit also holds for a flow that gets no service at all, so this law also says that no flow starves.
 *
 * A window ends when its conditions stop holding for a valid reason: virtual time passes requests whose hardware queue was not run since
 * their insertion, or a flow is more than T ahead because T was lowered.
 */
static void update_windows(void)
{
	bool t_changed = law.t != t_now();
	unsigned int i, other;

	law.t = t_now();
	for (i = 0; i < FLOWS; i++) {
		struct law_flow *f = &law.flows[i];
		bool was_in_window = f->in_window && !t_changed;

		if (!f->queued)
			continue;
		f->in_window = !tag_after(law.vt, first_start(i)) &&
			       !tag_after(f->end, law.vt + law.t + f->cost_most);
		for (other = 0; other < FLOWS && f->in_window && !was_in_window; other++)
			f->least[other] = law.flows[other].served - f->served;
	}
}

/* Checks a flow that is served: it is not too far ahead of the flows that have a window. */
static void check_served(unsigned int flow, u64 cost, bool leaves)
{
	struct law_flow *f = &law.flows[flow], *other;
	unsigned int i;

	f->served += cost;
	for (i = 0; i < FLOWS; i++) {
		other = &law.flows[i];
		if (leaves) /* such service does not count */
			other->least[flow] += cost;
		if (other->in_window && (s64)(f->served - other->served) - other->least[flow] >
						(s64)(2 * law.t + f->cost_most + other->cost_most))
			player_fail("a flow was served too much beside one that waits");
		if (f->in_window)
			f->least[i] = min_t(s64, f->least[i], other->served - f->served);
	}
}

static void check_flow(struct io *io)
{
	struct law_flow *f = &law.flows[io->law_line];
	bool leaves = law.queues[mqfq_entry(io)->queue].leaves;
	u64 start = mqfq_entry(io)->start;
	unsigned int i;

	if (!leaves && tag_after(start, law.vt + t_now()))
		player_fail("a request went that is more than T above virtual time");
	for (i = 0; i < FLOWS; i++) {
		struct io *other = first_in(mqfq_entry(io)->queue, i);

		if (other && tag_after(start, mqfq_entry(other)->start))
			player_fail("a request went before one of its queue with a lower tag");
	}
	update_windows();
	if (!tag_after(law.vt, start))
		check_served(io->law_line, io->law_cost, leaves);
	if (tag_after(start + io->law_cost, f->end))
		f->end = start + io->law_cost;
}

/* The most urgent level with requests in a queue. */
static unsigned int top_level(const struct law_queue *q)
{
	unsigned int level = 0;

	while (level < WAITING_LEVELS && !q->queued[level])
		level++;
	return level;
}

/* Tokens go round among queues of one real-time level: before one queue gets its next token, every other waiting queue gets one. */
static u64 passed_most(void)
{
	return (u64)mqfq.queue_count * (d_now() + law.inflight);
}

static void check_urgency(unsigned int level)
{
	unsigned int i, top;

	for (i = 0; i < mqfq.queue_count; i++) {
		struct law_queue *q = &law.queues[i];

		top = top_level(q);
		q->passed = q->refused && top == level && top < MQFQ_FAIR ? q->passed + 1 : 0;
		if (q->passed > passed_most())
			player_fail(
				"other requests of a real-time level went before one that waits");
		if (q->refused && top < level && top < MQFQ_FAIR)
			player_fail("a request went before a more urgent one that waits");
		if (q->refused && q->idle_waited && level > MQFQ_URGENT)
			player_fail("a request went before one of class idle that waited for long");
		if (q->refused && q->leaves && top < WAITING_LEVELS && level > MQFQ_URGENT)
			player_fail("a request went before one whose CPU is to go offline");
		if (q->told && level == MQFQ_IDLE)
			player_fail("a request of class idle went while a flow waits");
	}
}

/*
 * Among the runnable queues of a hardware queue, the most urgent level is dispatched first, and no flow that is more than T ahead of
 * another.
 */
static void check_neighbours(const struct mqfq_entry *e)
{
	const struct mqfq_queue *of = &mqfq.queues[e->queue], *q;
	unsigned int i, top;

	if (of->leaves || mqfq_idle_is_due(&mqfq, of))
		return;
	for (i = 0; i < mqfq.queue_count; i++) {
		q = &mqfq.queues[i];
		top = top_level(&law.queues[i]);
		if (q->hctx != of->hctx || !law.queues[i].runnable ||
		    !test_bit(q->bit, q->runnable))
			continue;
		if (top < e->level)
			player_fail(
				"a request went before a more urgent one of its hardware queue");
		if (top == MQFQ_FAIR && e->level == MQFQ_FAIR &&
		    tag_after(e->start, q->first->start + t_now()))
			player_fail(
				"a request went that is more than T ahead of one of its hardware queue");
	}
}

static void unqueue(struct io *io)
{
	struct mqfq_entry *e = mqfq_entry(io);
	struct law_queue *q = &law.queues[e->queue];

	io->queued = false;
	q->passed = 0;
	list_del_init(&io->law_node);
	law.queued[e->level]--;
	q->queued[e->level]--;
	if (e->level == MQFQ_IDLE) {
		q->idle_since = mqfq_period(&mqfq);
		q->idle_waited = false;
	}
	if (e->level != MQFQ_FAIR)
		return;
	q->told = q->told && q->queued[MQFQ_FAIR];
	if (!--law.flows[io->law_line].queued)
		law.flows[io->law_line].in_window = false;
}

/* For how many periods has a queue's first class-idle request waited? */
static u32 idle_waits(const struct law_queue *q)
{
	return q->queued[MQFQ_IDLE] ? mqfq_period(&mqfq) - q->idle_since : 0;
}

static void picked(struct mqfq_entry *e)
{
	bool overdue = e->level == MQFQ_IDLE &&
		       idle_waits(&law.queues[e->queue]) >= MQFQ_IDLE_PERIODS;
	struct io *io = mqfq_io(e);

	if (!io->queued)
		player_fail("a request was chosen that was not queued");
	if (first_in(e->queue, io->law_line) != io)
		player_fail("requests of a flow, or level, and queue changed their order");
	if (law.inflight >= d_now())
		player_fail("%llu requests are in the drive, and another went",
			    (unsigned long long)law.inflight);
	check_time();
	check_urgency(overdue || law.queues[e->queue].leaves ? MQFQ_URGENT : e->level);
	check_neighbours(e);
	if (e->level == MQFQ_FAIR)
		check_flow(io);
	law.places[e->flow].requests++;
	law.places[e->flow].sectors += mqfq_sectors(e);
	unqueue(io);
	law.inflight++;
	law.dispatched++;
	law.sectors[io->op == IO_WRITE] += mqfq_sectors(e);
}

/* --- laws after each event ------------------------------------------------------------------------------------- */

/* Checks what may be queued when no hardware queue will be run. */
static void check_rest(void)
{
	unsigned int level = 0;

	if (law.inflight >= d_now() || !queued_requests())
		return;
	while (!law.queued[level])
		level++;
	if (level < MQFQ_FAIR)
		player_fail("an urgent or real-time request waits, and there is a token");
	/* the least start tag is always near virtual time, so the flow may go */
	if (level == MQFQ_FAIR)
		player_fail("a request of a flow waits, and there is a token");
	player_fail("a request of class idle waits, there is a token, and nothing else is queued");
}

/* Checks the counters of the module's statistics. */
static void check_counters(void)
{
	u64 inserted = 0, dispatched = 0, read = 0, written = 0;
	unsigned int i;

	for (i = 0; i < mqfq.queue_count; i++) {
		inserted += mqfq.queues[i].inserted;
		dispatched += mqfq.queues[i].dispatched;
		read += mqfq.queues[i].sectors[0];
		written += mqfq.queues[i].sectors[1];
	}
	if (inserted != law.inserted || dispatched != law.dispatched || read != law.sectors[0] ||
	    written != law.sectors[1])
		player_fail("the counters do not balance");
	if (mqfq_inflight(&mqfq) != (int)law.inflight)
		player_fail("%d requests have tokens, and %llu are in the drive",
			    mqfq_inflight(&mqfq), (unsigned long long)law.inflight);
}

/* Checks the statistics of each flow since it got its place: dispatches are counted, and unfairness is within its limit. */
static void check_statistics(void)
{
	unsigned int i;

	mqfq_collect(&mqfq, MQFQ_LOOKS);
	for (i = 0; i < FLOWS_COUNT; i++) {
		const struct flow *flow = &mqfq.flows.flows[i];
		const struct account *a = &mqfq.accounts[i];
		const struct law_place *place = &law.places[i];

		if ((u64)atomic64_read(&flow->requests) != place->requests ||
		    (u64)atomic64_read(&flow->sectors) != place->sectors ||
		    a->requests != place->before || a->sectors != place->sectors_before)
			player_fail("the statistics of a flow do not balance");
		if ((u64)atomic64_read(&a->idle) != place->idle)
			player_fail("the idle slots of a flow do not balance");
		if (a->unfair > a->bound)
			player_fail("the statistics of a flow say that it was treated unfairly");
		if ((u64)atomic64_read(&a->throttled_ns) > mqfq.queue_count * player_now_ns)
			player_fail("a flow was throttled for longer than there was time");
	}
	for (i = 0; i < mqfq.queue_count; i++)
		if (mqfq.queues[i].throttled != FLOWS_NONE && !mqfq.queues[i].first)
			player_fail("a flow counts as throttled in a queue that has none of it");
}

/*
 * A queue that waits at an urgent level passes on tokens that it no longer needs; it needs all of them while its CPU is going offline. At
 * another level it has at most a quarter of all tokens.
 */
static void check_given(unsigned int queue)
{
	const struct mqfq_queue *q = &mqfq.queues[queue];
	struct law_queue *of = &law.queues[queue];
	unsigned int level, urgent = 0;

	law.d_most = max(law.d_most, mqfq.d);
	for (level = 0; level < MQFQ_FAIR; level++)
		urgent += of->queued[level];
	if (q->waits >= MQFQ_FAIR)
		of->has_left = of->leaves;
	if (of->has_left || q->waits == WAITING_NONE)
		return;
	if (atomic_read(&q->given) >
	    (int)(q->waits < MQFQ_FAIR ? max(urgent, 1U) : max(law.d_most / 4, 4U)))
		player_fail("a queue that waits has more tokens than it may get");
}

/* No queue has an unused token while another queue waits with a more urgent request. */
static void check_unused(unsigned int queue)
{
	const struct mqfq_queue *q = &mqfq.queues[queue], *other;
	unsigned int i;

	for (i = 0; i < mqfq.queue_count; i++) {
		other = &mqfq.queues[i];
		if (q->waits < MQFQ_FAIR && other->waits != WAITING_NONE &&
		    other->waits > q->waits && law.queues[queue].refused &&
		    atomic_read(&other->given))
			player_fail(
				"an urgent or real-time request waits, and a queue does not use a token");
	}
}

/* A queue waits for virtual time in one place at most, and only if it has requests of flows. */
static void check_wheel(unsigned int queue)
{
	unsigned int i, waits = 0;

	for (i = 0; i < WHEEL_BUCKETS; i++)
		waits += test_bit(queue, wheel_map(&mqfq.wheel, i));
	if (waits > (law.queues[queue].queued[MQFQ_FAIR] > 0))
		player_fail("a queue waits for virtual time, and has nothing to wait for");
}

static bool subject_has_work(u32 hctx)
{
	return mqfq_has_work(&mqfq.hctxs[hctx]);
}

static void subject_check(unsigned long runs, u64 armed_ns)
{
	unsigned int i;

	(void)armed_ns;
	check_time();
	check_counters();
	if (!(law.inserted % 16))
		check_statistics();
	for (i = 0; i < mqfq.queue_count; i++) {
		struct law_queue *q = &law.queues[i];

		check_given(i);
		check_unused(i);
		check_wheel(i);
		if (!(runs & BIT(mqfq.queues[i].hctx)) && top_level(q) < WAITING_LEVELS) {
			q->refused = true;
			q->told = q->queued[MQFQ_FAIR];
		}
	}
	for (i = 0; i < mqfq.hctx_count; i++) {
		if (!subject_has_work(i) && mqfq_dispatch(&mqfq, &mqfq.hctxs[i], i * CPUS, picked))
			player_fail("a request went, and there was no work");
		if (subject_has_work(i) && !(runs & BIT(i)))
			player_fail("there is work, and nothing runs the hardware queue");
	}
	if (!runs)
		check_rest();
}

/* --- calls of the player --------------------------------------------------------------------------------------- */

/* MQFQ runs hardware queues itself. */
static bool subject_set(unsigned int knob, u64 value)
{
	if (mqfq_configure(&mqfq, knob, value))
		player_fail("knob %s refused %llu", mqfq_knob_infos[knob].name,
			    (unsigned long long)value);
	return false;
}

/* The first cgroups are at the top, the others have a common parent; all processes have the same weight. */
static void path_of(struct mqfq_entry *e, struct share_path *path)
{
	struct io *io = mqfq_io(e);
	bool is_cgroup = io->law_line < CGROUPS,
	     is_child = is_cgroup && io->law_line >= CGROUPS_TOP;
	unsigned int weight = SHARES_WEIGHT;

	if (is_cgroup)
		weight = clamp_t(unsigned int, io->weight, 1, SHARES_WEIGHT_MAX);
	path->depth = 0;
	if (is_child) {
		path->at[path->depth].id = PARENT;
		path->at[path->depth++].weight = SHARES_WEIGHT;
	}
	path->at[path->depth].id = 1 + io->law_line;
	path->at[path->depth++].weight = weight;
	law.flows[io->law_line].price = is_child ? 0 : SHARES_SECTOR * SHARES_WEIGHT / weight;
}

static unsigned int level_of(const struct io *io, bool urgent)
{
	if (urgent)
		return MQFQ_URGENT;
	return io->level < 8 ? MQFQ_RT(io->level) : MQFQ_FAIR + io->level - 8;
}

/* Checks the cost that a request adds to its flow. */
static void check_charge(struct io *io, bool writes)
{
	struct law_flow *f = &law.flows[io->law_line];
	u64 start = mqfq_entry(io)->start;

	if (!f->price) /* a child's price is tested in tests/unit/mqfq/shares.c */
		f->price = mqfq.flows.flows[mqfq_entry(io)->flow].price;
	io->law_cost = max_t(u64, mqfq_sectors(mqfq_entry(io)), 1) * f->price;
	if (writes)
		io->law_cost = io->law_cost * write_cost_now() / 100;
	if (tag_after(f->start, start) || tag_after(law.vt, start))
		player_fail("a request begins before an earlier one, or before virtual time");
	f->start = start;
	f->cost_most = max(f->cost_most, io->law_cost);
	f->queued++;
}

/* Gives a flow a place. All flows search among the first places: see find_keys(). */
static void begin_place(struct law_place *place)
{
	unsigned int i;

	for (i = 0; i < PLACES && place->taken; i++)
		if (!law.places[i].taken)
			player_fail("a flow lost its place, and there was a free one");
	place->taken = true;
	place->before = place->requests;
	place->sectors_before = place->sectors;
	place->idle = 0;
}

static void subject_insert(struct io **ios, unsigned int count, bool urgent)
{
	bool by_process = mqfq.knobs[MQFQ_KNOB_flow_by] == MQFQ_BY_PROCESS;
	unsigned int i, number = ios[0]->queue * CPUS + ios[0]->task % CPUS;
	struct law_queue *q = &law.queues[number];
	struct mqfq_insertion insertion;
	bool is_new;

	mqfq_insert_begin(&insertion, &mqfq.queues[number]);
	for (i = 0; i < count; i++) {
		struct io *io = ios[i];
		struct mqfq_entry *e = mqfq_entry(io);
		bool writes = io->op == IO_WRITE || io->op == IO_DISCARD;
		bool returned = e->state == MQFQ_RETURNED;

		io->law_line = by_process ? CGROUPS + io->task : io->cgroup % CGROUPS;
		is_new = flows_look_up(&mqfq.flows, keys[io->law_line]) == FLOWS_NONE;
		mqfq_prepare(&mqfq, e, level_of(io, urgent), keys[io->law_line], path_of, writes);
		if (is_new && e->level == MQFQ_FAIR && e->flow != FLOWS_SHARED)
			begin_place(&law.places[e->flow]);
		if (e->level == MQFQ_FAIR && e->flow == FLOWS_SHARED) {
			io->law_line = OTHERS;
			law.flows[OTHERS].price = SHARES_SECTOR;
		}
		if (returned && e->level != MQFQ_URGENT)
			player_fail("what the driver gave back does not go first");
		if (e->level == MQFQ_FAIR)
			check_charge(io, writes);
		else
			io->law_line = FLOWS + e->level;
		if (e->level == MQFQ_IDLE && !q->queued[MQFQ_IDLE])
			q->idle_since = mqfq_period(&mqfq);
		io->queued = true;
		law.inserted++;
		law.queued[e->level]++;
		q->queued[e->level]++;
		q->refused = false;
		q->passed = 0;
		list_add_tail(&io->law_node, &q->lines[io->law_line]);
		mqfq_insert(&insertion, e);
	}
	mqfq_insert_end(&mqfq, &insertion);
	for (i = 0; i < mqfq.queue_count; i++)
		law.queues[i].idle_waited |= idle_waits(&law.queues[i]) > MQFQ_IDLE_PERIODS;
	check_time();
}

/* Does a queue of this hardware queue have an unused token and a real-time request, and no other queue a more urgent one? */
static bool must_go(u32 hctx)
{
	unsigned int i, level = 0;

	while (level < MQFQ_FAIR && !law.queued[level])
		level++;
	for (i = 0; i < mqfq.queue_count; i++)
		if (law.queues[i].leaves || mqfq.queues[i].waits < level ||
		    mqfq_idle_is_due(&mqfq, &mqfq.queues[i]))
			return false;
	for (i = 0; i < mqfq.hctxs[hctx].count; i++) {
		const struct mqfq_queue *q = &mqfq.queues[mqfq.hctxs[hctx].queues[i]];

		if (level < MQFQ_FAIR && top_level(&law.queues[q->number]) == level &&
		    atomic_read(&q->given) > atomic_read(&mqfq.tokens.excess))
			return true;
	}
	return false;
}

static struct io *subject_dispatch(u32 hctx, struct list_head *large)
{
	unsigned int near = hctx * CPUS + law.dispatched % CPUS;
	bool must = must_go(hctx);
	struct mqfq_entry *e;
	unsigned int i;

	for (i = 0; i < mqfq.queue_count; i++)
		law.queues[i].runnable = test_bit(mqfq.queues[i].bit, mqfq.queues[i].runnable);
	e = mqfq_dispatch(&mqfq, &mqfq.hctxs[hctx], near, picked);

	(void)large;
	check_time();
	if (must && !e)
		player_fail("a real-time request waits, and its queue was given a token");
	return e ? mqfq_io(e) : NULL;
}

static void subject_leave(u32 hctx, bool leaves)
{
	unsigned int i;

	for (i = 0; i < mqfq.hctxs[hctx].count; i++) {
		struct law_queue *q = &law.queues[mqfq.hctxs[hctx].queues[i]];

		q->leaves = leaves;
		q->has_left = true;
	}
	mqfq_leave(&mqfq, hctx, leaves);
}

static void leave(struct io *io, bool comes_back)
{
	const struct mqfq_queue *q = &mqfq.queues[mqfq_entry(io)->queue];

	law.inflight--;
	if (q->throttled != FLOWS_NONE && atomic_read(&mqfq.wheel.waiting) &&
	    !waiting_any(&mqfq.waiting))
		law.places[q->throttled].idle++;
	mqfq_finish(&mqfq, mqfq_entry(io), comes_back);
}

static bool subject_finish(struct io *io)
{
	leave(io, false);
	return false;
}

static bool subject_requeue(struct io *io, bool dispatched_again)
{
	if (dispatched_again)
		leave(io, true);
	return false;
}

static void subject_destroy(void)
{
	if (queued_requests() || law.inflight || !mqfq_deinit(&mqfq) ||
	    mindicator_least(&mqfq.mindicator) != MINDICATOR_NONE)
		player_fail("something is left");
}

const struct subject subject_mqfq = {
	.name = "mqfq",
	.knobs = mqfq_knob_infos,
	.knob_count = MQFQ_KNOB_COUNT,
	.levels = 10,
	.tasks = 6,
	.create = subject_create,
	.destroy = subject_destroy,
	.set = subject_set,
	.finish = subject_finish,
	.requeue = subject_requeue,
	.leave = subject_leave,
	.insert = subject_insert,
	.has_work = subject_has_work,
	.dispatch = subject_dispatch,
	.check = subject_check,
};
