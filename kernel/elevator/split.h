/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Splitting of large requests by an I/O scheduler, on kernels that know nothing of it. A bio is cut in bio_merge, before
 * it is a request, by the task that submits it (split_submitted()). What does not pass there, such as a request that grew in
 * a plug, is taken apart at insertion (split_inserted()), and what the scheduler finds too large later when it is next
 * (split_may_take(), split_take()): its bios are cut by a worker, which may wait for memory, and submitted again. Both keep
 * the order of the pieces, and a bio completes once, with the first error of its pieces.
 *
 * Pieces carry REQ_NOMERGE, so that nothing joins them together again.
 *
 * The worker waits for scheduler tags of its disk. Disks can be stacked, as a loop device on a file: then the upper disk's
 * worker waits for I/O of the lower one, which may wait for the lower disk's worker. When memory is short, a workqueue has one
 * thread to rely on, its rescuer. So each disk has a workqueue of its own, made when its first request is taken apart; until
 * then a workqueue of the module stands in. It is made and destroyed by a work item (upkeep), because a thread cannot be
 * created where a queue is frozen, and because the last to need the workqueue may be its own worker.
 */
#ifndef TAILGATE_ELEVATOR_SPLIT_H
#define TAILGATE_ELEVATOR_SPLIT_H

#include <linux/blk-cgroup.h>
#include <linux/blk-crypto.h>
#include <linux/blk-integrity.h>
#include <linux/blk-mq.h>
#include <linux/blkdev.h>
#include <linux/kref.h>
#include <linux/slab.h>
#include <linux/workqueue.h>
#include <trace/events/block.h>

#include "../../sched/pieces.h"
#include "instance.h"
#include "statistics.h"

/**
 * struct split - what is being cut for one drive; it outlives the scheduler instance that it was made for
 * @references: the scheduler's, and one while @work or @upkeep is on its way
 * @lock: protects @bios
 * @bios: taken from requests, not yet submitted again
 * @sectors: most in a piece, for @work
 * @fails: a cut has failed for a reason other than memory: requests of this drive are left whole
 * @work: cuts @bios
 * @workers: the drive's workqueue; NULL: not made yet
 * @is_wanted: the workqueue is being made, or was
 * @name: of the workqueue
 * @upkeep: makes @workers, later destroys it
 * @requests: requests that were cut, since the start
 * @pieces: pieces that they became
 */
struct split {
	struct kref references;
	spinlock_t lock;
	struct bio_list bios;
	unsigned int sectors;
	bool fails;
	struct work_struct work;
	struct workqueue_struct *workers;
	atomic_t is_wanted;
	char name[DISK_NAME_LEN];
	struct work_struct upkeep;
	atomic_long_t requests;
	atomic_long_t pieces;
};

/* Not flushed when a scheduler leaves: the worker may wait for a queue that is frozen for just that. */
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

/* After elv_unregister(): no disk has the scheduler any more. Work that was queued before ends here. */
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

	/* without memory the stand-in goes on */
	WRITE_ONCE(s->workers, alloc_workqueue("%s_%s", WQ_MEM_RECLAIM | WQ_UNBOUND, 1,
					       this_scheduler.name, s->name));
	split_put(s);
}

/* The workqueue for @s->work. Any context. */
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

/* What a cut would break is left alone: atomic writes, the order of writes to a zone, protection information. */
static inline bool split_may(struct bio *bio)
{
	if (bio_op(bio) != REQ_OP_READ && bio_op(bio) != REQ_OP_WRITE &&
	    bio_op(bio) != REQ_OP_DISCARD)
		return false;
#ifdef REQ_ATOMIC
	if (bio->bi_opf & REQ_ATOMIC)
		return false;
#endif
	return !bio_integrity(bio) && !(op_is_write(bio_op(bio)) && bdev_is_zoned(bio->bi_bdev));
}

/*
 * Sectors of the first piece; 0: @bio is not too large, or cannot be cut. As in bio_split_discard(), pieces of a discard end
 * where a granule of the drive does, or the drive would ignore the ends of all of them.
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
	if (bio_has_crypt_ctx(bio)) /* a piece has whole units of what is encrypted together */
		sectors = rounddown(sectors,
				    bio->bi_crypt_context->bc_key->crypto_cfg.data_unit_size >>
					    SECTOR_SHIFT);
#endif
	return bio_sectors(bio) > sectors ? sectors : 0;
}

