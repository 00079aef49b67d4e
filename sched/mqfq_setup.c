// SPDX-License-Identifier: GPL-2.0-only
/* MQFQ: knobs, memory, and the trees of tokens by the topology of the CPUs; CPUs that go offline. Included by mqfq.c. */
#include "mqfq.h"

static const struct knob mqfq_knob_infos[MQFQ_KNOB_COUNT] = { MQFQ_KNOBS(KNOB_INFO) };

/* --- knobs and set-up ------------------------------------------------------------------------------------------ */

/**
 * mqfq_configure() - set a knob
 * @m: the drive's scheduler
 * @knob: the knob
 * @value: new value
 *
 * Process context; one caller at a time. Return: 0, or -ERANGE or -EINVAL with nothing changed.
 */
static int mqfq_configure(struct mqfq *m, enum mqfq_knob knob, u64 value)
{
	int err = knob_check(&mqfq_knob_infos[knob], value);

	if (err)
		return err;
	spin_lock(&m->lock);
	WRITE_ONCE(m->knobs[knob], value);
	if (knob == MQFQ_KNOB_write_cost_pct)
		mqfq_break(m);
	if (knob == MQFQ_KNOB_t_kib && value == KNOB_AUTO) {
		search_begin(&m->t_search, &mqfq_t_limits);
		value = search_value(&m->t_search);
	}
	if (knob == MQFQ_KNOB_d && value == KNOB_AUTO) {
		search_begin(&m->d_search, &mqfq_d_limits);
		value = search_value(&m->d_search);
	}
	if (knob == MQFQ_KNOB_write_cost_pct) {
		write_cost_begin(&m->write_cost, value == KNOB_AUTO ? m->write_cost.pct : value);
		WRITE_ONCE(m->write_cost_pct, m->write_cost.pct);
	}
	if (knob == MQFQ_KNOB_t_kib)
		mqfq_set_t(m, value);
	if (knob == MQFQ_KNOB_d)
		mqfq_set_d(m, value);
	spin_unlock(&m->lock);
	return 0;
}

/* Adds a parent above each run of top nodes in the same group; a single node gets none. Return: the new number of top nodes. */
static inline unsigned int mqfq_group(struct tokens *t, unsigned int *top, unsigned int count,
				      const struct mqfq_place *places, unsigned int group)
{
	unsigned int i, child, groups = 0, begin = 0;
	struct token_node *node;

	for (i = 1; i <= count; i++) {
		if (i < count && (group == MQFQ_GROUPS ||
				  places[t->nodes[top[i]].first].group[group] ==
					  places[t->nodes[top[begin]].first].group[group]))
			continue;
		child = top[begin];
		if (i - begin > 1) {
			node = &t->nodes[t->count];
			node->first = t->nodes[top[begin]].first;
			node->end = t->nodes[top[i - 1]].end;
			for (child = begin; child < i; child++)
				t->nodes[top[child]].parent = t->count;
			child = t->count++;
		}
		top[groups++] = child;
		begin = i;
	}
	return groups;
}

/* Takes whole cache lines from the front of @memory. */
static inline void *mqfq_carve(uintptr_t *memory, size_t bytes)
{
	uintptr_t from = *memory;

	*memory += ALIGN(bytes, SMP_CACHE_BYTES);
	return (void *)from;
}

/* Lays out the arrays of a drive in @memory. Return: bytes used. */
static inline size_t mqfq_lay_out(struct mqfq *m, void *memory)
{
	unsigned int queues = m->queue_count, words = BITS_TO_LONGS(queues);
	uintptr_t at = (uintptr_t)memory;

	m->hctxs = mqfq_carve(&at, m->hctx_count * sizeof(*m->hctxs));
	m->runnable = mqfq_carve(&at, m->hctx_count * SMP_CACHE_BYTES + queues / 8);
	m->numbers = mqfq_carve(&at, queues * sizeof(*m->numbers));
	m->queues = mqfq_carve(&at, queues * sizeof(*m->queues));
	m->tokens.nodes = mqfq_carve(&at, 2 * queues * sizeof(*m->tokens.nodes));
	m->waiting.maps = mqfq_carve(&at, WAITING_LEVELS * words * sizeof(long));
	m->waiting.words = words;
	m->wheel.maps = mqfq_carve(&at, WHEEL_BUCKETS * words * sizeof(long));
	m->wheel.words = words;
	m->mindicator.words[0] = mqfq_carve(&at, mindicator_size(queues) * sizeof(u64));
	m->flows.flows = mqfq_carve(&at, FLOWS_COUNT * sizeof(struct flow));
	m->accounts = mqfq_carve(&at, FLOWS_COUNT * sizeof(struct account));
	return at - (uintptr_t)memory;
}

/* Bytes that mqfq_init() needs behind struct mqfq. */
static inline size_t mqfq_size(unsigned int hctxs, unsigned int queues)
{
	struct mqfq m = { .hctx_count = hctxs, .queue_count = queues };

	return mqfq_lay_out(&m, NULL);
}

