/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The tracepoints of k2, /sys/kernel/tracing/events/k2/: a bound begins to hold background requests, and releases them;
 * predictions of real-time requests; the end of each real-time request. sched/observe.h says when they fire.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM k2

#if !defined(TAILGATE_K2_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define TAILGATE_K2_TRACE_H

#include <linux/tracepoint.h>

#include "../sched/k2.h"

/* clang-format off */

/* The next background request does not fit into a bound. The limit is in requests if the reason is count, else in bytes. */
TRACE_EVENT_FN(hold,
	TP_PROTO(const struct k2 *k2, const struct bound_request *r),
	TP_ARGS(k2, r),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__array(char, reason, 8)
		__field(u64, bytes)
		__field(u64, inflight_bytes)
		__field(u64, limit)
		__field(unsigned int, inflight)
	),
	TP_fast_assign(
		__entry->dev = instance_dev(instance_with(k2));
		strscpy(__entry->reason, k2_holds[r->why], sizeof(__entry->reason));
		__entry->bytes = r->sectors << SECTOR_SHIFT;
		__entry->inflight_bytes = r->met << SECTOR_SHIFT;
		__entry->limit = r->why == K2_HOLD_COUNT ? r->limit : r->limit << SECTOR_SHIFT;
		__entry->inflight = r->requests;
	),
	TP_printk("%d,%d reason=%s bytes=%llu inflight=%u inflight_bytes=%llu limit=%llu",
		  MAJOR(__entry->dev), MINOR(__entry->dev), __entry->reason, __entry->bytes,
		  __entry->inflight, __entry->inflight_bytes, __entry->limit),
	observe_begin, observe_end
);

/* A background request is dispatched again, held_ns after hold. */
TRACE_EVENT_FN(release,
	TP_PROTO(const struct k2 *k2, enum k2_release why, u64 held_ns),
	TP_ARGS(k2, why, held_ns),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__array(char, reason, 12)
		__field(u64, held_ns)
	),
	TP_fast_assign(
		__entry->dev = instance_dev(instance_with(k2));
		strscpy(__entry->reason, k2_releases[why], sizeof(__entry->reason));
		__entry->held_ns = held_ns;
	),
	TP_printk("%d,%d reason=%s held_ns=%llu", MAJOR(__entry->dev), MINOR(__entry->dev),
		  __entry->reason, __entry->held_ns),
	observe_begin, observe_end
);

/*
 * A real-time request is dispatched while arrivals are learned. With was_predicted, it was expected at due_ns and arrived error_ns later.
 * With is_predicted, the flow's next request is expected gap_ns after the event that the member from names.
 */
TRACE_EVENT_FN(predict,
	TP_PROTO(const struct k2 *k2, unsigned int flow, u64 arrived_ns, s64 error_ns, bool in_time),
	TP_ARGS(k2, flow, arrived_ns, error_ns, in_time),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(unsigned int, flow)
		__field(u64, cgroup)
		__field(u64, due_ns)
		__field(s64, error_ns)
		__field(u64, gap_ns)
		__array(char, from, 8)
		__field(u8, level)
		__field(bool, was_predicted)
		__field(bool, in_time)
		__field(bool, is_predicted)
	),
	TP_fast_assign(
		const struct arrivals *arrivals = &k2->ahead.flows[flow].arrivals;

		__entry->dev = instance_dev(instance_with(k2));
		__entry->flow = flow;
		__entry->cgroup = k2->ahead.flows[flow].key;
		__entry->level = k2->ahead.flows[flow].level;
		__entry->was_predicted = error_ns != K2_UNPREDICTED;
		__entry->error_ns = __entry->was_predicted ? error_ns : 0;
		__entry->due_ns = __entry->was_predicted ? arrived_ns - error_ns : 0;
		__entry->in_time = __entry->was_predicted && in_time;
		__entry->is_predicted = k2->ahead.predicted & BIT(flow);
		strscpy(__entry->from, k2_ways[arrivals->way], sizeof(__entry->from));
		__entry->gap_ns = arrivals_gap_ns(arrivals);
	),
	TP_printk("%d,%d flow=%u level=%u cgroup=%llu was_predicted=%d due_ns=%llu error_ns=%lld in_time=%d is_predicted=%d "
		  "from=%s gap_ns=%llu",
		  MAJOR(__entry->dev), MINOR(__entry->dev), __entry->flow, __entry->level, __entry->cgroup,
		  __entry->was_predicted, __entry->due_ns, __entry->error_ns, __entry->in_time,
		  __entry->is_predicted, __entry->from, __entry->gap_ns),
	observe_begin, observe_end
);

/*
 * A real-time request has ended. queue_us is the time from its start to its dispatch, device_us from its dispatch to its
 * end. At its dispatch, the drive had met_kib of other requests, and owed_kib of acknowledged writes that it had not
 * programmed yet, as far as K2 counted these then. With was_predicted, the request arrived error_us later than expected.
 */
TRACE_EVENT_FN(rt_complete,
	TP_PROTO(const struct k2 *k2, struct k2_entry *e, const struct k2_note *note, u64 now_ns),
	TP_ARGS(k2, e, note, now_ns),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u64, queue_us)
		__field(u64, device_us)
		__field(u64, total_us)
		__field(s64, error_us)
		__field(u32, sectors)
		__field(u32, met_kib)
		__field(u32, owed_kib)
		__field(u8, level)
		__field(u8, op)
		__field(bool, was_predicted)
	),
	TP_fast_assign(
		__entry->dev = instance_dev(instance_with(k2));
		/* another CPU's clock may be slightly ahead */
		__entry->queue_us = div_u64(max_t(s64, note->dispatched_ns - e->since_ns, 0), 1000);
		__entry->device_us = div_u64(max_t(s64, now_ns - note->dispatched_ns, 0), 1000);
		__entry->total_us = __entry->queue_us + __entry->device_us;
		__entry->was_predicted = note->error_ns != K2_UNPREDICTED;
		__entry->error_us = __entry->was_predicted ? div_s64(note->error_ns, 1000) : 0;
		__entry->sectors = e->sectors;
		__entry->met_kib = note->met_sectors / 2;
		__entry->owed_kib = note->owed_sectors / 2;
		__entry->level = e->level;
		__entry->op = (__force u8)req_op(k2_request(e));
	),
	TP_printk("%d,%d level=%u op=%s sectors=%u queue_us=%llu device_us=%llu total_us=%llu met_kib=%u "
		  "was_predicted=%d error_us=%lld owed_kib=%u",
		  MAJOR(__entry->dev), MINOR(__entry->dev), __entry->level,
		  __print_symbolic(__entry->op, { 0, "read" }, { 1, "write" }, { 2, "flush" },
				   { 3, "discard" }, { 5, "secure_erase" }, { 9, "write_zeroes" }),
		  __entry->sectors, __entry->queue_us, __entry->device_us, __entry->total_us,
		  __entry->met_kib, __entry->was_predicted, __entry->error_us, __entry->owed_kib),
	observe_begin, observe_end
);

/* clang-format on */

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE k2_trace
#include <trace/define_trace.h>
