/* SPDX-License-Identifier: GPL-2.0-only */
/* What K2 tells those who observe it (sched/observe.h), as tracepoints (k2_trace.h). Included by k2.c. */
#ifndef TAILGATE_K2_OBSERVE_H
#define TAILGATE_K2_OBSERVE_H

static dev_t k2_dev(const struct k2_queue_data *d)
{
	struct gendisk *disk = READ_ONCE(d->instance.q->disk);

	return disk ? disk_devt(disk) : 0;
}

static void k2_observe_hold(const struct k2 *k2, const struct k2_refusal *r)
{
	trace_hold(k2_dev(k2->argument), r->why, r->sectors << SECTOR_SHIFT, r->requests,
		   r->met << SECTOR_SHIFT,
		   r->why == K2_HOLD_COUNT ? r->limit : r->limit << SECTOR_SHIFT);
}

static void k2_observe_release(const struct k2 *k2, enum k2_release why, u64 held_ns)
{
	trace_release(k2_dev(k2->argument), why, held_ns);
}

static void k2_observe_arrival(const struct k2 *k2, unsigned int flow, u64 arrived_ns, s64 error_ns,
			       bool in_time)
{
	const struct arrivals *arrivals = &k2->ahead.flows[flow].arrivals;

	trace_predict(k2_dev(k2->argument), flow, k2->ahead.flows[flow].level,
		      k2->ahead.flows[flow].key, arrived_ns, error_ns, in_time,
		      k2->ahead.predicted & BIT(flow), arrivals->way, arrivals_gap_ns(arrivals));
}

static void k2_observe_rt_end(const struct k2 *k2, struct k2_entry *e, const struct k2_note *note,
			      u64 now_ns)
{
	trace_rt_complete(k2_dev(k2->argument), e->level, req_op(k2_request(e)), e->sectors,
			  e->since_ns, now_ns, note);
}

#endif