/* @piece has some of what @bio reads or writes, and @bio does not complete before it. */
static inline void split_adopt(struct bio *piece, struct bio *bio)
{
	piece->bi_opf |= REQ_NOMERGE;
	/* the whole was charged for all of its bytes */
	if (bio_flagged(bio, BIO_BPS_THROTTLED))
		bio_set_flag(piece, BIO_BPS_THROTTLED);
	if (bio_flagged(bio, BIO_CGROUP_ACCT))
		bio_set_flag(piece, BIO_CGROUP_ACCT);
	bio_chain(piece, bio);
}

/* The first piece; NULL without memory. */
static inline struct bio *split_front(struct bio *bio, unsigned int sectors, gfp_t gfp)
{
	struct bio *piece = bio_split(bio, sectors, gfp, &bio->bi_bdev->bd_disk->bio_split);

	if (IS_ERR_OR_NULL(piece))
		return NULL;
	split_adopt(piece, bio);
	trace_block_split(piece, bio->bi_iter.bi_sector);
	return piece;
}

/*
 * Submits the last piece, as a clone of @bio. If @bio itself were that piece, its own success would hide the error of a piece
 * that failed before. Where there is no memory for a clone, @bio is submitted all the same.
 */
static inline void split_submit_rest(struct bio *bio, gfp_t gfp)
{
	struct bio *piece =
		bio_alloc_clone(bio->bi_bdev, bio, gfp, &bio->bi_bdev->bd_disk->bio_split);

	if (!piece) {
		bio->bi_opf |= REQ_NOMERGE;
		submit_bio_noacct(bio);
		return;
	}
	split_adopt(piece, bio);
	submit_bio_noacct(piece);
	bio_advance(bio, bio->bi_iter.bi_size); /* as at any other end */
	bio_endio(bio);
}

/**
 * split_bio() - in bio_merge: cut a bio that is larger than a piece
 * @s: of the drive
 * @bio: to be submitted
 * @sectors: most in a piece
 *
 * One cut a call: both parts are put behind those that this task submits already, and come here again.
 *
 * Return: true if @bio was taken; false if it goes on as it is: small, not to be cut, or no memory to be had at once.
 */
static inline bool split_bio(struct split *s, struct bio *bio, unsigned int sectors)
{
	unsigned int first;
	struct bio *piece;

	if (!split_may(bio))
		return false;
	first = split_point(bio, sectors);
	if (!first) {
		/* a plug would join two of these to more than a piece, without asking; discards it may join, as drives like them together */
		if (piece_is_full(sectors, bio_sectors(bio)) && bio_op(bio) != REQ_OP_DISCARD)
			bio->bi_opf |= REQ_NOMERGE;
		return false;
	}
	if (WARN_ON_ONCE(!current->bio_list))
		return false;
	if (bio->bi_opf & REQ_NOWAIT) {
		/* Half of it may find a tag and half not. Who polls takes "again" for an answer only from later kernels. */
		if (!(bio->bi_opf & REQ_POLLED)) {
			bio_wouldblock_error(bio);
			return true;
		}
		bio->bi_opf &= ~REQ_NOWAIT;
	}
	bio_clear_polled(bio);
	piece = split_front(bio, first, GFP_NOWAIT | __GFP_NOWARN);
	if (!piece)
		return false;
	atomic_long_inc(&s->pieces);
	submit_bio_noacct(piece);
	if (!split_point(bio, sectors)) { /* the last cut */
		atomic_long_inc(&s->pieces);
		atomic_long_inc(&s->requests);
		split_submit_rest(bio, GFP_NOWAIT | __GFP_NOWARN);
	} else {
		submit_bio_noacct(bio);
	}
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
			struct bio *piece = split_front(bio, first, GFP_NOIO);

			if (!piece) { /* it never waits for memory in vain */
				pr_warn_once("%s: a request cannot be split\n",
					     this_scheduler.name);
				WRITE_ONCE(s->fails, true); /* or it would come back for ever */
				break;
			}
			atomic_long_inc(&s->pieces);
			submit_bio_noacct(piece);
			is_cut = true;
		}
		atomic_long_inc(&s->pieces);
		if (is_cut) {
			split_submit_rest(bio, GFP_NOIO);
		} else {
			bio->bi_opf |= REQ_NOMERGE;
			submit_bio_noacct(bio);
		}
		cond_resched();
	}
	blk_finish_plug(&plug);
	split_put(s);
}

/* May sleep. */
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

