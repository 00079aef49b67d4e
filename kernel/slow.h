/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A disk's log of slow requests: the latest SLOW_RECORDS, in a ring. Whoever keeps it decides what is slow. What is to be
 * known of a request then, but is over when it ends, is noted for all that go to the drive, in a table by hardware queue
 * and scheduler tag.
 */
#ifndef TAILGATE_SLOW_H
#define TAILGATE_SLOW_H

#include <linux/blk-mq.h>
#include <linux/mm.h>
#include <linux/seq_file.h>
#include <linux/spinlock.h>

#define SLOW_RECORDS 64
/* Scheduler tags of a hardware queue: the kernels refuse a larger nr_requests. */
#define SLOW_TAGS 2048
/* error_ns of who was not predicted */
#define SLOW_UNPREDICTED S64_MAX

/**
 * struct slow_start - of a request in the drive
 * @dispatched_ns: when it went there
 * @error_ns: by how much later it came than was expected, or SLOW_UNPREDICTED
 * @sectors: its own, of 512 bytes
 * @met_sectors: in the drive when it went there
 * @owed_sectors: acknowledged by the drive and not worked off then, as far as that is known
 */
struct slow_start {
	u64 dispatched_ns;
	s64 error_ns;
	u32 sectors, met_sectors, owed_sectors;
};

/**
 * struct slow_record - a request that has ended
 * @number: of the record, from 0
 * @end_ns: when
 * @queue_ns: from its insertion to its dispatch
 * @device_ns: from there to its end
 * @start: what was noted at its dispatch
 * @op: what it did
 * @level: its scheduler's
 */
struct slow_record {
	u64 number;
	u64 end_ns, queue_ns, device_ns;
	struct slow_start start;
	enum req_op op;
	u8 level;
};

/**
 * struct slow_log - of a disk
 * @lock: protects @count and @records; requests end in any context
 * @count: records so far
 * @records: a ring
 * @queues: hardware queues
 * @starts: by hardware queue and tag
 */
struct slow_log {
	raw_spinlock_t lock;
	u64 count;
	struct slow_record records[SLOW_RECORDS];
	unsigned int queues;
	struct slow_start starts[];
};

/* NULL without memory. May sleep. */
static inline struct slow_log *slow_new(unsigned int queues)
{
	struct slow_log *log;

	log = kvzalloc(struct_size(log, starts, (size_t)queues * SLOW_TAGS), GFP_KERNEL);
	if (!log)
		return NULL;
	raw_spin_lock_init(&log->lock);
	log->queues = queues;
	return log;
}

static inline void slow_free(struct slow_log *log)
{
	kvfree(log);
}

static inline void slow_clear(struct slow_log *log)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&log->lock, flags);
	log->count = 0;
	raw_spin_unlock_irqrestore(&log->lock, flags);
}

/* NULL: it has no place. */
static inline struct slow_start *slow_start(struct slow_log *log, const struct request *rq)
{
	unsigned int queue = rq->mq_hctx->queue_num, tag = rq->internal_tag;

	if (queue >= log->queues || tag >= SLOW_TAGS)
		return NULL;
	return &log->starts[(size_t)queue * SLOW_TAGS + tag];
}

/**
 * slow_begin() - a request goes to the drive
 * @log: the disk's
 * @rq: the request
 * @met_sectors: see struct slow_start
 * @owed_sectors: likewise
 * @error_ns: likewise
 *
 * Any context.
 */
static inline void slow_begin(struct slow_log *log, const struct request *rq,
			      unsigned int met_sectors, unsigned int owed_sectors, s64 error_ns)
{
	struct slow_start *start = slow_start(log, rq);

	if (start)
		*start = (struct slow_start){
			.dispatched_ns = ktime_get_ns(),
			.error_ns = error_ns,
			.sectors = blk_rq_sectors(rq),
			.met_sectors = met_sectors,
			.owed_sectors = owed_sectors,
		};
}

/**
 * slow_end() - it has ended, and was slow
 * @log: the disk's
 * @rq: after slow_begin(), and before its tag is free
 * @level: its scheduler's
 * @since_ns: when it was inserted
 * @now_ns: the time
 *
 * Any context, also hard interrupt.
 */
static inline void slow_end(struct slow_log *log, const struct request *rq, unsigned int level,
			    u64 since_ns, u64 now_ns)
{
	const struct slow_start *start = slow_start(log, rq);
	struct slow_record *record;
	unsigned long flags;

	if (!start)
		return;
	raw_spin_lock_irqsave(&log->lock, flags);
	record = &log->records[log->count % SLOW_RECORDS];
	*record = (struct slow_record){
		.number = log->count++,
		.end_ns = now_ns,
		/* the clock of another CPU may have been ahead by a little */
		.queue_ns = max_t(s64, start->dispatched_ns - since_ns, 0),
		.device_ns = max_t(s64, now_ns - start->dispatched_ns, 0),
		.start = *start,
		.op = req_op(rq),
		.level = level,
	};
	raw_spin_unlock_irqrestore(&log->lock, flags);
}

/* Copies a record, if it is still there. */
static inline bool slow_read(struct slow_log *log, u64 number, struct slow_record *record)
{
	unsigned long flags;
	bool there;

	raw_spin_lock_irqsave(&log->lock, flags);
	*record = log->records[number % SLOW_RECORDS];
	there = number < log->count && record->number == number;
	raw_spin_unlock_irqrestore(&log->lock, flags);
	return there;
}

/* One line each, the oldest first. The lock is held for one at a time. */
static inline void slow_show(struct seq_file *m, struct slow_log *log)
{
	u64 count = READ_ONCE(log->count), number;
	struct slow_record record;

	for (number = count - min_t(u64, count, SLOW_RECORDS); number < count; number++) {
		if (!slow_read(log, number, &record))
			continue;
		seq_printf(m, "%llu %u %s %u %llu %llu %u", div_u64(record.end_ns, 1000),
			   record.level, blk_op_str(record.op), record.start.sectors,
			   div_u64(record.queue_ns, 1000), div_u64(record.device_ns, 1000),
			   record.start.met_sectors / 2);
		if (record.start.error_ns == SLOW_UNPREDICTED)
			seq_puts(m, " -");
		else
			seq_printf(m, " %lld", div_s64(record.start.error_ns, 1000));
		seq_printf(m, " %u\n", record.start.owed_sectors / 2);
	}
}

#endif
