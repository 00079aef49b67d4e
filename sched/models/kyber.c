// SPDX-License-Identifier: GPL-2.0-only
/* The kyber scheduler: see kyber.h. The binding to an environment includes this file. */
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/math64.h>

#include "kyber.h"

static const struct knob kyber_knob_infos[KYBER_KNOB_COUNT] = {
#define KYBER_KNOB_INFO(name, unit, least, most, initial, what) \
	KNOB_INFO(name, unit, least, most, 1, initial, "log", NULL, 0, what)
	KYBER_KNOBS(KYBER_KNOB_INFO)
#undef KYBER_KNOB_INFO
};

/* Most tokens of a domain: enough reads to keep any drive busy, and fewer of the requests that should not delay reads. */
static const u32 kyber_depths[KYBER_DOMAINS] = {
	[KYBER_READ] = KYBER_TOKENS,
	[KYBER_WRITE] = 128,
	[KYBER_DISCARD] = 64,
	[KYBER_OTHER] = 16,
};

/* Requests in a batch of a domain. */
static const u32 kyber_batches[KYBER_DOMAINS] = {
	[KYBER_READ] = 16,
	[KYBER_WRITE] = 8,
	[KYBER_DISCARD] = 1,
	[KYBER_OTHER] = 1,
};

/**
 * kyber_init() - prepare a zeroed struct kyber
 * @k: the drive's scheduler
 * @queues: array of @queue_count hardware queues; owned by the caller, must outlive @k
 * @queue_count: number of hardware queues
 * @run: see struct kyber; must not dispatch before it returns
 * @argument: passed to @run
 */
static void kyber_init(struct kyber *k, struct kyber_queue *queues, unsigned int queue_count,
		       void (*run)(void *argument, struct kyber_queue *q), void *argument)
{
	unsigned int i, domain;

	k->queues = queues;
	k->queue_count = queue_count;
	k->run = run;
	k->argument = argument;
	for (i = 0; i < KYBER_KNOB_COUNT; i++)
		k->targets[i] = kyber_knob_infos[i].initial;
	k->targets[KYBER_DISCARD] = 5000000000;
	for (domain = 0; domain < KYBER_MEASURED; domain++)
		k->p99[domain] = -1;
	for (domain = 0; domain < KYBER_DOMAINS; domain++) {
		k->tokens[domain].depth = kyber_depths[domain];
		INIT_LIST_HEAD(&k->tokens[domain].waiting);
		for (i = 0; i < queue_count; i++) {
			queues[i].index = i;
			INIT_LIST_HEAD(&queues[i].fresh[domain]);
			INIT_LIST_HEAD(&queues[i].flushed[domain]);
			INIT_LIST_HEAD(&queues[i].waiting[domain]);
		}
	}
}

/**
 * kyber_has_work() - is anything queued?
 * @q: hardware queue
 *
 * kyber_dispatch() may return NULL nevertheless, for lack of tokens; the queue is then run when tokens are returned.
 */
static inline bool kyber_has_work(const struct kyber_queue *q)
{
	unsigned int domain;

	for (domain = 0; domain < KYBER_DOMAINS; domain++)
		if (!list_empty(&q->fresh[domain]) || !list_empty(&q->flushed[domain]))
			return true;
	return false;
}

/**
 * kyber_deinit() - check that nothing is left
 * @k: the drive's scheduler
 *
 * Return: true if every entry was dispatched, and every token has come back.
 */
static bool kyber_deinit(const struct kyber *k)
{
	unsigned int i, domain;

	for (i = 0; i < k->queue_count; i++)
		if (kyber_has_work(&k->queues[i]))
			return false;
	for (domain = 0; domain < KYBER_DOMAINS; domain++)
		for (i = 0; i < ARRAY_SIZE(k->tokens[domain].taken); i++)
			if (k->tokens[domain].taken[i])
				return false;
	return true;
}

/**
 * kyber_configure() - set a knob
 * @k: the drive's scheduler
 * @knob: the knob
 * @value: new value
 *
 * Earlier samples stay in the buckets of the old target.
 *
 * Return: 0, or -ERANGE, which leaves the knob unchanged.
 */
static int kyber_configure(struct kyber *k, enum kyber_knob knob, u64 value)
{
	if (value < kyber_knob_infos[knob].least || value > kyber_knob_infos[knob].most)
		return -ERANGE;
	k->targets[knob] = value;
	return 0;
}

