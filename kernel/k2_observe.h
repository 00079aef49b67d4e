/* SPDX-License-Identifier: GPL-2.0-only */
/* K2's observers (sched/observe.h) are its tracepoints (k2_trace.h). Included by k2.c. */
#ifndef TAILGATE_K2_OBSERVE_H
#define TAILGATE_K2_OBSERVE_H

#include "elevator/observe.h"
#include "k2_trace.h"

#define k2_observer observe_now
#define k2_observe_hold trace_hold
#define k2_observe_release trace_release
#define k2_observe_arrival trace_predict
#define k2_observe_rt_end trace_rt_complete

/* Names of enum k2_hold, of enum k2_release, and of the events from which a flow's next request is predicted. */
static const char *const k2_holds[] = { "count", "bytes", "debt", "ahead", "target", "discard" };
static const char *const k2_releases[] = { "completion", "timer", "knob", "run" };
static const char *const k2_ways[ARRIVALS_WAYS] = { "end", "arrival" };

#endif
