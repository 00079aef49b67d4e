/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Splitting of large requests by an I/O scheduler. The block layer has no support for this, so it is done in two ways:
 *
 * - The submitting task splits a bio in bio_merge, before it becomes a request (split_submitted()).
 * - Other requests are taken apart at insertion, for example one that grew in a plug (split_inserted()), or when they are next
 *   to be dispatched and have become too large (split_may_take(), split_take()). A worker splits their bios and submits the pieces.
 *
 * Both keep the order of the pieces. A bio completes once, with the first error of its pieces. Pieces carry REQ_NOMERGE, so
 * that they are not merged again.
 *
 * The worker waits for scheduler tags of its disk and, if memory is short, for pieces to end. Disks can be stacked, such as a
 * loop device on a file: then the upper disk's worker waits for I/O of the lower disk, which may wait for the lower disk's
 * worker. When memory is short, a workqueue has only one thread, its rescuer. So each disk that splits has a workqueue of its
 * own. Its creation begins when a knob switches splitting on (split_expect()), or else, if the pieces come from a latency
 * target, with the first bio that may have to be split. Disks that never split have none. A work item (upkeep) creates and
 * destroys it, because a thread cannot be created while a queue is frozen, and because the last reference may be dropped by the
 * workqueue's own worker.
 *
 * Until the workqueue exists, one of the module is used, which all disks share. Stacked disks could deadlock then: if memory is short
 * from the moment that splitting is switched on, so that the creation waits for it, and both disks take requests apart meanwhile. The
 * same holds for good if the creation fails for want of memory.
 */
#ifndef TAILGATE_ELEVATOR_SPLIT_H
#define TAILGATE_ELEVATOR_SPLIT_H

#include <linux/blk-cgroup.h>
#include <linux/blk-crypto.h>
#include <linux/blk-integrity.h>
#include <linux/blk-mq.h>
#include <linux/blkdev.h>
#include <linux/completion.h>
#include <linux/kref.h>
#include <linux/slab.h>
#include <linux/workqueue.h>
#include <trace/events/block.h>

#include "../../sched/pieces.h"
#include "instance.h"
#include "statistics.h"

/**
 * struct split - state of splitting for one drive; it outlives the scheduler instance that it was created for
 * @references: one of the scheduler, and one while @work or @upkeep is queued or running
 * @lock: protects @bios and @sectors
 * @bios: bios taken from requests and not yet submitted again
 * @sectors: most sectors of a piece, for @work
 * @work: splits @bios
 * @workers: the drive's workqueue; NULL: not created yet
 * @is_wanted: the creation of @workers has begun
 * @name: the disk's name, for the name of the workqueue
 * @upkeep: creates @workers, and later destroys it
 * @requests: requests that were split, since the start
 * @pieces: pieces of these requests
 */
struct split {
	struct kref references;
	spinlock_t lock;
	struct bio_list bios;
	unsigned int sectors;
	struct work_struct work;
	struct workqueue_struct *workers;
	atomic_t is_wanted;
	char name[DISK_NAME_LEN];
	struct work_struct upkeep;
	atomic_long_t requests;
	atomic_long_t pieces;
};

/* Not flushed when a scheduler is switched off: the worker may wait for the queue, which is frozen meanwhile. */
static struct workqueue_struct *split_stand_in, *split_upkeep;
static atomic_t split_count;
static DECLARE_WAIT_QUEUE_HEAD(split_all_gone);

static inline int split_module_init(void)
{
	split_stand_in =
		alloc_workqueue("%s_split", WQ_MEM_RECLAIM | WQ_UNBOUND, 0, this_scheduler.name);
	split_upkeep = alloc_workqueue("%s_upkeep", WQ_UNBOUND, 0, this_scheduler.name);
	if (split_stand_in && split_upkeep)
		return 0;
	if (split_stand_in)
		destroy_workqueue(split_stand_in);
	if (split_upkeep)
		destroy_workqueue(split_upkeep);
	return -ENOMEM;
}

/* Called after elv_unregister(), when no disk uses the scheduler any more. Waits for work that is still queued. */
static inline void split_module_exit(void)
{
	wait_event(split_all_gone, !atomic_read(&split_count));
	destroy_workqueue(split_upkeep);
	destroy_workqueue(split_stand_in);
}

static void split_free_work(struct work_struct *upkeep)
{
	struct split *s = container_of(upkeep, struct split, upkeep);

	if (s->workers)
		destroy_workqueue(s->workers);
	kfree(s);
	if (atomic_dec_and_test(&split_count))
		wake_up(&split_all_gone);
}