/**
 * kyber_limit() - scheduler tags that asynchronous requests may hold
 * @tags: scheduler tags of a hardware queue, at least 1
 *
 * Return: 1 to @tags.
 */
static inline u32 kyber_limit(u32 tags)
{
	return max_t(u32, (u64)tags * KYBER_ASYNC_PERCENT / 100, 1);
}

/**
 * kyber_insert() - queue an entry
 * @q: hardware queue that the entry was submitted to
 * @e: an entry that holds no token
 * @domain: enum kyber_domain
 * @urgent: insert it before all fresh entries
 */
static inline void kyber_insert(struct kyber_queue *q, struct kyber_entry *e, unsigned int domain,
				bool urgent)
{
	e->domain = domain;
	if (urgent)
		list_add(kyber_node(e), &q->fresh[domain]);
	else
		list_add_tail(kyber_node(e), &q->fresh[domain]);
}

/* Takes a free token. Return: 1 + its number, or 0 if no token is free. */
static inline u16 kyber_take_token(struct kyber_tokens *tokens)
{
	unsigned int word;

	for (word = 0; word * BITS_PER_LONG < tokens->depth; word++) {
		unsigned int token = word * BITS_PER_LONG;

		if (!~tokens->taken[word])
			continue;
		token += __ffs(~tokens->taken[word]);
		if (token >= tokens->depth)
			break;
		tokens->taken[word] |= BIT(token % BITS_PER_LONG);
		return token + 1;
	}
	return 0;
}

/* Takes a token for a hardware queue; without one, the queue is added to the waiting ones. Return: see kyber_take_token(). */
static inline u16 kyber_get_token(struct kyber *k, struct kyber_queue *q, unsigned int domain)
{
	struct kyber_tokens *tokens = &k->tokens[domain];
	u16 token = kyber_take_token(tokens);

	if (token)
		list_del_init(&q->waiting[domain]);
	else if (list_empty(&q->waiting[domain]))
		list_add_tail(&q->waiting[domain], &tokens->waiting);
	return token;
}

/*
 * Returns a token. All waiting hardware queues are run whenever an eighth of the tokens, at most eight, were returned while
 * queues waited: one run of a hardware queue per token would cost too much (the kernel's sbitmap wakes in such batches).
 */
static inline void kyber_put_token(struct kyber *k, unsigned int domain, u16 token)
{
	struct kyber_tokens *tokens = &k->tokens[domain];
	const u32 batch = clamp_t(u32, tokens->depth / 8, 1, 8);

	token--;
	tokens->taken[token / BITS_PER_LONG] &= ~BIT(token % BITS_PER_LONG);
	if (list_empty(&tokens->waiting) || ++tokens->freed < batch)
		return;
	tokens->freed -= batch;
	while (!list_empty(&tokens->waiting)) {
		struct list_head *node = tokens->waiting.next;

		list_del_init(node);
		k->run(k->argument, container_of(node - domain, struct kyber_queue, waiting));
	}
}

/* Dispatches the first entry of the batch's domain. Return: NULL if no entry is queued or no token is free. */
static inline struct kyber_entry *kyber_dispatch_domain(struct kyber *k, struct kyber_queue *q)
{
	struct list_head *flushed = &q->flushed[q->domain], *fresh = &q->fresh[q->domain];
	struct kyber_entry *e;
	u16 token;

	if (list_empty(flushed) && list_empty(fresh))
		return NULL;
	token = kyber_get_token(k, q, q->domain);
	if (!token)
		return NULL;
	if (list_empty(flushed))
		list_splice_tail_init(fresh, flushed);
	e = kyber_entry_of(flushed->next);
	list_del_init(kyber_node(e));
	e->token = token;
	q->batched++;
	return e;
}

/**
 * kyber_dispatch() - pick the next entry of a hardware queue for the drive
 * @k: the drive's scheduler
 * @q: hardware queue
 *
 * Return: an entry, which now holds a token, or NULL if nothing is queued or no token is free.
 */
static inline struct kyber_entry *kyber_dispatch(struct kyber *k, struct kyber_queue *q)
{
	struct kyber_entry *e = NULL;
	unsigned int i;

	if (q->batched < kyber_batches[q->domain])
		e = kyber_dispatch_domain(k, q);
	if (e)
		return e;
	q->batched = 0;
	for (i = 0; i < KYBER_DOMAINS && !e; i++) {
		q->domain = (q->domain + 1) % KYBER_DOMAINS;
		e = kyber_dispatch_domain(k, q);
	}
	return e;
}

