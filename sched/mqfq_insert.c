// SPDX-License-Identifier: GPL-2.0-only
/* MQFQ: a request gets its price and its tag, and its place in a queue; merging. Included by mqfq.c. */
#include "mqfq.h"

/* Least number of sectors that a request is charged for; applies to one that moves no data. */
#define MQFQ_SECTORS_MIN 1

/* --- insertion ------------------------------------------------------------------------------------------------- */

/*
 * Sets the price that a flow pays for the rest of a period, once, as its weight is then added to those that compete. A CPU with another
 * request of the flow waits for that. @where: returns the groups of this entry's flow
 */
static noinline void mqfq_price(struct mqfq *m, struct mqfq_entry *e,
				void (*where)(struct mqfq_entry *e, struct share_path *path))
{
	struct flow *flow = &m->flows.flows[e->flow];
	struct account *a = &m->accounts[e->flow];
	bool competes = tag_after(atomic64_read(&flow->end), atomic64_read(&m->vt)), is_new;
	struct share_path path;
	unsigned int period;
	u64 price, key;

	where(e, &path);
	spin_lock(&m->shares.lock);
	/* under the lock, so that groups never see an earlier one after a later one */
	period = mqfq_period(m);
	key = READ_ONCE(flow->key);
	is_new = key != a->key;
	if (is_new || mqfq_is_later(period, flow->period)) {
		price = shares_price(&m->shares, &path, period, competes);
		if (price != flow->price)
			flow_break(flow);
		WRITE_ONCE(flow->price, price);
		smp_store_release(&flow->period, period); /* a CPU that sees it sees the price */
	}
	if (is_new) {
		mqfq_account_anew(m, e->flow);
		smp_store_release(&a->key, key); /* pairs with mqfq_count() */
	}
	spin_unlock(&m->shares.lock);
}

/* A flow inserts its first request, or the first one of a period. */
static noinline void mqfq_weigh(struct mqfq *m, struct mqfq_entry *e, unsigned int period,
				void (*where)(struct mqfq_entry *e, struct share_path *path))
{
	if (e->flow == FLOWS_SHARED)
		WRITE_ONCE(m->flows.flows[e->flow].period, period);
	else
		mqfq_price(m, e, where);
	mqfq_tick(m, period);
	set_bit(e->flow, m->active);
}

/* Cost of a number of sectors to a flow, in units of tags. */
static inline u64 mqfq_cost(const struct mqfq *m, const struct flow *flow, u64 sectors, bool writes)
{
	u64 cost = max_t(u64, sectors, MQFQ_SECTORS_MIN) * READ_ONCE(flow->price);

	return writes ? div_u64(cost * READ_ONCE(m->write_cost_pct), 100) : cost;
}

/**
 * mqfq_prepare() - before mqfq_insert(): charge a request to its flow
 * @m: the drive's scheduler
 * @e: the request, in state MQFQ_NEW or MQFQ_RETURNED
 * @level: MQFQ_...; ignored for a returned request, which goes before all others
 * @key: identity of its flow; not 0
 * @where: returns the groups that the flow is in
 * @writes: it is a write
 *
 * Process context.
 */
static inline void mqfq_prepare(struct mqfq *m, struct mqfq_entry *e, unsigned int level, u64 key,
				void (*where)(struct mqfq_entry *e, struct share_path *path),
				bool writes)
{
	unsigned int period = mqfq_period(m), sectors;
	struct flow *flow;
	bool is_new;
	u64 start;

	/* a returned request was charged before, and may have no start tag */
	e->level = unlikely(e->state == MQFQ_RETURNED) ? MQFQ_URGENT : level;
	e->writes = writes;
	if (likely(e->level == MQFQ_FAIR)) {
		e->flow = flows_find(&m->flows, key, atomic64_read(&m->vt), &is_new);
		flow = &m->flows.flows[e->flow];
		if (unlikely(is_new || smp_load_acquire(&flow->period) != period))
			mqfq_weigh(m, e, period, where);
		sectors = mqfq_sectors(e);
		start = flow_charge(flow, mqfq_cost(m, flow, sectors, writes), &m->vt);
		WRITE_ONCE(e->start, start);
		if (unlikely(sectors - 1 >= READ_ONCE(flow->largest))) /* also if it is 0 */
			mqfq_account_size(flow, sectors);
	} else {
		mqfq_tick(m, period);
		e->flow = FLOWS_NONE;
	}
	e->state = MQFQ_QUEUED;
}

/* list_add_tail() and list_del_init() without the checks of CONFIG_LIST_HARDENED, which take longer than the rest of the operation. */
static inline void mqfq_append(struct list_head *node, struct list_head *list)
{
	node->next = list;
	node->prev = list->prev;
	list->prev->next = node;
	list->prev = node;
}

static inline void mqfq_unlink(struct list_head *node)
{
	node->prev->next = node->next;
	node->next->prev = node->prev;
	INIT_LIST_HEAD(node);
}

/* Inserts a request that comes after one with a later start tag. */
static noinline void mqfq_add_late(struct mqfq_queue *q, struct mqfq_entry *e)
{
	struct rb_node *parent = NULL, **link = &q->late.rb_node;

	while (*link) {
		parent = *link;
		link = tag_after(mqfq_entry_of_rb(parent)->start, e->start) ? &parent->rb_left :
									      &parent->rb_right;
	}
	rb_link_node(mqfq_rb_node(e), parent, link);
	rb_insert_color(mqfq_rb_node(e), &q->late);
	INIT_LIST_HEAD(mqfq_node(e));
}