static inline void split_free(struct kref *references)
{
	struct split *s = container_of(references, struct split, references);

	INIT_WORK(&s->upkeep, split_free_work);
	queue_work(split_upkeep, &s->upkeep);
}

static inline void split_put(struct split *s)
{
	kref_put(&s->references, split_free);
}

static void split_make_work(struct work_struct *upkeep)
{
	struct split *s = container_of(upkeep, struct split, upkeep);

	/*
	 * Without memory, the module's workqueue stays in use. Release: another CPU must not see the pointer before the workqueue
	 * itself. READ_ONCE() in split_workers() suffices there, as all of the workqueue is reached through the pointer.
	 */
	smp_store_release(&s->workers, alloc_workqueue("%s_%s", WQ_MEM_RECLAIM | WQ_UNBOUND, 1,
						       this_scheduler.name, s->name));
	split_put(s);
}

/* The workqueue for @s->work; begins to create the drive's own. Any context. */
static struct workqueue_struct *split_workers(struct split *s)
{
	struct workqueue_struct *workers = READ_ONCE(s->workers);

	if (!workers && !atomic_xchg(&s->is_wanted, 1)) {
		kref_get(&s->references);
		INIT_WORK(&s->upkeep, split_make_work);
		queue_work(split_upkeep, &s->upkeep);
	}
	return workers ? workers : split_stand_in;
}

/* A knob was set: if requests may be split from now on, begins to create the workqueues before one is. */
static inline void split_expect(struct instance *instance)
{
	if (this_scheduler.piece(&instance->algorithm, 0, false))
		split_workers(instance->split);
	if (this_scheduler.piece(&instance->algorithm, 0, true))
		split_workers(instance->discard_split);
}

/* The end of a piece that the worker awaits. */
static void split_awaited(struct bio *piece)
{
	complete(piece->bi_private);
}

/*
 * May a bio be split? Not a piece whose end the worker awaits: the worker would have to split it. Not if that would break an atomic
 * write, the order of writes to a zone, or protection information. Nor on a path of a multipath drive: requests move to another path
 * when this one goes away, and pieces would still need its memory.
 */
static inline bool split_may(struct bio *bio)
{
	if (bio->bi_end_io == split_awaited)
		return false;
	if (bio_op(bio) != REQ_OP_READ && bio_op(bio) != REQ_OP_WRITE &&
	    bio_op(bio) != REQ_OP_DISCARD)
		return false;
#ifdef REQ_ATOMIC
	if (bio->bi_opf & REQ_ATOMIC)
		return false;
#endif
	return !bio_integrity(bio) && !(bio->bi_bdev->bd_disk->flags & GENHD_FL_HIDDEN) &&
	       !(op_is_write(bio_op(bio)) && bdev_is_zoned(bio->bi_bdev));
}

/*
 * Sectors of the first piece; 0: @bio is not too large, or cannot be split. As in bio_split_discard(), pieces of a discard end
 * at a multiple of the drive's discard granularity. Otherwise the drive would ignore a part of each piece.
 */
static inline unsigned int split_point(struct bio *bio, unsigned int sectors)
{
	const struct queue_limits *limits = &bdev_get_queue(bio->bi_bdev)->limits;

	if (bio_op(bio) == REQ_OP_DISCARD) {
		unsigned int granule = max(limits->discard_granularity >> SECTOR_SHIFT, 1U);
		sector_t end;

		sectors = max(rounddown(sectors, granule), granule);
		end = bio->bi_iter.bi_sector + sectors -
		      (limits->discard_alignment >> SECTOR_SHIFT) % granule;
		sectors -= sector_div(end, granule);
	}
#ifdef CONFIG_BLK_INLINE_ENCRYPTION
	if (bio_has_crypt_ctx(bio)) /* a piece has whole encryption data units */
		sectors = rounddown(sectors,
				    bio->bi_crypt_context->bc_key->crypto_cfg.data_unit_size >>
					    SECTOR_SHIFT);
#endif
	return bio_sectors(bio) > sectors ? sectors : 0;
}