/* Is there something to gain? Several ranges that the block layer made one command, as the drive likes them, stay one. */
static inline bool split_may_take_discard(struct request *rq, unsigned int sectors)
{
	return rq->bio == rq->biotail ? split_point(rq->bio, sectors) :
					queue_max_discard_segments(rq->q) == 1;
}

/*
 * At insertion: may this request, which was never dispatched, be taken apart into @sectors each? It ends without data, and
 * the block layer puts back a key for inline encryption only at the end of data.
 */
static inline bool split_may_take(const struct split *s, struct request *rq, unsigned int sectors)
{
	if (req_op(rq) == REQ_OP_DISCARD && !split_may_take_discard(rq, sectors))
		return false;
	return rq->bio && !blk_rq_is_passthrough(rq) && !rq->end_io &&
	       !blk_mq_request_started(rq) &&
	       !(rq->rq_flags & (RQF_FLUSH_SEQ | RQF_SPECIAL_PAYLOAD | RQF_DONTPREP)) &&
	       rq->rq_flags & ELV_RQF_PREPARED && split_may(rq->bio) &&
	       !bio_has_crypt_ctx(rq->bio) && !READ_ONCE(s->fails);
}

/*
 * The policies that throttle a cgroup's bios (iolatency counts those in flight, iocost what they cost) wait for each to end,
 * and will throttle its pieces anew. So for them the bio ends here: a stand-in with what they have noted in it ends with
 * BLK_STS_AGAIN, "was not submitted". iocost has no way to take a charge back: such a bio is paid for twice.
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
	/* the very group that was charged, which a new association might miss */
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
 * split_take() - take requests apart, for which split_may_take() holds
 * @s: of the drive
 * @list: requests, which are no more afterwards
 * @sectors: most in a piece
 *
 * The caller holds no lock. If it has no further request of the drive, the scheduler may have gone when this returns.
 */
static inline void split_take(struct split *s, struct list_head *list, unsigned int sectors)
{
	struct request *rq, *next;
	struct bio_list bios;

	bio_list_init(&bios);
	list_for_each_entry(rq, list, queuelist) {
		struct bio *bio;

		/* What belonged to the request. Some of it blk_steal_bios() does too, on later kernels. */
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
		split_put(s); /* it is on its way */
	/* last: a request that ends lets others in */
	list_for_each_entry_safe(rq, next, list, queuelist) {
		list_del_init(&rq->queuelist);
		blk_mq_end_request(rq, BLK_STS_OK);
	}
}

static inline struct split *split_of(const struct instance *instance, bool discards)
{
	return discards ? instance->discard_split : instance->split;
}

/* In bio_merge: splits a bio that is larger than the scheduler wants a request to be. Return: true if it was taken. */
static noinline bool split_submitted(struct instance *instance, struct bio *bio)
{
	bool discards = bio_op(bio) == REQ_OP_DISCARD;
	unsigned int piece = this_scheduler.piece(&instance->algorithm, bio->bi_ioprio, discards);

	return piece && split_bio(split_of(instance, discards), bio, piece);
}

/* Takes from @list, which is being inserted, what has to be split: discards, or all else. */
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
		    !split_may_take(s, rq, piece))
			continue;
		smallest = min(smallest, piece);
		list_move_tail(&rq->queuelist, &large);
	}
	if (!list_empty(&large))
		split_take(s, &large, smallest);
}

/* At insertion: takes from @list what has to be split. Return: false if nothing is left; then the scheduler may have gone. */
static noinline bool split_inserted(struct instance *instance, struct list_head *list)
{
	split_inserted_of(instance, list, false);
	if (!list_empty(list))
		split_inserted_of(instance, list, true);
	return !list_empty(list);
}

/* Can requests be split to a knob's value? Return: 0, -ERANGE or -EINVAL. */
static inline int split_check_kib(const struct instance *instance, u64 kib)
{
	if (kib > queue_max_sectors(instance->q) / 2)
		return -ERANGE;
	return kib << 10 & (queue_logical_block_size(instance->q) - 1) ? -EINVAL : 0;
}

/* Prints what was cut so far: the keys <prefix>_requests and <prefix>_pieces. */
static inline void split_show(struct seq_file *m, const struct instance *instance,
			      const struct split *s, const char *prefix)
{
	statistics_print(m, instance, "%s_requests %ld", prefix, atomic_long_read(&s->requests));
	statistics_print(m, instance, "%s_pieces %ld", prefix, atomic_long_read(&s->pieces));
}

#endif
