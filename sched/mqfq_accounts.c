// SPDX-License-Identifier: GPL-2.0-only
/*
 * MQFQ: statistics of each flow (fair/account.h). A queue counts the requests and sectors that it dispatches. It adds them to the counters
 * of their flow when it dispatches a request of another flow, or when the statistics are read. So most requests write to nothing that
 * CPUs share. All other statistics are counted when a queue is blocked.
 */

/* Service before now cannot be compared with service from now on, for any flow: see account.h. */
static void mqfq_break(struct mqfq *m)
{
	WRITE_ONCE(m->breaks, READ_ONCE(m->breaks) + 1);
}

/* Waiting requests of a queue that are searched for the first one of each flow. */
#define MQFQ_LOOKS 64

/* Sectors that a queue has dispatched. */
static inline u64 mqfq_sectors_of(const struct mqfq_queue *q)
{
	return READ_ONCE(q->sectors[0]) + READ_ONCE(q->sectors[1]);
}

/* Adds a queue's counts to the flow that it serves; it serves flow @next from now on. Under the queue's lock. */
static noinline void mqfq_tell(struct mqfq *m, struct mqfq_queue *q, unsigned int next)
{
	struct flow *flow = &m->flows.flows[q->serving];
	u64 sectors = mqfq_sectors_of(q);

	atomic64_add(q->dispatched - q->told_dispatched, &flow->requests);
	atomic64_add(sectors - q->told_sectors, &flow->sectors);
	WRITE_ONCE(q->told_dispatched, q->dispatched);
	WRITE_ONCE(q->told_sectors, sectors);
	WRITE_ONCE(q->serving, next);
}

/*
 * A place in the table was given to another flow, whose counts begin with 0. Notes what the place's counters have now, plus what queues
 * will still add to them for the old flow. Queues are read without their locks, as the caller may hold one of these: the old flow was
 * idle, so their counts hardly change. Under @shares.lock, before the place's account gets the new key.
 */
static noinline void mqfq_account_anew(struct mqfq *m, unsigned int place)
{
	struct account *a = &m->accounts[place];
	struct flow *flow = &m->flows.flows[place];
	u64 requests = atomic64_read(&flow->requests), sectors = atomic64_read(&flow->sectors);
	unsigned int i;

	for (i = 0; i < m->queue_count; i++) {
		const struct mqfq_queue *q = &m->queues[i];

		if (READ_ONCE(q->serving) != place)
			continue;
		requests += READ_ONCE(q->dispatched) - READ_ONCE(q->told_dispatched);
		sectors += mqfq_sectors_of(q) - READ_ONCE(q->told_sectors);
	}
	WRITE_ONCE(a->requests, requests);
	WRITE_ONCE(a->sectors, sectors);
	WRITE_ONCE(flow->largest, 0);
	atomic64_set(&a->throttled_ns, 0);
	atomic64_set(&a->idle, 0);
}

/**
 * struct mqfq_counts - what a flow was served since it got its place
 * @key: its identity; 0: the place belongs to no single flow
 * @requests: requests dispatched
 * @sectors: sectors of these requests
 */
struct mqfq_counts {
	u64 key, requests, sectors;
};

/*
 * Reads what the flow of a place was served, after mqfq_collect(). A count that mqfq_account_anew() missed may make a difference negative.
 * Return: false if the place has no flow, or changes it now.
 */
static inline bool mqfq_count(const struct mqfq *m, unsigned int place, struct mqfq_counts *c)
{
	const struct flow *flow = &m->flows.flows[place];
	const struct account *a = &m->accounts[place];

	c->key = smp_load_acquire(
		&a->key); /* pairs with mqfq_price(): the values below are of this flow or of a later one */
	c->requests = max_t(s64, atomic64_read(&flow->requests) - READ_ONCE(a->requests), 0);
	c->sectors = max_t(s64, atomic64_read(&flow->sectors) - READ_ONCE(a->sectors), 0);
	smp_rmb(); /* pairs with cmpxchg() in flows_find(): they are not of a later one */
	return READ_ONCE(flow->key) == c->key && (c->key || c->requests);
}

/* Accounts the time until now for which a queue's first request was too far ahead. */
static noinline void mqfq_account_throttled(struct mqfq *m, struct mqfq_queue *q)
{
	struct account *a = &m->accounts[q->throttled];
	u64 now = mqfq_now(m), idle = atomic64_read(&q->idle);

	atomic64_add(now - q->throttled_ns, &a->throttled_ns);
	atomic64_add(idle - q->throttled_idle, &a->idle);
	q->throttled_ns = now;
	q->throttled_idle = idle;
}

/* A flow was charged for a request that is its largest so far, or that moves no data. */
static noinline void mqfq_account_size(struct flow *flow, unsigned int sectors)
{
	if (sectors > READ_ONCE(flow->largest))
		WRITE_ONCE(flow->largest, sectors);
	else
		flow_break(flow);
}

/* A queue's first request is no longer too far ahead. */
static inline void mqfq_account_near(struct mqfq *m, struct mqfq_queue *q)
{
	if (likely(q->throttled == FLOWS_NONE))
		return;
	mqfq_account_throttled(m, q);
	q->throttled = FLOWS_NONE;
}