/* Makes @piece, a clone of @bio, the piece with the first @sectors, which @bio then lacks. */
static inline void split_cut(struct bio *piece, struct bio *bio, unsigned int sectors)
{
	piece->bi_iter.bi_size = sectors << SECTOR_SHIFT;
	piece->bi_opf |= REQ_NOMERGE;
	/* @bio was charged for all of its bytes: do not charge the piece again */
	if (bio_flagged(bio, BIO_BPS_THROTTLED))
		bio_set_flag(piece, BIO_BPS_THROTTLED);
	if (bio_flagged(bio, BIO_CGROUP_ACCT))
		bio_set_flag(piece, BIO_CGROUP_ACCT);
	/* its submission was traced */
	if (bio_flagged(bio, BIO_TRACE_COMPLETION))
		bio_set_flag(piece, BIO_TRACE_COMPLETION);
	bio_advance(bio, piece->bi_iter.bi_size);
	if (bio->bi_iter.bi_size)
		trace_block_split(piece, bio->bi_iter.bi_sector);
}

/* Submits the first @sectors of @bio as a piece; @bio does not complete before it. Does not sleep. Return: false without memory. */
static inline bool split_submit(struct bio *bio, unsigned int sectors)
{
	struct bio *piece = bio_alloc_clone(bio->bi_bdev, bio, GFP_NOWAIT | __GFP_NOWARN,
					    &bio->bi_bdev->bd_disk->bio_split);

	if (!piece)
		return false;
	split_cut(piece, bio, sectors);
	bio_chain(piece, bio);
	submit_bio_noacct(piece);
	return true;
}

/*
 * As split_submit(), for the worker. It must not wait for a bio of the disk's pool: bios that the block layer has split are of this pool,
 * too, and may be waiting for the worker. While the pool is empty, the piece is on the stack, and the worker waits for its end.
 */
static void split_submit_anyway(struct bio *bio, unsigned int sectors)
{
	DECLARE_COMPLETION_ONSTACK(ended);
	struct bio piece;

	if (split_submit(bio, sectors))
		return;
	/* the bio has no key and no protection information, so nothing is allocated that could fail */
	if (WARN_ON_ONCE(bio_init_clone(bio->bi_bdev, &piece, bio, GFP_NOIO))) {
		bio->bi_status = BLK_STS_RESOURCE;
		bio_advance(bio, sectors << SECTOR_SHIFT);
		return;
	}
	split_cut(&piece, bio, sectors);
	piece.bi_end_io = split_awaited;
	piece.bi_private = &ended;
	submit_bio_noacct(&piece);
	wait_for_completion_io(&ended);
	if (piece.bi_status && !bio->bi_status)
		bio->bi_status = piece.bi_status;
	bio_uninit(&piece);
}

/**
 * split_bio() - in bio_merge: split a bio that is larger than a piece
 * @s: the drive's state of splitting
 * @bio: the bio that is being submitted
 * @sectors: most sectors of a piece
 *
 * Each call splits once: both parts are appended to the bios that this task is submitting, and get here again.
 *
 * Return: true if @bio was taken; false if it continues unchanged: it is small enough, may not be split, or there is no memory now.
 */
static inline bool split_bio(struct split *s, struct bio *bio, unsigned int sectors)
{
	blk_opf_t opf = bio->bi_opf;
	unsigned int first;

	if (!split_may(bio))
		return false;
	first = split_point(bio, sectors);
	if (!first) {
		/* a plug merges without checking the size of a piece; that is wanted only for discards, which drives prefer merged */
		if (piece_is_full(sectors, bio_sectors(bio)) && bio_op(bio) != REQ_OP_DISCARD)
			bio->bi_opf |= REQ_NOMERGE;
		return false;
	}
	if (WARN_ON_ONCE(!current->bio_list))
		return false;
	if (bio->bi_opf & REQ_NOWAIT) {
		/* One piece may get a tag and another one not. On older kernels a polling task does not expect BLK_STS_AGAIN. */
		if (!(bio->bi_opf & REQ_POLLED)) {
			bio_wouldblock_error(bio);
			return true;
		}
		bio->bi_opf &= ~REQ_NOWAIT;
	}
	bio_clear_polled(bio);
	if (!split_submit(bio, first)) {
		bio->bi_opf = opf;
		return false;
	}
	atomic_long_inc(&s->pieces);
	if (!split_point(bio, sectors)) { /* that was the last split */
		atomic_long_inc(&s->pieces);
		atomic_long_inc(&s->requests);
		/* if the bio itself were the last piece, its success would hide the error of an earlier one: only without memory */
		if (split_submit(bio, bio_sectors(bio))) {
			bio_endio(bio);
			return true;
		}
		bio->bi_opf |= REQ_NOMERGE;
	}
	submit_bio_noacct(bio);
	return true;
}

