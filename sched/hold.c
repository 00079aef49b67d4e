// SPDX-License-Identifier: GPL-2.0-only
/*
 * What of the background is held although the drive has room: discards, and writes while a flush is in it. A timer, or the end of
 * a discard, runs the queues. Included by k2.c.
 */
#include <linux/kernel.h>

#include "k2.h"

/* Real-time activity, if there was some, ends at this time, unless more of it comes. */
static inline u64 k2_quiet_ns(const struct k2 *k2)
{
	return READ_ONCE(k2->rt_seen_ns) +
	       max_t(u64, 2 * READ_ONCE(k2->period_ns), K2_GRACE_NS_MIN) + 1;
}

/* When a discard may go: 0 is at once, U64_MAX is when the one in the drive has ended. Any context, no lock. */
static u64 k2_discard_ns(const struct k2 *k2, u64 now)
{
	u64 due_ns = READ_ONCE(k2->discard_due_ns), quiet_ns = k2_quiet_ns(k2);

	if (atomic_read(&k2->discards))
		return U64_MAX;
	if (!READ_ONCE(k2->active) || now >= due_ns)
		return 0;
	/* what is real-time and in the drive keeps the activity up: look again later */
	if (quiet_ns <= now)
		quiet_ns = atomic_read(&k2->rt_inflight) ? now + K2_GRACE_NS_MIN : 0;
	return min(due_ns, quiet_ns);
}

/* Is the next of the background a write that is held for a flush? */
static bool k2_gates(struct k2 *k2, u64 now)
{
	u64 gate_ns = k2->gate_ns;

	if (!(READ_ONCE(k2->uses) & K2_USES_GATE) || !(k2->filled & 1UL << (K2_BACKGROUND + 1)))
		return false;
	if (!k2_writes(k2_entry_of(k2->lists[K2_BACKGROUND + 1].next)) || !k2_flushes(k2)) {
		gate_ns = 0;
	} else if (!gate_ns) {
		gate_ns = now + 1000ULL * k2->knobs[K2_KNOB_flush_gate_us];
		k2->gated++;
	}
	WRITE_ONCE(k2->gate_ns, gate_ns);
	return now < gate_ns;
}

/* When to look again whether it still is; 0: it is not. Any context, no lock. */
static u64 k2_gate_look_ns(const struct k2 *k2, u64 now)
{
	u64 gate_ns = READ_ONCE(k2->gate_ns), held_ns;

	if (now >= gate_ns || !k2_flushes(k2))
		return 0;
	held_ns = now + 1000ULL * READ_ONCE(k2->knobs[K2_KNOB_flush_gate_us]) - gate_ns;
	return min(gate_ns, now + max_t(u64, held_ns / 8, K2_LOOK_NS_MIN));
}

/* Discards are what they were without the knob: of the background, before what has come since. */
static void k2_release_discards(struct k2 *k2)
{
	struct list_head *discards = &k2->lists[K2_DISCARDS], *node;

	if (READ_ONCE(k2->uses) & K2_USES_DISCARDS || list_empty(discards))
		return;
	for (node = discards->next; node != discards; node = node->next)
		k2_entry_of(node)->list = K2_BACKGROUND + 1;
	list_splice_tail_init(&k2->lists[K2_BACKGROUND + 1], discards);
	list_splice_tail_init(discards, &k2->lists[K2_BACKGROUND + 1]);
	WRITE_ONCE(k2->filled, (k2->filled & ~(1UL << K2_DISCARDS)) | 1UL << (K2_BACKGROUND + 1));
}

/* Discards of the background wait apart, or one that is behind others could not go when it is owed. */
static noinline void k2_sort_discards(struct k2_ctx *ctx)
{
	struct list_head *background = &ctx->lists[K2_BACKGROUND + 1], *node, *next;

	for (node = background->next; node != background; node = next) {
		struct k2_entry *e = k2_entry_of(node);

		next = node->next;
		if (!k2_discards(e))
			continue;
		list_del_init(node);
		e->list = K2_DISCARDS;
		list_add_tail(node, &ctx->lists[K2_DISCARDS]);
		ctx->filled |= 1UL << K2_DISCARDS;
	}
	if (list_empty(background))
		ctx->filled &= ~(1UL << (K2_BACKGROUND + 1));
}

/* The bound is low because a request is expected, and no completion may come: a timer runs the queues. */
static noinline void k2_hold(struct k2 *k2, u64 until_ns)
{
	u64 armed_ns = READ_ONCE(k2->armed_ns);

	if (armed_ns && armed_ns <= until_ns)
		return;
	WRITE_ONCE(k2->armed_ns, until_ns);
	k2->arm(k2->argument, until_ns);
}

/* Lists that may be held. */
static inline unsigned long k2_holdable(const struct k2 *k2)
{
	return 1UL << K2_DISCARDS | (READ_ONCE(k2->gate_ns) ? 1UL << (K2_BACKGROUND + 1) : 0);
}

/* Is all that is staged held? The end of a discard in the drive, or a timer, runs the queues. */
static noinline bool k2_is_held(struct k2 *k2)
{
	unsigned long filled = READ_ONCE(k2->filled);
	u64 now = k2_now(k2), until_ns = U64_MAX;

	if (!filled || filled & ~k2_holdable(k2))
		return false;
	if (filled & 1UL << (K2_BACKGROUND + 1))
		until_ns = k2_gate_look_ns(k2, now);
	if (filled & 1UL << K2_DISCARDS)
		until_ns = min(until_ns, k2_discard_ns(k2, now));
	if (until_ns <= now)
		return false;
	if (until_ns != U64_MAX)
		k2_hold(k2, until_ns);
	return true;
}

/* @e goes: when the next discard may. */
static void k2_pace_discards(struct k2 *k2, struct k2_entry *e, unsigned int list)
{
	if (e->level == K2_BACKGROUND && k2_discards(e)) {
		e->tracked |= K2_DISCARDING;
		atomic_inc(&k2->discards);
		WRITE_ONCE(k2->discard_due_ns,
			   k2_now(k2) + 1000000000 / k2->knobs[K2_KNOB_discard_floor_iops]);
		k2->discard_passed = 0;
		k2->discarded++;
	} else if (list == K2_BACKGROUND + 1 && k2->filled & 1UL << K2_DISCARDS) {
		k2->discard_passed++;
	}
}