static inline void mqfq_add_fair(struct mqfq_queue *q, struct mqfq_entry *e)
{
	struct list_head *list = &q->lists[MQFQ_FAIR];

	if (!q->first) {
		WRITE_ONCE(q->first, e);
		WRITE_ONCE(q->filled, q->filled | BIT(MQFQ_FAIR));
	} else if (unlikely(tag_after(mqfq_entry_of(list->prev)->start, e->start))) {
		mqfq_add_late(q, e);
		if (tag_after(q->first->start, e->start))
			WRITE_ONCE(q->first, e);
		return;
	}
	mqfq_append(mqfq_node(e), list);
}

/**
 * struct mqfq_insertion - insertion of some requests into a queue
 * @q: the queue; its lock is held
 * @filled: @q->filled before the insertion
 * @first: @q->first before the insertion
 */
struct mqfq_insertion {
	struct mqfq_queue *q;
	unsigned int filled;
	struct mqfq_entry *first;
};

/* Takes the lock of @q, the queue of the hardware queue and CPU that requests were submitted to. Process context. */
static inline void mqfq_insert_begin(struct mqfq_insertion *in, struct mqfq_queue *q)
	__acquires(&q->lock)
{
	spin_lock(&q->lock);
	in->q = q;
	in->filled = q->filled;
	in->first = q->first;
}

/* Queues a request that mqfq_prepare() was called for, and that is in no list. */
static inline void mqfq_insert(struct mqfq_insertion *in, struct mqfq_entry *e)
{
	struct mqfq_queue *q = in->q;
	unsigned int level = e->level;

	e->queue = q->number;
	WRITE_ONCE(q->inserted, q->inserted + 1);
	if (likely(level == MQFQ_FAIR)) {
		mqfq_add_fair(q, e);
		return;
	}
	if (level < MQFQ_FAIR)
		WRITE_ONCE(q->urgent, q->urgent + 1);
	WRITE_ONCE(q->filled, q->filled | BIT(level));
	mqfq_append(mqfq_node(e), &q->lists[level]);
}

/* Ends an insertion and releases the lock. The caller then runs the hardware queue. */
static inline void mqfq_insert_end(struct mqfq *m, struct mqfq_insertion *in)
	__releases(&in->q->lock)
{
	struct mqfq_queue *q = in->q;

	if (unlikely(q->filled & ~in->filled & BIT(MQFQ_IDLE)))
		mqfq_idle_begins(m, q);
	if (q->published != MINDICATOR_NONE && q->first != in->first &&
	    mqfq_number(m, q) != q->published)
		mqfq_publish(m, q, mqfq_number(m, q));
	/* a blocked queue stays blocked, unless another request is first now */
	if (!in->filled || q->first != in->first || __ffs(q->filled) != __ffs(in->filled))
		set_bit(q->bit, q->runnable);
	spin_unlock(&q->lock);
}

/* --- merging --------------------------------------------------------------------------------------------------- */

/* A bio may join one of this many latest requests. */
#define MQFQ_LATEST 8

/* Begins the search for a queued request that a bio may join. No request leaves the queue until mqfq_merge_end(). Process context. */
static inline void mqfq_merge_begin(struct mqfq_queue *q) __acquires(&q->lock)
{
	spin_lock(&q->lock);
}

static inline void mqfq_merge_end(struct mqfq_queue *q) __releases(&q->lock)
{
	spin_unlock(&q->lock);
}

/* The fairly shared requests with the latest start tags. Return: their number, at most MQFQ_LATEST. */
static inline unsigned int mqfq_latest(const struct mqfq_queue *q, struct mqfq_entry **latest)
{
	const struct list_head *list = &q->lists[MQFQ_FAIR];
	struct list_head *node = list->prev;
	struct rb_node *late = rb_last(&q->late);
	struct mqfq_entry *e;
	unsigned int count;

	for (count = 0; count < MQFQ_LATEST && (late || node != list); count++) {
		e = late ? mqfq_entry_of_rb(late) : NULL;
		if (node != list && (!e || !tag_after(e->start, mqfq_entry_of(node)->start))) {
			e = mqfq_entry_of(node);
			node = node->prev;
		} else {
			late = rb_prev(late);
		}
		latest[count] = e;
	}
	return count;
}

/**
 * mqfq_grow() - a bio joins a queued request of its flow
 * @m: the drive's scheduler
 * @e: the request, between mqfq_merge_begin() and mqfq_merge_end()
 * @sectors: sectors that the bio moves
 * @writes: it is a write
 *
 * The request and those of the flow queued behind it keep their start tags. Requests inserted later pay for the bio. Until they go, the
 * flow may be ahead by the cost of the bio.
 */
static inline void mqfq_grow(struct mqfq *m, const struct mqfq_entry *e, u64 sectors, bool writes)
{
	struct flow *flow = &m->flows.flows[e->flow];

	if (e->level == MQFQ_FAIR)
		flow_charge_more(flow, mqfq_cost(m, flow, sectors, writes));
}