/* A queue's first request is too far ahead. */
static inline void mqfq_account_far(struct mqfq *m, struct mqfq_queue *q)
{
	if (q->throttled == q->first->flow)
		return;
	mqfq_account_near(m, q);
	q->throttled = q->first->flow;
	q->throttled_ns = mqfq_now(m);
	q->throttled_idle = atomic64_read(&q->idle);
}

/* Notes the start tag of a waiting request, if it is the least of its flow. */
static inline void mqfq_look_at(struct mqfq *m, const struct mqfq_entry *e)
{
	struct account *a = &m->accounts[e->flow];

	if (a->seen != m->collection || tag_after(a->first, e->start))
		a->first = e->start;
	a->seen = m->collection;
}

/*
 * Finds the least start tag of each flow in a queue. It searches the first @looks requests of the queue's list and of its tree, and all
 * that start before virtual time.
 */
static void mqfq_look(struct mqfq *m, const struct mqfq_queue *q, unsigned int looks)
{
	const struct list_head *list = &q->lists[MQFQ_FAIR];
	u64 vt = atomic64_read(&m->vt);
	struct mqfq_entry *e;
	struct list_head *node;
	struct rb_node *late;
	unsigned int i;

	for (node = list->next, i = 0; node != list; node = node->next, i++) {
		e = mqfq_entry_of(node);
		if (i >= looks && !tag_after(vt, e->start))
			break;
		mqfq_look_at(m, e);
	}
	for (late = rb_first(&q->late), i = 0; late; late = rb_next(late), i++) {
		e = mqfq_entry_of_rb(late);
		if (i >= looks && !tag_after(vt, e->start))
			break;
		mqfq_look_at(m, e);
	}
}

/* Brings the statistics of all flows up to date. Under @accounts_lock; process context. */
static void mqfq_collect(struct mqfq *m, unsigned int looks)
{
	struct mqfq_queue *q;
	unsigned int i;

	m->collection++;
	for (i = 0; i < m->queue_count; i++) {
		q = &m->queues[i];
		spin_lock(&q->lock);
		mqfq_tell(m, q, q->serving);
		if (q->throttled != FLOWS_NONE)
			mqfq_account_throttled(m, q);
		mqfq_look(m, q, looks);
		spin_unlock(&q->lock);
	}
}

/* Did mqfq_collect() find a waiting request of the flow? @start: its least start tag. */
static bool mqfq_waits(const struct mqfq *m, unsigned int place, u64 *start)
{
	*start = m->accounts[place].first;
	return m->accounts[place].seen == m->collection;
}

/* The first flow, from @place on, that inserted requests in this window; FLOWS_NONE: there is none. */
static inline unsigned int mqfq_next_active(const struct mqfq *m, unsigned int place)
{
	return waiting_find(m->active, place, FLOWS_NONE);
}

/* Ends the window of a flow. Return: its account if the window counts, else NULL. */
static struct account *mqfq_end_window(struct mqfq *m, unsigned int place, u64 vt)
{
	const struct flow *flow = &m->flows.flows[place];
	struct account *a = &m->accounts[place];
	struct account_sample now = {
		.key = READ_ONCE(flow->key),
		.sectors = atomic64_read(&flow->sectors),
		.end = atomic64_read(&flow->end),
		.price = READ_ONCE(flow->price),
		.largest = READ_ONCE(flow->largest),
	};
	u64 start;

	smp_rmb(); /* breaks after the end: flow_charge() counts a gap before it moves the end */
	now.breaks = READ_ONCE(flow->breaks) | (u64)READ_ONCE(m->breaks) << 32;
	now.passed = mqfq_waits(m, place, &start) && tag_after(vt, start);
	/* sectors are not a measure of service if reads and writes cost differently: the window does not count */
	if (READ_ONCE(m->knobs[MQFQ_KNOB_write_cost_pct]) != 100)
		now.breaks = ~READ_ONCE(a->was.breaks);
	account_window(a, &now, vt, m->window);
	return a->counts ? a : NULL;
}

/* Ends the window and compares the flows in it. Process context; the caller holds no lock. */
static noinline void mqfq_account(struct mqfq *m)
{
	struct account *most = NULL, *least = NULL, *a;
	u64 vt = atomic64_read(&m->vt), t = READ_ONCE(m->t), unsure;
	unsigned int place;

	if (!spin_trylock(&m->accounts_lock))
		return;
	WRITE_ONCE(m->accounts_due, false);
	mqfq_collect(m, 0);
	unsure = atomic64_read(&m->vt) - vt;
	m->window++;
	for (place = mqfq_next_active(m, 0); place != FLOWS_NONE;
	     place = mqfq_next_active(m, place + 1)) {
		a = mqfq_end_window(m, place, vt + unsure);
		if (!a)
			continue;
		most = !most || a->served > most->served ? a : most;
		least = !least || a->served < least->served ? a : least;
	}
	/* requests went on while the flows' service was read */
	unsure = atomic64_read(&m->vt) - vt;
	for (place = most == least ? FLOWS_NONE : mqfq_next_active(m, 0); place != FLOWS_NONE;
	     place = mqfq_next_active(m, place + 1)) {
		a = &m->accounts[place];
		if (a->number != m->window || !a->counts)
			continue;
		account_compare(a, most, t, m->unsure + unsure);
		account_compare(a, least, t, m->unsure + unsure);
	}
	for (place = 0; place < ARRAY_SIZE(m->active); place++)
		xchg(&m->active[place], 0);
	m->unsure = unsure;
	spin_unlock(&m->accounts_lock);
}
