/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * fifo, an example scheduler: dispatches requests in the order of insertion, at most inflight_max at a time. It shows the parts of a
 * scheduler and is not meant for use.
 */
#ifndef TAILGATE_SCHED_FIFO_H
#define TAILGATE_SCHED_FIFO_H

#include <linux/atomic.h>
#include <linux/list.h>
#include <linux/spinlock.h>

#include "knobs.h"

#define FIFO_KNOBS(knob)                                                \
	knob(inflight_max, "requests", 1, 65535, 1, 32, "log", NULL, 0, \
	     "most requests in the drive at a time")

enum fifo_knob {
#define FIFO_KNOB_ID(name, ...) FIFO_KNOB_##name,
	FIFO_KNOBS(FIFO_KNOB_ID) FIFO_KNOB_COUNT
};

/**
 * struct fifo - one drive
 * @knobs: values of the knobs
 * @inflight: requests in the drive
 * @queued: requests in @list
 * @lock: protects @list, @queued and @dispatched
 * @list: requests inserted and not yet dispatched, oldest first
 * @dispatched: requests dispatched since the start
 */
struct fifo {
	unsigned int knobs[FIFO_KNOB_COUNT];
	atomic_t inflight;
	unsigned int queued;
	spinlock_t lock;
	struct list_head list;
	u64 dispatched;
};

static inline void fifo_init(struct fifo *f, const struct knob *knobs)
{
	f->knobs[FIFO_KNOB_inflight_max] = knobs[FIFO_KNOB_inflight_max].initial;
	spin_lock_init(&f->lock);
	INIT_LIST_HEAD(&f->list);
}

/* Queues entries at the tail, or at the head. The caller then runs a hardware queue. */
static inline void fifo_insert(struct fifo *f, struct list_head *entries, bool at_head)
{
	struct list_head *entry;
	unsigned int count = 0;

	list_for_each(entry, entries)
		count++;
	spin_lock(&f->lock);
	if (at_head)
		list_splice_init(entries, &f->list);
	else
		list_splice_tail_init(entries, &f->list);
	WRITE_ONCE(f->queued, f->queued + count);
	spin_unlock(&f->lock);
	smp_mb(); /* pairs with fifo_end(): either it sees @queued, or the queue run that follows sees the free slot */
}

/* Is an entry queued that may be dispatched? Any context. */
static inline bool fifo_has_work(const struct fifo *f)
{
	return READ_ONCE(f->queued) &&
	       atomic_read(&f->inflight) < (int)READ_ONCE(f->knobs[FIFO_KNOB_inflight_max]);
}

/* Dispatches the next entry, which is then in flight. Return: NULL if there is none or no free slot. */
static inline struct list_head *fifo_dispatch(struct fifo *f)
{
	struct list_head *entry = NULL;

	spin_lock(&f->lock);
	if (fifo_has_work(f)) {
		entry = f->list.next;
		list_del_init(entry);
		WRITE_ONCE(f->queued, f->queued - 1);
		WRITE_ONCE(f->dispatched, f->dispatched + 1);
		atomic_inc(&f->inflight);
	}
	spin_unlock(&f->lock);
	return entry;
}

/* An entry has completed. Any context. Return: true if the caller must run a hardware queue. */
static inline bool fifo_end(struct fifo *f)
{
	atomic_dec(&f->inflight);
	smp_mb__after_atomic(); /* pairs with fifo_insert() */
	return READ_ONCE(f->queued);
}

#endif