/* Gives each hardware queue its part of the maps, each in cache lines of its own, and of the numbers. */
static inline void mqfq_init_hctxs(struct mqfq *m, const struct mqfq_place *places)
{
	uintptr_t map = (uintptr_t)m->runnable;
	u16 *numbers = m->numbers;
	struct mqfq_hctx *h;
	unsigned int i;

	for (i = 0; i < m->queue_count; i++)
		m->hctxs[places[i].hctx].count++;
	for (i = 0; i < m->hctx_count; i++) {
		h = &m->hctxs[i];
		h->runnable = mqfq_carve(&map, BITS_TO_LONGS(h->count) * sizeof(long));
		h->queues = numbers;
		numbers += h->count;
		h->count = 0; /* mqfq_init_queue() counts again */
	}
}

static inline void mqfq_init_queue(struct mqfq *m, unsigned int number, unsigned int hctx)
{
	struct mqfq_queue *q = &m->queues[number];
	struct mqfq_hctx *h = &m->hctxs[hctx];
	unsigned int i;

	spin_lock_init(&q->lock);
	q->number = number;
	q->hctx = hctx;
	q->bit = h->count++;
	h->queues[q->bit] = number;
	q->runnable = h->runnable;
	q->published = MINDICATOR_NONE;
	q->waits = WAITING_NONE;
	q->serving = q->throttled = FLOWS_NONE;
	for (i = 0; i < WAITING_LEVELS; i++)
		INIT_LIST_HEAD(&q->lists[i]);
}

/* Builds the tree of tokens: a node for each group of CPUs that has more than one node below. */
static inline void mqfq_init_tree(struct mqfq *m, const struct mqfq_place *places,
				  unsigned int *top)
{
	struct tokens *t = &m->tokens;
	unsigned int i, group, count = m->queue_count;

	t->count = count;
	for (i = 0; i < count; i++) {
		t->nodes[i].first = i;
		t->nodes[i].end = i + 1;
		top[i] = i;
	}
	for (group = 0; group <= MQFQ_GROUPS; group++)
		count = mqfq_group(t, top, count, places, group);
	t->nodes[t->count - 1].parent = t->count - 1;
	atomic_set(&t->nodes[t->count - 1].tokens, m->d);
	tokens_share(t, m->d);
}

/**
 * mqfq_init() - prepare a zeroed struct mqfq
 * @m: the drive's scheduler
 * @memory: mqfq_size() bytes, zeroed, aligned to a cache line
 * @hctxs: number of hardware queues
 * @places: places of the queues, sorted by group, the largest group first
 * @queues: number of @places
 * @scratch: room for @queues numbers, used during the call
 */
static void mqfq_init(struct mqfq *m, void *memory, unsigned int hctxs,
		      const struct mqfq_place *places, unsigned int queues, unsigned int *scratch)
{
	unsigned int i;

	for (i = 0; i < MQFQ_KNOB_COUNT; i++)
		m->knobs[i] = mqfq_knob_infos[i].initial;
	m->d = m->knobs[MQFQ_KNOB_d];
	m->period = mqfq_period(m);
	m->write_cost_pct = m->knobs[MQFQ_KNOB_write_cost_pct];
	write_cost_begin(&m->write_cost, m->write_cost_pct);
	spin_lock_init(&m->lock);
	spin_lock_init(&m->accounts_lock);
	m->hctx_count = hctxs;
	m->queue_count = queues;
	mqfq_lay_out(m, memory);
	mindicator_init(&m->mindicator, queues, m->mindicator.words[0]);
	flows_init(&m->flows, m->flows.flows);
	shares_init(&m->shares);
	mqfq_init_hctxs(m, places);
	for (i = 0; i < queues; i++)
		mqfq_init_queue(m, i, places[i].hctx);
	mqfq_init_tree(m, places, scratch);
	mqfq_set_t(m, m->knobs[MQFQ_KNOB_t_kib]);
}

/* Requests in flight: tokens neither in the tree nor given to a queue. Exact while no other function of MQFQ runs. */
static int mqfq_inflight(const struct mqfq *m)
{
	int inflight = m->d + atomic_read(&m->tokens.excess);
	unsigned int i;

	for (i = 0; i < m->tokens.count; i++)
		inflight -= atomic_read(&m->tokens.nodes[i].tokens);
	for (i = 0; i < m->queue_count; i++)
		inflight -= atomic_read(&m->queues[i].given);
	return inflight;
}

/* Return: true if no request is left. No other function of MQFQ runs, or will be called. */
static bool mqfq_deinit(struct mqfq *m)
{
	unsigned int i, filled = 0;

	for (i = 0; i < m->queue_count; i++)
		filled |= m->queues[i].filled;
	return !filled && !waiting_any(&m->waiting) && !mqfq_inflight(m);
}

/* --- CPU hotplug ------------------------------------------------------------------------------------------------ */

/**
 * mqfq_leave() - the last CPU of a hardware queue goes offline, or one is back online
 * @m: the drive's scheduler
 * @hctx: number of the hardware queue
 * @leaves: the CPU goes offline
 *
 * The CPU goes offline only when its hardware queue has no requests left. So these go before all others, instead of waiting as long as
 * other queues have more urgent ones. Process context.
 */
static void mqfq_leave(struct mqfq *m, unsigned int hctx, bool leaves)
{
	const struct mqfq_hctx *h = &m->hctxs[hctx];
	struct mqfq_queue *q;
	unsigned int i;

	for (i = 0; i < h->count; i++) {
		q = &m->queues[h->queues[i]];
		spin_lock(&q->lock);
		WRITE_ONCE(q->leaves, leaves);
		spin_unlock(&q->lock);
		if (leaves)
			mqfq_kick(m, q->number);
	}
}
