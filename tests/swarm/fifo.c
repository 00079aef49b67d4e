// SPDX-License-Identifier: GPL-2.0-only
/* The example scheduler as the subject, and its laws. */
#include <string.h>

#include "../../sched/fifo.h"
#include "subject.h"

static const struct knob fifo_knobs[] = { FIFO_KNOBS(KNOB_INFO) };

static struct fifo fifo;

/* Counts of the laws. `queued` has requests in the order in which they have to be dispatched. */
static struct {
	struct list_head queued;
	u64 inflight, dispatched;
} law;

static void subject_create(unsigned int queues)
{
	(void)queues;
	memset(&fifo, 0, sizeof(fifo));
	fifo_init(&fifo, fifo_knobs);
	INIT_LIST_HEAD(&law.queued);
	law.inflight = law.dispatched = 0;
}

static bool subject_set(unsigned int knob, u64 value)
{
	fifo.knobs[knob] = value;
	return fifo_has_work(&fifo);
}

static void subject_insert(struct io **ios, unsigned int count, bool urgent)
{
	LIST_HEAD(entries);
	LIST_HEAD(their_order);
	unsigned int i;

	for (i = 0; i < count; i++) {
		list_add_tail(&ios[i]->node, &entries);
		list_add_tail(&ios[i]->law_node, &their_order);
	}
	if (urgent)
		list_splice_init(&their_order, &law.queued);
	else
		list_splice_tail_init(&their_order, &law.queued);
	fifo_insert(&fifo, &entries, urgent);
}

static bool subject_has_work(u32 queue)
{
	(void)queue;
	return fifo_has_work(&fifo);
}

static struct io *subject_dispatch(u32 queue, struct list_head *large)
{
	struct list_head *entry = fifo_dispatch(&fifo);
	struct io *io;

	(void)queue, (void)large;
	if (!entry)
		return NULL;
	io = list_entry(entry, struct io, node);
	if (law.inflight >= fifo.knobs[FIFO_KNOB_inflight_max])
		player_fail("%llu requests are in the drive, and another went",
			    (unsigned long long)law.inflight);
	if (list_first_entry(&law.queued, struct io, law_node) != io)
		player_fail("a request went before an older one");
	list_del_init(&io->law_node);
	law.inflight++;
	law.dispatched++;
	return io;
}

static bool subject_finish(struct io *io)
{
	(void)io;
	law.inflight--;
	return fifo_end(&fifo);
}

static bool subject_requeue(struct io *io, bool dispatched_again)
{
	return dispatched_again && subject_finish(io);
}

static void subject_check(unsigned long runs, u64 armed_ns)
{
	(void)armed_ns;
	if (!runs && !list_empty(&law.queued) && law.inflight < fifo.knobs[FIFO_KNOB_inflight_max])
		player_fail("a request waits that may go, and nothing runs a hardware queue");
}

static void subject_destroy(void)
{
	if (fifo.queued || atomic_read(&fifo.inflight) || fifo.dispatched != law.dispatched)
		player_fail("the counters do not balance");
}

const struct subject subject_fifo = {
	.name = "fifo",
	.knobs = fifo_knobs,
	.knob_count = FIFO_KNOB_COUNT,
	.levels = 1,
	.tasks = 3,
	.create = subject_create,
	.destroy = subject_destroy,
	.set = subject_set,
	.finish = subject_finish,
	.requeue = subject_requeue,
	.insert = subject_insert,
	.has_work = subject_has_work,
	.dispatch = subject_dispatch,
	.check = subject_check,
};