static void split_work(struct work_struct *work)
{
	struct split *s = container_of(work, struct split, work);
	unsigned int sectors, first;
	struct bio_list bios;
	struct blk_plug plug;
	struct bio *bio;

	spin_lock(&s->lock);
	bios = s->bios;
	bio_list_init(&s->bios);
	sectors = s->sectors;
	spin_unlock(&s->lock);

	blk_start_plug(&plug);
	while ((bio = bio_list_pop(&bios))) {
		bool is_cut = false;

		while ((first = split_point(bio, sectors))) {
			atomic_long_inc(&s->pieces);
			split_submit_anyway(bio, first);
			is_cut = true;
		}
		atomic_long_inc(&s->pieces);
		if (is_cut) {
			split_submit_anyway(bio, bio_sectors(bio));
			bio_endio(bio);
		} else {
			bio->bi_opf |= REQ_NOMERGE;
			submit_bio_noacct(bio);
		}
		cond_resched();
	}
	blk_finish_plug(&plug);
	split_put(s);
}

/* Creates the state of splitting for a drive; NULL without memory. May sleep. */
static inline struct split *split_new(struct request_queue *q)
{
	struct split *s = kzalloc_node(sizeof(*s), GFP_KERNEL, q->node);

	if (!s)
		return NULL;
	atomic_inc(&split_count);
	strscpy(s->name, q->disk ? q->disk->disk_name : "-", sizeof(s->name));
	kref_init(&s->references);
	spin_lock_init(&s->lock);
	bio_list_init(&s->bios);
	INIT_WORK(&s->work, split_work);
	return s;
}

/* Is it useful to take a discard apart? If the drive takes several ranges in one command, a request that has several stays whole. */
static inline bool split_may_take_discard(struct request *rq, unsigned int sectors)
{
	return rq->bio == rq->biotail ? split_point(rq->bio, sectors) :
					queue_max_discard_segments(rq->q) == 1;
}

/*
 * May this request, which was never dispatched, be taken apart into pieces of @sectors each? Not one with a key for inline
 * encryption: split_take() ends the request with no data completed, and the block layer puts the keyslot only when data complete.
 */
static inline bool split_may_take(struct request *rq, unsigned int sectors)
{
	if (req_op(rq) == REQ_OP_DISCARD && !split_may_take_discard(rq, sectors))
		return false;
	return rq->bio && !blk_rq_is_passthrough(rq) && !rq->end_io &&
	       !blk_mq_request_started(rq) &&
	       !(rq->rq_flags & (RQF_FLUSH_SEQ | RQF_SPECIAL_PAYLOAD | RQF_DONTPREP)) &&
	       rq->rq_flags & ELV_RQF_PREPARED && split_may(rq->bio) && !bio_has_crypt_ctx(rq->bio);
}

/*
 * Ends a bio for the cgroup policies that throttle bios: iolatency counts bios in flight, and iocost counts their cost. Both
 * account for each bio until it ends, and will throttle its pieces as new bios. So a stand-in that carries the policies' data ends
 * with BLK_STS_AGAIN, which means that it was not submitted. iocost cannot take back a charge, so it charges such a bio twice.
 */
static inline void split_end_throttling(struct bio *bio)
{
	struct bio stand_in;

	if (!bio_flagged(bio, BIO_QOS_THROTTLED) && !bio_flagged(bio, BIO_QOS_MERGED))
		return;
	bio_init(&stand_in, bio->bi_bdev, NULL, 0, bio->bi_opf & ~REQ_INTEGRITY);
	stand_in.bi_iter = bio->bi_iter;
	if (bio_flagged(bio, BIO_QOS_THROTTLED))
		bio_set_flag(&stand_in, BIO_QOS_THROTTLED);
	if (bio_flagged(bio, BIO_QOS_MERGED))
		bio_set_flag(&stand_in, BIO_QOS_MERGED);
	bio_clear_flag(bio, BIO_QOS_THROTTLED);
	bio_clear_flag(bio, BIO_QOS_MERGED);
#ifdef CONFIG_BLK_CGROUP
	/* keep the group that was charged: a new association might find another one */
	bio_clone_blkg_association(&stand_in, bio);
	swap(stand_in.bi_blkg, bio->bi_blkg);
#endif
#ifdef CONFIG_BLK_CGROUP_IOCOST
	swap(stand_in.bi_iocost_cost, bio->bi_iocost_cost);
#endif
	stand_in.bi_status = BLK_STS_AGAIN;
	bio_endio(&stand_in);
	bio_uninit(&stand_in);
}