/**
 * kyber_finish() - an entry is freed, or the driver returns it
 * @k: the drive's scheduler
 * @e: not queued; has an effect only if it holds a token
 */
static inline void kyber_finish(struct kyber *k, struct kyber_entry *e)
{
	const u16 token = e->token;

	e->token = 0;
	if (token)
		kyber_put_token(k, e->domain, token);
}

static inline void kyber_sample(struct kyber *k, unsigned int domain, enum kyber_latency kind,
				u64 latency)
{
	const u64 width = max_t(u64, k->targets[domain] >> KYBER_BUCKETS_SHIFT, 1);
	const u64 bucket = latency ? div64_u64(latency - 1, width) : 0;

	k->samples[domain][kind][min_t(u64, bucket, KYBER_BUCKETS - 1)]++;
}

/**
 * kyber_complete() - an entry has completed
 * @k: the drive's scheduler
 * @e: the entry
 * @start: when its request was started, in ns
 * @issue: when it was issued to the drive, in ns
 * @now: the time, in ns
 *
 * Return: true if kyber_adjust() must be called at kyber_due(@now), unless an earlier call is already scheduled.
 */
static inline bool kyber_complete(struct kyber *k, const struct kyber_entry *e, u64 start,
				  u64 issue, u64 now)
{
	if (e->domain >= KYBER_MEASURED)
		return false;
	kyber_sample(k, e->domain, KYBER_TOTAL, now - start);
	kyber_sample(k, e->domain, KYBER_IO, now - issue);
	return true;
}

static inline u64 kyber_due(u64 now)
{
	return (div_u64(now, KYBER_TICK_NS) + KYBER_WINDOW) * KYBER_TICK_NS;
}

/*
 * Return: the bucket of a percentile, or -1 if there are too few samples. Both kinds of latency of a domain share one timeout,
 * which is reset when a percentile is taken. The I/O latency is checked first, so with fewer than KYBER_SAMPLES samples only
 * its percentile is ever taken.
 */
static int kyber_percentile(struct kyber *k, unsigned int domain, enum kyber_latency kind,
			    u32 percent, u64 tick)
{
	u32 *buckets = k->samples[domain][kind];
	u32 samples = 0, rank;
	int i, bucket = 0;

	for (i = 0; i < KYBER_BUCKETS; i++)
		samples += buckets[i];
	if (!samples)
		return -1;
	if (!k->timeouts[domain])
		k->timeouts[domain] = tick + KYBER_SECOND;
	if (samples < KYBER_SAMPLES && tick < k->timeouts[domain])
		return -1;
	k->timeouts[domain] = 0;
	for (rank = DIV_ROUND_UP(samples * percent, 100);
	     bucket < KYBER_BUCKETS - 1 && buckets[bucket] < rank; bucket++)
		rank -= buckets[bucket];
	for (i = 0; i < KYBER_BUCKETS; i++)
		buckets[i] = 0;
	return bucket;
}

/**
 * kyber_adjust() - adjust the numbers of tokens to the measured latencies
 * @k: the drive's scheduler
 * @now: the time, in ns
 *
 * Waiting hardware queues are not run when the number of tokens grows.
 */
static void kyber_adjust(struct kyber *k, u64 now)
{
	const u64 tick = div_u64(now, KYBER_TICK_NS);
	unsigned int domain;
	bool congested = false;

	/* the 90th percentile ignores a few outliers */
	for (domain = 0; domain < KYBER_MEASURED; domain++)
		if (kyber_percentile(k, domain, KYBER_IO, 90, tick) >= KYBER_GOOD_BUCKETS)
			congested = true;
	for (domain = 0; domain < KYBER_MEASURED; domain++) {
		int p99 = kyber_percentile(k, domain, KYBER_TOTAL, 99, tick);

		/* keep a percentile until it is needed, for one use: domains do not get enough samples at the same time */
		if (!congested && p99 >= 0)
			k->p99[domain] = p99;
		if (congested) {
			if (p99 < 0)
				p99 = k->p99[domain];
			k->p99[domain] = -1;
		}
		if (p99 >= KYBER_GOOD_BUCKETS || (congested && p99 >= 0)) {
			u32 depth = (k->tokens[domain].depth * (p99 + 1)) >> KYBER_BUCKETS_SHIFT;

			k->tokens[domain].depth = clamp_t(u32, depth, 1, kyber_depths[domain]);
		}
	}
}
