// SPDX-License-Identifier: GPL-2.0-only
/* The deadline scheduler: see deadline.h. The binding to an environment includes this file. */
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/math64.h>

#include "deadline.h"

static const struct knob deadline_knob_infos[DEADLINE_KNOB_COUNT] = {
#define DEADLINE_KNOB_INFO(name, unit, least, most, initial, what) \
	KNOB_INFO(name, unit, least, most, 1, initial, "log", NULL, 0, what)
	DEADLINE_KNOBS(DEADLINE_KNOB_INFO)
#undef DEADLINE_KNOB_INFO
};

/**
 * deadline_init() - prepare a zeroed struct deadline
 * @d: the drive's scheduler
 */
static void deadline_init(struct deadline *d)
{
	unsigned int i, prio, direction;

	for (i = 0; i < DEADLINE_KNOB_COUNT; i++)
		d->knobs[i] = deadline_knob_infos[i].initial;
	INIT_LIST_HEAD(&d->urgent);
	for (prio = 0; prio < DEADLINE_CLASSES; prio++)
		for (direction = 0; direction < DEADLINE_DIRECTIONS; direction++)
			INIT_LIST_HEAD(&d->queues[prio][direction].fifo);
	d->direction = DEADLINE_WRITE;
}

/* Number of entries of a class that are queued or in the drive. */
static inline u32 deadline_pending(const struct deadline *d, unsigned int prio)
{
	return d->inserted[prio] - d->ended[prio];
}

/**
 * deadline_has_work() - is anything queued?
 * @d: the drive's scheduler
 *
 * deadline_dispatch() may return NULL nevertheless, while a higher class has entries in the drive. No queue run follows their
 * completion: the block layer tries again after some time (BLK_MQ_BUDGET_DELAY).
 */
static inline bool deadline_has_work(const struct deadline *d)
{
	unsigned int prio;

	if (!list_empty(&d->urgent))
		return true;
	for (prio = 0; prio < DEADLINE_CLASSES; prio++)
		if (!list_empty(&d->queues[prio][DEADLINE_READ].fifo) ||
		    !list_empty(&d->queues[prio][DEADLINE_WRITE].fifo))
			return true;
	return false;
}

/**
 * deadline_deinit() - check that nothing is left
 * @d: the drive's scheduler
 *
 * Return: true if every entry that was inserted has ended.
 */
static bool deadline_deinit(struct deadline *d)
{
	unsigned int prio;

	for (prio = 0; prio < DEADLINE_CLASSES; prio++)
		if (deadline_pending(d, prio))
			return false;
	return !deadline_has_work(d);
}

/**
 * deadline_configure() - set a knob
 * @d: the drive's scheduler
 * @knob: the knob
 * @value: new value
 *
 * Return: 0, or -ERANGE, which leaves the knob unchanged.
 */
static int deadline_configure(struct deadline *d, enum deadline_knob knob, u64 value)
{
	unsigned int prio, direction;

	if (value < deadline_knob_infos[knob].least || value > deadline_knob_infos[knob].most)
		return -ERANGE;
	d->knobs[knob] = value;
	if (knob == DEADLINE_KNOB_keeps_next)
		for (prio = 0; prio < DEADLINE_CLASSES; prio++)
			for (direction = 0; direction < DEADLINE_DIRECTIONS; direction++)
				d->queues[prio][direction].next = NULL;
	return 0;
}

/**
 * deadline_limit() - scheduler tags that requests other than synchronous reads may hold
 * @d: the drive's scheduler
 * @tags: scheduler tags of a hardware queue, at least 1
 *
 * Return: 1 to @tags.
 */
static inline u32 deadline_limit(const struct deadline *d, u32 tags)
{
	return min(d->knobs[DEADLINE_KNOB_async_depth], tags);
}

static inline u32 deadline_tick(u64 now_ns)
{
	return div_u64(now_ns, DEADLINE_TICK_NS);
}

