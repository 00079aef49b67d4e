// SPDX-License-Identifier: GPL-2.0-only
/*
 * The block device vflash0: a model of a flash drive (flash/), driven by the kernel's clock. A request is submitted to the
 * model when the block layer issues it. One timer completes the requests that the model has finished. Data are kept in
 * memory, or not at all; a read then does not change its buffer.
 *
 * The parameter attachment chooses how the driver presents the drive to the block layer: as the NVMe driver does, or as the
 * drivers of USB storage and eMMC do, which take few requests at a time.
 *
 * Parameters that end with _every, bad_sectors, hw_queues and remove inject faults.
 */
#define pr_fmt(fmt) "vflash: " fmt

#include <linux/blk-crypto-profile.h>
#include <linux/highmem.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/sizes.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/xarray.h>

#include "compat/blk_mq.h"
#include "compat/hrtimer.h"
#include "../flash/flash.h"
#include "../flash/flash.c"

/* Limits the time for which a discard drops pages, as it does so without rescheduling. */
#define VF_DISCARD_SECTORS_MAX (16384 << 1)

static struct flash_parameters vf_parameters = FLASH_PARAMETERS_DEFAULT;
#define VF_PARAMETER(name, unit, least, most, initial, what)      \
	module_param_named(name, vf_parameters.name, uint, 0444); \
	MODULE_PARM_DESC(name, what " (" unit ", " #least " to " #most ", default " #initial ")");
FLASH_PARAMETERS(VF_PARAMETER)

/*
 * The driver whose behaviour is modelled. All but VF_NVME have one hardware queue.
 *
 * VF_USB	usb-storage: one command at a time; the scheduler is asked for the next one after it has completed.
 * VF_MMC	mmc_block without command queueing: one command in the card, and a second one prepared in the driver.
 * VF_CQE	mmc_block with command queueing.
 */
enum vf_attachment { VF_NVME, VF_USB, VF_MMC, VF_CQE };

static unsigned int attachment = VF_NVME;
module_param(attachment, uint, 0444);
MODULE_PARM_DESC(attachment, "0: as NVMe (default), 1: as usb-storage, 2: as eMMC, 3: as eMMC with "
			     "command queueing; 1 to 3 have one hardware queue");
/* can_queue of usb-storage; MMC_QUEUE_DEPTH; the tasks of an eMMC 5.1 queue */
static const unsigned int vf_depths[] = { BLK_MQ_MAX_DEPTH, 1, 64, 32 };

static unsigned int depth = 1023;
module_param(depth, uint, 0444);
MODULE_PARM_DESC(depth,
		 "commands that a hardware queue takes (1 to 10240, default 1023); at most 1, 64 "
		 "and 32 with attachment 1, 2 and 3");
static bool memory_backed;
module_param(memory_backed, bool, 0444);
MODULE_PARM_DESC(memory_backed, "keep the data, in memory (default 0)");
static unsigned int write_cache;
module_param(write_cache, uint, 0444);
MODULE_PARM_DESC(
	write_cache,
	"0: claims no volatile write cache (default), 1: claims one, 2: one that knows FUA");
static unsigned int timeout_ms = 30000;
module_param(timeout_ms, uint, 0444);
MODULE_PARM_DESC(timeout_ms, "timeout of a request in ms (1 to 3600000)");

#ifdef CONFIG_BLK_INLINE_ENCRYPTION
static unsigned int keyslots;
module_param(keyslots, uint, 0444);
MODULE_PARM_DESC(keyslots,
		 "slots for keys of inline encryption (0, the default: none); nothing is encrypted");
#endif

static unsigned int error_every;
module_param(error_every, uint, 0644);
MODULE_PARM_DESC(error_every, "one in this many requests ends with an error (0: none)");
static unsigned long bad_sector;
module_param(bad_sector, ulong, 0644);
MODULE_PARM_DESC(bad_sector, "first bad sector, if bad_sectors is not 0");
static unsigned int bad_sectors;
module_param(bad_sectors, uint, 0644);
MODULE_PARM_DESC(
	bad_sectors,
	"number of bad sectors; a read or write that touches one gets a medium error (0: none)");
static unsigned int requeue_every;
module_param(requeue_every, uint, 0644);
MODULE_PARM_DESC(
	requeue_every,
	"one in this many is requeued by the driver (0: none; with 1 the drive cannot be removed)");
static bool dontprep;
module_param(dontprep, bool, 0644);
MODULE_PARM_DESC(
	dontprep,
	"set RQF_DONTPREP on requeued requests, as NVMe and SCSI do: they bypass the scheduler; "
	"always set with attachment 1, 2 and 3");
static unsigned int lose_every;
module_param(lose_every, uint, 0644);
MODULE_PARM_DESC(lose_every, "one in this many is lost, until it times out (0: none)");
static bool timeout_requeue;
module_param(timeout_requeue, bool, 0644);
MODULE_PARM_DESC(timeout_requeue, "requeue a lost request instead of failing it");
static unsigned int busy_every;
module_param(busy_every, uint, 0644);
MODULE_PARM_DESC(
	busy_every,
	"one in this many gets BLK_STS_RESOURCE (0: none; with 1 the drive cannot be removed)");
static unsigned int devbusy_every;
module_param(devbusy_every, uint, 0644);
MODULE_PARM_DESC(
	devbusy_every,
	"one in this many gets BLK_STS_DEV_RESOURCE if others of the hardware queue are in the drive (0: none)");

/* the driver's data of each request */
struct vf_command {
	struct flash_command flash;
	blk_status_t status;
	bool again; /* requeue it when it completes */
	bool lost; /* never entered the drive */
};

static struct vf_drive {
	struct blk_mq_tag_set set;
	struct gendisk *disk;
#ifdef CONFIG_BLK_INLINE_ENCRYPTION
	struct blk_crypto_profile *crypto;
	unsigned int keys; /* how often a slot was given a key */
#endif
	struct xarray pages; /* PAGE_SIZE of data each; read under RCU */
	atomic_t issued; /* requests issued while faults are injected */
	struct mutex remove_lock; /* protects present, and the number of hardware queues */
	bool present; /* the disk was added and not removed */
	atomic_t budget; /* enum vf_budget; for VF_USB */
	unsigned long taking; /* bit 0: a request is in queue_rq; for VF_MMC, VF_CQE */
	wait_queue_head_t idle; /* waits until no request is in the drive; for VF_MMC */

	/* protects the members below; also taken by the timer */
	spinlock_t lock ____cacheline_aligned_in_smp;
	struct hrtimer timer;
	u64 armed_ns; /* the timer runs at this time or earlier */
	struct flash *flash;
	unsigned int inflight[64]; /* requests in the model, by hardware queue */
} vf = {
	/* writable parameters can be used before vf_init() runs, and after vf_exit() */
	.remove_lock = __MUTEX_INITIALIZER(vf.remove_lock),
	.idle = __WAIT_QUEUE_HEAD_INITIALIZER(vf.idle),
	.lock = __SPIN_LOCK_UNLOCKED(vf.lock),
};

/* --- data -------------------------------------------------------------------------------------------------------- */

static void vf_free_page(struct rcu_head *head)
{
	__free_page(container_of(head, struct page, rcu_head));
}

/* The page with the data at @index, allocated if there is none; NULL without memory. */
static struct page *vf_make_page(unsigned long index)
{
	struct page *page = xa_load(&vf.pages, index), *other;

	if (page)
		return page;
	page = alloc_page(GFP_NOWAIT | __GFP_ZERO | __GFP_NOWARN | __GFP_HIGHMEM);
	if (!page)
		return NULL;
	other = xa_cmpxchg(&vf.pages, index, NULL, page, GFP_NOWAIT | __GFP_NOWARN);
	if (!other)
		return page;
	__free_page(page);
	return xa_is_err(other) ? NULL : other;
}

static void vf_zero(struct page *page, unsigned int from, unsigned int to)
{
	if (page)
		memzero_page(page, from, to - from);
}

/* Drops the data from byte @from to byte @to - 1; they read as zeroes afterwards. */
static void vf_drop(loff_t from, loff_t to)
{
	unsigned long first = (from + PAGE_SIZE - 1) >> PAGE_SHIFT, end = to >> PAGE_SHIFT, index;
	struct page *page;

	if (first > end) { /* a part of one page */
		vf_zero(xa_load(&vf.pages, end), offset_in_page(from), offset_in_page(to));
		return;
	}
	if (offset_in_page(from))
		vf_zero(xa_load(&vf.pages, first - 1), offset_in_page(from), PAGE_SIZE);
	if (offset_in_page(to))
		vf_zero(xa_load(&vf.pages, end), 0, offset_in_page(to));
	if (first == end)
		return;
	xa_for_each_range(&vf.pages, index, page, first, end - 1) {
		page = xa_erase(&vf.pages, index);
		if (page) /* else another discard was first */
			call_rcu(&page->rcu_head, vf_free_page);
	}
}

/* Copies data between the request's pages and the drive's; false without memory: the caller tries again. */
static bool vf_copy(struct request *rq)
{
	loff_t at = (loff_t)blk_rq_pos(rq) << SECTOR_SHIFT;
	struct req_iterator iter;
	struct bio_vec segment, part;

	rq_for_each_segment(segment, rq, iter)
	{
		unsigned int left = segment.bv_len;

		part = segment; /* a copy: the loop advances by segment.bv_len */
		while (left) {
			unsigned int in_page = offset_in_page(at);
			unsigned int length = min_t(unsigned int, left, PAGE_SIZE - in_page);
			struct page *page;
			char *data;

			part.bv_len = length;
			if (op_is_write(req_op(rq))) {
				page = vf_make_page(at >> PAGE_SHIFT);
				if (!page)
					return false;
				data = kmap_local_page(page);
				memcpy_from_bvec(data + in_page, &part);
				kunmap_local(data);
			} else {
				page = xa_load(&vf.pages, at >> PAGE_SHIFT);
				if (page) {
					data = kmap_local_page(page);
					memcpy_to_bvec(&part, data + in_page);
					kunmap_local(data);
				} else {
					memzero_bvec(&part);
				}
			}
			part.bv_offset += length;
			left -= length;
			at += length;
		}
	}
	return true;
}

/* Transfers the data of a request, before its modelled time passes. Return: false without memory. */
static bool vf_transfer(struct request *rq)
{
	loff_t from = (loff_t)blk_rq_pos(rq) << SECTOR_SHIFT;
	bool done = true;

	rcu_read_lock(); /* a concurrent discard must not free the pages */
	switch (req_op(rq)) {
	case REQ_OP_READ:
	case REQ_OP_WRITE:
		done = vf_copy(rq);
		break;
	case REQ_OP_DISCARD:
	case REQ_OP_WRITE_ZEROES:
		vf_drop(from, from + blk_rq_bytes(rq));
		break;
	default:
		break;
	}
	rcu_read_unlock();
	return done;
}

/* --- time -------------------------------------------------------------------------------------------------------- */

static enum hrtimer_restart vf_timer(struct hrtimer *timer)
{
	enum hrtimer_restart restart = HRTIMER_NORESTART;
	struct flash_command *c, *next;
	LIST_HEAD(done);
	unsigned long flags;

	spin_lock_irqsave(&vf.lock, flags);
	flash_advance(vf.flash, ktime_get_ns(), &done);
	list_for_each_entry(c, &done, node) {
		struct vf_command *command = container_of(c, struct vf_command, flash);

		/* vf_wait_until_idle() reads the count without the lock, and is woken after it has changed */
		data_race(vf.inflight[blk_mq_rq_from_pdu(command)->mq_hctx->queue_num]--);
	}
	vf.armed_ns = flash_next_ns(vf.flash);
	if (hrtimer_is_queued(timer)) { /* vf_submit() armed it since it expired */
		if (vf.armed_ns != FLASH_NEVER)
			hrtimer_start(timer, ns_to_ktime(vf.armed_ns), HRTIMER_MODE_ABS_PINNED);
	} else if (vf.armed_ns != FLASH_NEVER) {
		hrtimer_set_expires(timer, ns_to_ktime(vf.armed_ns));
		restart = HRTIMER_RESTART;
	}
	spin_unlock_irqrestore(&vf.lock, flags);

	/* after the lock was released: a completion calls the scheduler, which may run a hardware queue */
	list_for_each_entry_safe(c, next, &done, node)
		blk_mq_complete_request(
			blk_mq_rq_from_pdu(container_of(c, struct vf_command, flash)));
	return restart;
}

static void vf_submit(struct request *rq, struct vf_command *c, unsigned int queue)
{
	u64 next_ns;

	switch (req_op(rq)) {
	case REQ_OP_READ:
		c->flash.op = FLASH_READ;
		break;
	case REQ_OP_WRITE:
		c->flash.op = rq->cmd_flags & REQ_FUA ? FLASH_WRITE_THROUGH : FLASH_WRITE;
		break;
	case REQ_OP_FLUSH:
		c->flash.op = FLASH_FLUSH;
		break;
	default: /* discard, or write zeroes: discarded data read as zeroes */
		c->flash.op = FLASH_DISCARD;
		break;
	}
	c->flash.sector = blk_rq_pos(rq);
	c->flash.sectors = blk_rq_sectors(rq);

	spin_lock_irq(&vf.lock);
	vf.inflight[queue]++;
	flash_submit(vf.flash, queue, &c->flash, ktime_get_ns());
	next_ns = flash_next_ns(vf.flash);
	if (next_ns < vf.armed_ns) {
		vf.armed_ns = next_ns;
		hrtimer_start(&vf.timer, ns_to_ktime(next_ns), HRTIMER_MODE_ABS_PINNED);
	}
	spin_unlock_irq(&vf.lock);
}

/* --- faults ------------------------------------------------------------------------------------------------------ */

enum vf_fault { VF_NONE, VF_ERROR, VF_REQUEUE, VF_LOSE, VF_BUSY, VF_DEVBUSY };

static bool vf_turn(unsigned int every, unsigned int n)
{
	return every && n % every == 0;
}

static enum vf_fault vf_fault(void)
{
	unsigned int error = READ_ONCE(error_every), requeue = READ_ONCE(requeue_every);
	unsigned int lose = READ_ONCE(lose_every), busy = READ_ONCE(busy_every);
	unsigned int devbusy = READ_ONCE(devbusy_every), n;

	if (likely(!(error | requeue | lose | busy | devbusy)))
		return VF_NONE;
	n = atomic_inc_return(&vf.issued);
	return vf_turn(busy, n)	   ? VF_BUSY :
	       vf_turn(devbusy, n) ? VF_DEVBUSY :
	       vf_turn(error, n)   ? VF_ERROR :
	       vf_turn(lose, n)	   ? VF_LOSE :
	       vf_turn(requeue, n) ? VF_REQUEUE :
				     VF_NONE;
}

/*
 * BLK_STS_DEV_RESOURCE promises that the hardware queue will be run again. A request of the hardware queue that is in the
 * drive keeps that promise: the block layer marks the queue before it calls us, and checks the mark when that request
 * completes. That is after now, because the request is in the drive while we hold the lock.
 */
static bool vf_may_be_busy(unsigned int queue)
{
	bool promise;

	spin_lock_irq(&vf.lock);
	promise = vf.inflight[queue];
	spin_unlock_irq(&vf.lock);
	return promise;
}

/* Status of a request. Bad sectors and error_every give different errors, so that a test can tell which came first. */
static blk_status_t vf_status(struct request *rq, enum vf_fault fault)
{
	u64 first = READ_ONCE(bad_sector), end = first + READ_ONCE(bad_sectors);

	if (fault == VF_ERROR)
		return BLK_STS_IOERR;
	if (likely(first == end) || (req_op(rq) != REQ_OP_READ && req_op(rq) != REQ_OP_WRITE))
		return BLK_STS_OK;
	return blk_rq_pos(rq) < end && blk_rq_pos(rq) + blk_rq_sectors(rq) > first ?
		       BLK_STS_MEDIUM :
		       BLK_STS_OK;
}

/* --- block layer ------------------------------------------------------------------------------------------------- */

/* Out of line: attachments that do not wait should not pay for its stack frame. */
static noinline void vf_wait_until_idle(void)
{
	wait_event(vf.idle, !READ_ONCE(vf.inflight[0]));
}

static blk_status_t vf_queue_rq(struct blk_mq_hw_ctx *hctx, const struct blk_mq_queue_data *bd)
{
	struct request *rq = bd->rq;
	struct vf_command *c = blk_mq_rq_to_pdu(rq);
	enum vf_fault fault = vf_fault();

	if (unlikely(fault == VF_BUSY))
		return BLK_STS_RESOURCE;
	if (unlikely(fault == VF_DEVBUSY && vf_may_be_busy(hctx->queue_num)))
		return BLK_STS_DEV_RESOURCE;
	if (memory_backed && !vf_transfer(rq))
		return BLK_STS_RESOURCE;
	c->status = vf_status(rq, fault);
	c->again = fault == VF_REQUEUE;
	c->lost = fault == VF_LOSE;
	blk_mq_start_request(rq);
	if (unlikely(fault == VF_LOSE)) /* not c->lost: it may have timed out by now */
		return BLK_STS_OK;
	if (unlikely(attachment == VF_MMC))
		vf_wait_until_idle();
	vf_submit(rq, c, hctx->queue_num);
	return BLK_STS_OK;
}

static void vf_complete(struct request *rq)
{
	struct vf_command *c = blk_mq_rq_to_pdu(rq);

	if (likely(!c->again)) {
		blk_mq_end_request(rq, c->status);
		return;
	}
	if (READ_ONCE(dontprep))
		rq->rq_flags |= RQF_DONTPREP;
	blk_mq_requeue_request(rq, true);
}

/* A lost command is not in the model, so it is completed here; any other command will complete by itself. */
static enum blk_eh_timer_return vf_timeout(struct request *rq)
{
	struct vf_command *c = blk_mq_rq_to_pdu(rq);

	if (!c->lost)
		return BLK_EH_RESET_TIMER;
	c->lost = false;
	c->again = READ_ONCE(timeout_requeue);
	c->status = BLK_STS_TIMEOUT;
	blk_mq_complete_request(rq);
	return BLK_EH_DONE;
}

/* --- usb ---------------------------------------------------------------------------------------------------------
 *
 * A SCSI device has a budget for each command that it can take, here one. The block layer takes a budget before it asks the scheduler for a
 * request, so that no request is chosen before it can be issued. queue_rq returns the budget if it refuses the request.
 */

enum vf_budget { VF_FREE, VF_TAKEN, VF_REFUSED /* taken, and refused to another CPU */ };

static int vf_get_budget(struct request_queue *q)
{
	while (atomic_cmpxchg(&vf.budget, VF_FREE, VF_TAKEN) != VF_FREE)
		if (atomic_cmpxchg(&vf.budget, VF_TAKEN, VF_REFUSED) != VF_FREE)
			return -1;
	return 0; /* the token's value is not used */
}

/* Runs the queue again for a CPU that was refused the budget: the block layer does not. */
static void vf_put_budget(struct request_queue *q, int token)
{
	if (atomic_xchg(&vf.budget, VF_FREE) == VF_REFUSED)
		blk_mq_run_hw_queues(q, true);
}

static void vf_set_rq_budget_token(struct request *rq, int token)
{
}

static int vf_get_rq_budget_token(struct request *rq)
{
	return 0;
}

static blk_status_t vf_usb_queue_rq(struct blk_mq_hw_ctx *hctx, const struct blk_mq_queue_data *bd)
{
	blk_status_t status;

	bd->rq->rq_flags |= RQF_DONTPREP;
	status = vf_queue_rq(hctx, bd);
	if (status)
		vf_put_budget(hctx->queue, 0);
	return status;
}

static void vf_usb_complete(struct request *rq)
{
	struct request_queue *q = rq->q;

	percpu_ref_get(&q->q_usage_counter); /* q may go away with its last request */
	vf_complete(rq);
	vf_put_budget(q, 0);
	percpu_ref_put(&q->q_usage_counter);
}

/* --- mmc and cqe -------------------------------------------------------------------------------------------------
 *
 * As mmc_mq_queue_rq() in drivers/mmc/core: it prepares one request at a time and refuses others meanwhile. Without command queueing
 * it then waits until the card has completed the request before.
 */

static blk_status_t vf_mmc_queue_rq(struct blk_mq_hw_ctx *hctx, const struct blk_mq_queue_data *bd)
{
	blk_status_t status;

	if (test_and_set_bit_lock(0, &vf.taking))
		return BLK_STS_RESOURCE;
	bd->rq->rq_flags |= RQF_DONTPREP;
	status = vf_queue_rq(hctx, bd);
	clear_bit_unlock(0, &vf.taking);
	return status;
}

static void vf_mmc_complete(struct request *rq)
{
	wake_up(&vf.idle);
	vf_complete(rq);
}

static const struct blk_mq_ops vf_mq_ops = {
	.queue_rq = vf_queue_rq,
	.complete = vf_complete,
	.timeout = vf_timeout,
};

static const struct blk_mq_ops vf_usb_ops = {
	.queue_rq = vf_usb_queue_rq,
	.get_budget = vf_get_budget,
	.put_budget = vf_put_budget,
	.set_rq_budget_token = vf_set_rq_budget_token,
	.get_rq_budget_token = vf_get_rq_budget_token,
	.complete = vf_usb_complete,
	.timeout = vf_timeout,
};

static const struct blk_mq_ops vf_mmc_ops = {
	.queue_rq = vf_mmc_queue_rq,
	.complete = vf_mmc_complete,
	.timeout = vf_timeout,
};

static const struct blk_mq_ops *const vf_ops[] = { &vf_mq_ops, &vf_usb_ops, &vf_mmc_ops,
						   &vf_mmc_ops };

static const struct block_device_operations vf_operations = {
	.owner = THIS_MODULE,
};

static struct gendisk *vf_alloc_disk(void)
{
	unsigned int max_sectors = vf_parameters.max_kib * 2;
	unsigned int max_segments = min(vf_parameters.max_kib / 4 + 1, 65535U);
	struct gendisk *disk;
#if KAPI_DISK_LIMITS
	struct queue_limits lim = {
		.logical_block_size = SECTOR_SIZE,
		.physical_block_size = vf_parameters.unit_kib << 10,
		.max_hw_sectors = max_sectors,
		.max_segments = max_segments,
		.max_hw_discard_sectors = VF_DISCARD_SECTORS_MAX,
		.max_write_zeroes_sectors = VF_DISCARD_SECTORS_MAX,
		.discard_granularity = vf_parameters.unit_kib << 10,
	};

#if KAPI_LIMITS_FEATURES
	if (write_cache)
		lim.features |= BLK_FEAT_WRITE_CACHE;
	if (write_cache > 1)
		lim.features |= BLK_FEAT_FUA;
#endif
	disk = blk_mq_alloc_disk(&vf.set, &lim, NULL);
	if (IS_ERR(disk))
		return disk;
#else
	disk = blk_mq_alloc_disk(&vf.set, NULL);
	if (IS_ERR(disk))
		return disk;
	blk_queue_logical_block_size(disk->queue, SECTOR_SIZE);
	blk_queue_physical_block_size(disk->queue, vf_parameters.unit_kib << 10);
	blk_queue_max_hw_sectors(disk->queue, max_sectors);
	blk_queue_max_segments(disk->queue, max_segments);
	blk_queue_max_discard_sectors(disk->queue, VF_DISCARD_SECTORS_MAX);
	blk_queue_max_write_zeroes_sectors(disk->queue, VF_DISCARD_SECTORS_MAX);
	disk->queue->limits.discard_granularity = vf_parameters.unit_kib << 10;
#endif
#if !KAPI_LIMITS_FEATURES
	blk_queue_write_cache(disk->queue, write_cache, write_cache > 1);
	blk_queue_flag_set(QUEUE_FLAG_NONROT, disk->queue);
#endif
	disk->fops = &vf_operations;
	strscpy(disk->disk_name, "vflash0", sizeof(disk->disk_name));
	set_capacity(disk, (sector_t)vf_parameters.capacity_mib << 11);
	return disk;
}

/* --- inline encryption --------------------------------------------------------------------------------------------
 *
 * A request with a key holds a slot from its submission to its end, as with the drivers of eMMC and UFS. Data stay as they are: the part
 * that can go wrong is in the block layer and in schedulers.
 */

#ifdef CONFIG_BLK_INLINE_ENCRYPTION
static int vf_take_key(struct blk_crypto_profile *profile, const struct blk_crypto_key *key,
		       unsigned int slot)
{
	vf.keys++; /* the block layer calls with a lock held */
	return 0;
}

static int vf_drop_key(struct blk_crypto_profile *profile, const struct blk_crypto_key *key,
		       unsigned int slot)
{
	return 0;
}

static int vf_init_crypto(void)
{
	int error;

	if (!keyslots)
		return 0;
	vf.crypto = kzalloc(sizeof(*vf.crypto), GFP_KERNEL);
	if (!vf.crypto)
		return -ENOMEM;
	error = blk_crypto_profile_init(vf.crypto, keyslots);
	if (error) {
		kfree(vf.crypto);
		return error;
	}
	vf.crypto->ll_ops.keyslot_program = vf_take_key;
	vf.crypto->ll_ops.keyslot_evict = vf_drop_key;
	vf.crypto->max_dun_bytes_supported = BLK_CRYPTO_MAX_IV_SIZE;
	vf.crypto->modes_supported[BLK_ENCRYPTION_MODE_AES_256_XTS] =
		SZ_4K; /* size of a data unit */
	blk_crypto_register(vf.crypto, vf.disk->queue);
	return 0;
}

static void vf_exit_crypto(void)
{
	if (!keyslots)
		return;
	blk_crypto_profile_destroy(vf.crypto);
	kfree(vf.crypto);
}

static ssize_t vf_show_crypto(char *buffer, ssize_t at)
{
	return sysfs_emit_at(buffer, at, "keys %u\n", READ_ONCE(vf.keys));
}
#else
static int vf_init_crypto(void)
{
	return 0;
}

static void vf_exit_crypto(void)
{
}

static ssize_t vf_show_crypto(char *buffer, ssize_t at)
{
	return 0;
}
#endif

/* --- module ------------------------------------------------------------------------------------------------------ */

/* Removes the disk, even while it is open; waits for requests in flight. */
static void vf_remove(void)
{
	mutex_lock(&vf.remove_lock);
	if (vf.present)
		del_gendisk(vf.disk);
	vf.present = false;
	mutex_unlock(&vf.remove_lock);
}

static int vf_set_remove(const char *value, const struct kernel_param *param)
{
	if (!READ_ONCE(vf.flash)) /* given as a parameter to insmod */
		return -EINVAL;
	vf_remove();
	return 0;
}

static const struct kernel_param_ops vf_remove_ops = { .set = vf_set_remove };
module_param_cb(remove, &vf_remove_ops, NULL, 0200);
MODULE_PARM_DESC(remove, "writing any value removes the disk, as if it were unplugged");

/* Changes the number of hardware queues, as the NVMe driver does when a drive offers another number after a reset. */
static int vf_set_hw_queues(const char *value, const struct kernel_param *param)
{
	unsigned int queues;
	int error = kstrtouint(value, 0, &queues);

	if (error)
		return error;
	mutex_lock(&vf.remove_lock);
	if (!vf.present || !queues || queues > vf_parameters.queues)
		error = -EINVAL;
	else
		blk_mq_update_nr_hw_queues(&vf.set, queues);
	mutex_unlock(&vf.remove_lock);
	return error;
}

static int vf_get_hw_queues(char *buffer, const struct kernel_param *param)
{
	return sysfs_emit(buffer, "%u\n", READ_ONCE(vf.set.nr_hw_queues));
}

static const struct kernel_param_ops vf_hw_queues_ops = {
	.set = vf_set_hw_queues,
	.get = vf_get_hw_queues,
};
module_param_cb(hw_queues, &vf_hw_queues_ops, NULL, 0644);
MODULE_PARM_DESC(hw_queues,
		 "of its queues, those that the block layer uses (1 to queues; at first all)");

static int vf_set_statistics(const char *value, const struct kernel_param *param)
{
	return -EPERM;
}

static int vf_get_statistics(char *buffer, const struct kernel_param *param)
{
	struct flash_statistics statistics = {};
	ssize_t bytes;

	spin_lock_irq(&vf.lock);
	if (vf.flash)
		statistics = vf.flash->statistics;
	spin_unlock_irq(&vf.lock);
	bytes = sysfs_emit(buffer,
			   "commands %llu\nslots_used_max %llu\ndie_reads %llu\nprograms %llu\n"
			   "erases %llu\nheld %llu\n",
			   statistics.commands, statistics.slots_used_max, statistics.die_reads,
			   statistics.programs, statistics.erases, statistics.held);
	return bytes + vf_show_crypto(buffer, bytes);
}

static const struct kernel_param_ops vf_statistics_ops = {
	.set = vf_set_statistics,
	.get = vf_get_statistics,
};
module_param_cb(statistics, &vf_statistics_ops, NULL, 0444);
MODULE_PARM_DESC(statistics, "counters of the drive; each line is a key and a value");

static int __init vf_check(void)
{
	const struct flash_parameter_info *wrong;
	const char *expected;

	wrong = flash_check(&vf_parameters, &expected);
	if (wrong && expected)
		pr_err("%s=%u: expected %s\n", wrong->name, *flash_parameter(&vf_parameters, wrong),
		       expected);
	else if (wrong)
		pr_err("%s=%u: expected %u to %u (%s)\n", wrong->name,
		       *flash_parameter(&vf_parameters, wrong), wrong->least, wrong->most,
		       wrong->unit);
	else if (attachment > VF_CQE)
		pr_err("attachment=%u: expected 0 to %u\n", attachment, VF_CQE);
	else if (!depth || depth > BLK_MQ_MAX_DEPTH)
		pr_err("depth=%u: expected 1 to %u\n", depth, BLK_MQ_MAX_DEPTH);
	else if (write_cache > 2)
		pr_err("write_cache=%u: expected 0 to 2\n", write_cache);
	else if (!timeout_ms || timeout_ms > 3600000)
		pr_err("timeout_ms=%u: expected 1 to 3600000\n", timeout_ms);
	else
		return 0;
	return -EINVAL;
}

static int __init vf_make_flash(void)
{
	struct flash *flash = kvzalloc(flash_size(&vf_parameters), GFP_KERNEL | __GFP_NOWARN);

	if (!flash) {
		pr_err("capacity_mib=%u: no memory for the drive's map\n",
		       vf_parameters.capacity_mib);
		return -ENOMEM;
	}
	flash_init(flash, &vf_parameters);
	WRITE_ONCE(vf.flash, flash);
	return 0;
}

static void vf_free_flash(void)
{
	struct flash *flash = vf.flash;

	spin_lock_irq(&vf.lock);
	WRITE_ONCE(vf.flash, NULL);
	spin_unlock_irq(&vf.lock);
	kvfree(flash);
}

static int __init vf_add_disk(void)
{
	int error;

	mutex_lock(&vf.remove_lock);
	error = add_disk(vf.disk);
	vf.present = !error;
	mutex_unlock(&vf.remove_lock);
	return error;
}

static int __init vf_init(void)
{
	int error = vf_check();

	if (error)
		return error;
	xa_init(&vf.pages);
	vf.armed_ns = FLASH_NEVER;
	/*
	 * Neither _HARD nor _SOFT: the timer then runs in hard interrupt context, as a drive's interrupt handler does. Under
	 * PREEMPT_RT, where interrupt handlers are threads, it runs in the thread of timers. Hard interrupt context would be
	 * wrong there: vf_timer(), vf_complete() and the ends of bios take spinlocks, which sleep.
	 */
	hrtimer_setup(&vf.timer, vf_timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_PINNED);

	if (attachment != VF_NVME)
		vf_parameters.queues = 1;
	depth = min(depth, vf_depths[attachment]);
	vf.set.ops = vf_ops[attachment];
	vf.set.nr_hw_queues = vf_parameters.queues;
	vf.set.queue_depth = depth;
	vf.set.numa_node = NUMA_NO_NODE;
	vf.set.cmd_size = sizeof(struct vf_command);
	vf.set.timeout = max(msecs_to_jiffies(timeout_ms), 1UL);
	vf.set.flags = BLK_MQ_F_SHOULD_MERGE;
	if (attachment >= VF_MMC)
		vf.set.flags |= BLK_MQ_F_BLOCKING;
	error = blk_mq_alloc_tag_set(&vf.set);
	if (error)
		return error;
	vf_parameters.queues = vf.set.nr_hw_queues; /* at most one for each CPU */

	error = vf_make_flash();
	if (error)
		goto free_set;
	vf.disk = vf_alloc_disk();
	if (IS_ERR(vf.disk)) {
		error = PTR_ERR(vf.disk);
		goto free_flash;
	}
	error = vf_init_crypto();
	if (error)
		goto put_disk;
	error = vf_add_disk();
	if (error)
		goto exit_crypto;
	return 0;

exit_crypto:
	vf_exit_crypto();
put_disk:
	put_disk(vf.disk);
free_flash:
	vf_free_flash();
free_set:
	blk_mq_free_tag_set(&vf.set);
	return error;
}

static void __exit vf_exit(void)
{
	struct page *page;
	unsigned long index;

	vf_remove();
	hrtimer_cancel(&vf.timer);
	put_disk(vf.disk);
	vf_exit_crypto();
	blk_mq_free_tag_set(&vf.set);
	vf_free_flash();
	xa_for_each(&vf.pages, index, page)
		__free_page(page);
	xa_destroy(&vf.pages);
	rcu_barrier(); /* waits for vf_free_page(), which is in this module */
}

module_init(vf_init);
module_exit(vf_exit);
MODULE_DESCRIPTION("virtual flash drive");
MODULE_LICENSE("GPL");