/**
 * split_take() - take apart requests for which split_may_take() returned true
 * @s: the drive's state of splitting
 * @list: the requests; they are freed
 * @sectors: most sectors of a piece
 *
 * The caller holds no lock. Unless the caller has another request of the drive, the scheduler may have been switched off when this
 * returns.
 */
static inline void split_take(struct split *s, struct list_head *list, unsigned int sectors)
{
	struct request *rq, *next;
	struct bio_list bios;

	bio_list_init(&bios);
	list_for_each_entry(rq, list, queuelist) {
		struct bio *bio;

		/* undo what belonged to the request; blk_steal_bios() of later kernels does a part of it, too */
		for (bio = rq->bio; bio; bio = bio->bi_next) {
			bio->bi_opf &= ~REQ_NOWAIT;
			bio_clear_polled(bio);
			split_end_throttling(bio);
			bio_set_flag(bio, BIO_CGROUP_ACCT);
			bio_set_flag(bio, BIO_BPS_THROTTLED);
		}
		blk_steal_bios(&bios, rq);
		atomic_long_inc(&s->requests);
	}
	spin_lock(&s->lock);
	s->sectors = sectors;
	bio_list_merge(&s->bios, &bios);
	spin_unlock(&s->lock);
	kref_get(&s->references);
	if (!queue_work(split_workers(s), &s->work))
		split_put(s); /* it was queued already */
	/* last: the scheduler may be switched off once the requests have ended */
	list_for_each_entry_safe(rq, next, list, queuelist) {
		list_del_init(&rq->queuelist);
		blk_mq_end_request(rq, BLK_STS_OK);
	}
}

static inline struct split *split_of(const struct instance *instance, bool discards)
{
	return discards ? instance->discard_split : instance->split;
}

/* In bio_merge: splits a bio that is larger than the scheduler's limit for a request. Return: true if the bio was taken. */
static noinline bool split_submitted(struct instance *instance, struct bio *bio)
{
	bool discards = bio_op(bio) == REQ_OP_DISCARD;
	unsigned int piece = this_scheduler.piece(&instance->algorithm, bio->bi_ioprio, discards);
	struct split *s = split_of(instance, discards);

	if (!piece)
		return false;
	split_workers(s); /* it may be needed when the request is inserted */
	return split_bio(s, bio, piece);
}

/* Takes requests that are too large from @list, which is being inserted: discards, or all other requests. */
static void split_inserted_of(struct instance *instance, struct list_head *list, bool discards)
{
	struct split *s = split_of(instance, discards);
	unsigned int piece, smallest = UINT_MAX;
	struct request *rq, *next;
	LIST_HEAD(large);

	list_for_each_entry_safe(rq, next, list, queuelist) {
		if (discards != (req_op(rq) == REQ_OP_DISCARD))
			continue;
		piece = this_scheduler.piece(&instance->algorithm, req_get_ioprio(rq), discards);
		if (!piece_is_exceeded(piece, blk_rq_sectors(rq)) || !this_scheduler.is_new(rq) ||
		    !split_may_take(rq, piece))
			continue;
		smallest = min(smallest, piece);
		list_move_tail(&rq->queuelist, &large);
	}
	if (!list_empty(&large))
		split_take(s, &large, smallest);
}

/* At insertion: takes requests that are too large from @list. Return: false if none is left; the scheduler may then be switched off. */
static noinline bool split_inserted(struct instance *instance, struct list_head *list)
{
	split_inserted_of(instance, list, false);
	if (!list_empty(list))
		split_inserted_of(instance, list, true);
	return !list_empty(list);
}

/* Checks a value of a knob for the size of pieces, in KiB. Return: 0, -ERANGE or -EINVAL. */
static inline int split_check_kib(const struct instance *instance, u64 kib)
{
	if (kib > queue_max_sectors(instance->q) / 2)
		return -ERANGE;
	return kib << 10 & (queue_logical_block_size(instance->q) - 1) ? -EINVAL : 0;
}

/* Prints the numbers of requests split and of their pieces: keys <prefix>_requests and <prefix>_pieces. */
static inline void split_show(struct seq_file *m, const struct instance *instance,
			      const struct split *s, const char *prefix)
{
	statistics_print(m, instance, "%s_requests %ld", prefix, atomic_long_read(&s->requests));
	statistics_print(m, instance, "%s_pieces %ld", prefix, atomic_long_read(&s->pieces));
}

#endif