/* Value in ticks of a knob in ms, rounded up. */
static inline u32 deadline_ticks(const struct deadline *d, enum deadline_knob knob)
{
	return DIV_ROUND_UP(d->knobs[knob], DEADLINE_TICK_MS);
}

static inline u32 deadline_expiry(const struct deadline *d, unsigned int direction)
{
	return deadline_ticks(d, direction == DEADLINE_READ ? DEADLINE_KNOB_read_expire :
							      DEADLINE_KNOB_write_expire);
}

static inline struct deadline_queue *deadline_queue(struct deadline *d,
						    const struct deadline_entry *e)
{
	return &d->queues[e->prio][e->direction];
}

static inline struct deadline_entry *deadline_of_sorted(struct rb_node *node)
{
	return node ? rb_entry(node, struct deadline_entry, sorted) : NULL;
}

/* The first entry at or after @sector. */
static inline struct deadline_entry *deadline_from(const struct deadline_queue *q, u64 sector)
{
	struct rb_node *node = q->sorted.rb_node, *found = NULL;

	while (node) {
		if (deadline_sector(deadline_of_sorted(node)) < sector) {
			node = node->rb_right;
		} else {
			found = node;
			node = node->rb_left;
		}
	}
	return deadline_of_sorted(found);
}

static inline void deadline_sort(struct deadline_queue *q, struct deadline_entry *e)
{
	struct rb_node **link = &q->sorted.rb_node, *parent = NULL;
	const u64 sector = deadline_sector(e);

	while (*link) {
		parent = *link;
		link = sector < deadline_sector(deadline_of_sorted(parent)) ? &parent->rb_left :
									      &parent->rb_right;
	}
	rb_link_node(&e->sorted, parent, link);
	rb_insert_color(&e->sorted, &q->sorted);
}

/**
 * deadline_insert() - queue an entry
 * @d: the drive's scheduler
 * @e: not queued
 * @prio: enum deadline_prio
 * @direction: enum deadline_direction
 * @urgent: dispatch it before all others
 * @now: in ns
 */
static inline void deadline_insert(struct deadline *d, struct deadline_entry *e, unsigned int prio,
				   unsigned int direction, bool urgent, u64 now)
{
	struct deadline_queue *q = &d->queues[prio][direction];

	/* an entry that the driver returned is already counted */
	if (!e->counted)
		d->inserted[prio]++;
	e->counted = true;
	e->prio = prio;
	e->direction = direction;
	e->expires = deadline_tick(now);
	if (urgent) {
		list_add(deadline_node(e), &d->urgent);
		return;
	}
	e->expires += deadline_expiry(d, direction);
	list_add_tail(deadline_node(e), &q->fifo);
	deadline_sort(q, e);
}

/* The entry that would continue a batch. */
static inline struct deadline_entry *deadline_next(const struct deadline *d,
						   const struct deadline_queue *q)
{
	return d->knobs[DEADLINE_KNOB_keeps_next] ? q->next : deadline_from(q, q->latest_sector);
}

/* Is time @a before @b? Times may be up to 2^31 ticks apart. */
static inline bool deadline_before(u32 a, u32 b)
{
	return (s32)(a - b) < 0;
}

/*
 * Picks the entry of a class to dispatch: the next one of the batch, or the first one of a new batch. An entry inserted after
 * tick @latest is not returned, but the choice of a new batch remains in force.
 */
static inline struct deadline_entry *deadline_pick(struct deadline *d, unsigned int prio, u32 tick,
						   u32 latest)
{
	struct deadline_queue *queues = d->queues[prio];
	struct deadline_entry *e = deadline_next(d, &queues[d->direction]);

	if (!e || d->batched >= d->knobs[DEADLINE_KNOB_fifo_batch]) {
		const bool reads = !list_empty(&queues[DEADLINE_READ].fifo);
		const bool writes = !list_empty(&queues[DEADLINE_WRITE].fifo);
		unsigned int direction = DEADLINE_READ;
		struct deadline_entry *oldest;

		if (!reads && !writes)
			return NULL;
		if (!reads || (writes && d->starved++ >= d->knobs[DEADLINE_KNOB_writes_starved])) {
			d->starved = 0;
			direction = DEADLINE_WRITE;
		}
		oldest = deadline_entry_of(queues[direction].fifo.next);
		e = deadline_next(d, &queues[direction]);
		if (!e || !deadline_before(tick, oldest->expires))
			e = oldest;
		d->direction = direction;
		d->batched = 0;
	}
	if (deadline_before(latest, e->expires - deadline_expiry(d, e->direction)))
		return NULL;
	d->batched++;
	return e;
}

/* Takes a picked entry off its queue. */
static inline void deadline_leave(struct deadline *d, struct deadline_entry *e)
{
	struct deadline_queue *q = deadline_queue(d, e);

	if (d->knobs[DEADLINE_KNOB_keeps_next])
		q->next = deadline_of_sorted(rb_next(&e->sorted));
	rb_erase(&e->sorted, &q->sorted);
	list_del_init(deadline_node(e));
	q->latest_sector = deadline_sector(e);
}

/**
 * deadline_dispatch() - pick the next entry for the drive
 * @d: the drive's scheduler
 * @now: in ns
 *
 * Return: an entry, or NULL if nothing is queued, or a higher class holds back all queued entries.
 */
static inline struct deadline_entry *deadline_dispatch(struct deadline *d, u64 now)
{
	const u32 tick = deadline_tick(now);
	const u32 aged = tick - deadline_ticks(d, DEADLINE_KNOB_prio_aging_expire);
	struct deadline_entry *e = NULL;
	unsigned int prio, classes = 0;

	if (!list_empty(&d->urgent)) {
		e = deadline_entry_of(d->urgent.next);
		list_del_init(deadline_node(e));
		deadline_queue(d, e)->latest_sector = deadline_sector(e);
		return e;
	}
	for (prio = 0; prio < DEADLINE_CLASSES; prio++)
		classes += deadline_pending(d, prio) > 0;
	if (classes > 1)
		for (prio = DEADLINE_BE; prio < DEADLINE_CLASSES && !e; prio++)
			e = deadline_pick(d, prio, tick, aged);
	for (prio = 0; prio < DEADLINE_CLASSES && !e; prio++) {
		e = deadline_pick(d, prio, tick, tick);
		if (deadline_pending(d, prio))
			break;
	}
	if (e)
		deadline_leave(d, e);
	return e;
}

/**
 * deadline_finish() - an entry is freed
 * @d: the drive's scheduler
 * @e: not queued; has an effect only if it was inserted
 */
static inline void deadline_finish(struct deadline *d, struct deadline_entry *e)
{
	if (!e->counted)
		return;
	e->counted = false;
	d->ended[e->prio]++;
}

/**
 * deadline_find_front() - a queued entry that begins where a bio ends
 * @d: the drive's scheduler
 * @prio: class of the bio
 * @direction: direction of the bio
 * @sector: sector after the bio's last one
 *
 * Return: the first such entry, or NULL if there is none or front merges are off.
 */
static inline struct deadline_entry *deadline_find_front(struct deadline *d, unsigned int prio,
							 unsigned int direction, u64 sector)
{
	struct deadline_entry *e;

	if (!d->knobs[DEADLINE_KNOB_front_merges])
		return NULL;
	e = deadline_from(&d->queues[prio][direction], sector);
	return e && deadline_sector(e) == sector ? e : NULL;
}

/**
 * deadline_unsort() - remove an entry from the sorted order before its first sector changes; deadline_resort() follows
 * @d: the drive's scheduler
 * @e: queued, not urgent
 */
static inline void deadline_unsort(struct deadline *d, struct deadline_entry *e)
{
	rb_erase(&e->sorted, &deadline_queue(d, e)->sorted);
}

/* Sorts an entry again after deadline_unsort(). Its expiry is unchanged. */
static inline void deadline_resort(struct deadline *d, struct deadline_entry *e)
{
	deadline_sort(deadline_queue(d, e), e);
}
