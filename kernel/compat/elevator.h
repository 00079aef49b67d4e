/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The part of the block layer's private interface (block/elevator.h, block/blk-mq.h, block/blk-mq-sched.h) that an I/O
 * scheduler outside the kernel tree needs. KAPI_* comes from the target kernel's type information (btfcheck.c), and
 * kbtf_asserts.h checks every member declared here against it: on a kernel that differs, the build stops.
 *
 * What the macros stand for, with the kernel change behind each:
 *   KAPI_INIT_SCHED_TAKES_EQ    init_sched gets a preallocated elevator_queue (v6.17, in 6.16.y stable)
 *   KAPI_DEPTH_UPDATED_TAKES_Q  depth_updated is called once for a request queue, not for each hardware queue (v6.17)
 *   KAPI_ALLOC_SCHED_DATA       two more optional operations (v6.19, in 6.18.y stable)
 *   KAPI_INSERT_FLAGS           insert_requests takes blk_insert_t instead of bool (v6.4)
 *   KAPI_ELV_ATTRS_CONST        constant attribute tables (v6.14)
 *   KAPI_ELV_FEATURES           elevator_features exists (until v6.9)
 *   KAPI_EQ_TAGS, KAPI_EQ_FLAGS members of struct elevator_queue (v6.16; v6.2)
 *   KAPI_CACHED_RQS             struct rq_list instead of a bare list in blk_mq_alloc_data (v6.13, in 6.12.y stable)
 */
#ifndef TAILGATE_COMPAT_ELEVATOR_H
#define TAILGATE_COMPAT_ELEVATOR_H

#include <linux/blk-mq.h>
#include <linux/blkdev.h>
#include <linux/hashtable.h>
#include <linux/ioprio.h>
#include <linux/sbitmap.h>

#include "kbtf_features.h"

#include "blkcg.h"

#if BITS_PER_LONG != 64
#error "Tailgate needs a kernel of 64 bits"
#endif

struct blk_mq_debugfs_attr;
struct elevator_queue;
struct elevator_tags;
struct elevator_type;
struct io_cq;

enum elv_merge {
	ELEVATOR_NO_MERGE,
	ELEVATOR_FRONT_MERGE,
	ELEVATOR_BACK_MERGE,
	ELEVATOR_DISCARD_MERGE,
};

#if KAPI_INSERT_FLAGS
typedef unsigned int __bitwise blk_insert_t;
#define BLK_MQ_INSERT_AT_HEAD ((__force blk_insert_t)0x01)
typedef blk_insert_t elv_insert_t;
#define elv_insert_at_head(flags) (!!((flags)&BLK_MQ_INSERT_AT_HEAD))
#else
typedef bool elv_insert_t;
#define elv_insert_at_head(flags) (flags)
#endif

/* set on a request for which finish_request is called, and whose rq->elv.priv[] belongs to the scheduler */
#ifdef RQF_USE_SCHED /* RQF_ELVPRIV until v6.3 */
#define ELV_RQF_PREPARED RQF_USE_SCHED
#else
#define ELV_RQF_PREPARED RQF_ELVPRIV
#endif

/*
 * Older kernels use rq->elv for other data while a request is not the scheduler's, or call finish_request only if the
 * scheduler has a prepare_request. On these a scheduler has to prepare each request.
 */
#ifdef RQF_USE_SCHED
#define ELV_PRIVATE_IS_SHARED (offsetof(struct request, elv) == offsetof(struct request, flush))
#else
#define ELV_PRIVATE_IS_SHARED true
#endif

struct blk_mq_alloc_data {
	struct request_queue *q;
	blk_mq_req_flags_t flags;
	unsigned int shallow_depth;
	blk_opf_t cmd_flags;
	req_flags_t rq_flags;
	unsigned int nr_tags;
#if KAPI_CACHED_RQS
	struct rq_list *cached_rqs;
#else
	struct request **cached_rq;
#endif
	struct blk_mq_ctx *ctx;
	struct blk_mq_hw_ctx *hctx;
};

struct elevator_mq_ops {
#if KAPI_INIT_SCHED_TAKES_EQ
	int (*init_sched)(struct request_queue *q, struct elevator_queue *eq);
#else
	int (*init_sched)(struct request_queue *q, struct elevator_type *type);
#endif
	void (*exit_sched)(struct elevator_queue *eq);
	int (*init_hctx)(struct blk_mq_hw_ctx *hctx, unsigned int index);
	void (*exit_hctx)(struct blk_mq_hw_ctx *hctx, unsigned int index);
#if KAPI_DEPTH_UPDATED_TAKES_Q
	void (*depth_updated)(struct request_queue *q);
#else
	void (*depth_updated)(struct blk_mq_hw_ctx *hctx);
#endif
#if KAPI_ALLOC_SCHED_DATA
	void *(*alloc_sched_data)(struct request_queue *q);
	void (*free_sched_data)(void *data);
#endif
	bool (*allow_merge)(struct request_queue *q, struct request *rq, struct bio *bio);
	bool (*bio_merge)(struct request_queue *q, struct bio *bio, unsigned int nr_segs);
	int (*request_merge)(struct request_queue *q, struct request **rq, struct bio *bio);
	void (*request_merged)(struct request_queue *q, struct request *rq, enum elv_merge type);
	void (*requests_merged)(struct request_queue *q, struct request *rq, struct request *next);
	void (*limit_depth)(blk_opf_t opf, struct blk_mq_alloc_data *data);
	void (*prepare_request)(struct request *rq);
	void (*finish_request)(struct request *rq);
	void (*insert_requests)(struct blk_mq_hw_ctx *hctx, struct list_head *list,
				elv_insert_t flags);
	struct request *(*dispatch_request)(struct blk_mq_hw_ctx *hctx);
	bool (*has_work)(struct blk_mq_hw_ctx *hctx);
	void (*completed_request)(struct request *rq, u64 now);
	void (*requeue_request)(struct request *rq);
	struct request *(*former_request)(struct request_queue *q, struct request *rq);
	struct request *(*next_request)(struct request_queue *q, struct request *rq);
	void (*init_icq)(struct io_cq *icq);
	void (*exit_icq)(struct io_cq *icq);
};

#define ELV_NAME_MAX 16
#define ELV_HASH_BITS 6

struct elv_fs_entry {
	struct attribute attr;
	ssize_t (*show)(struct elevator_queue *eq, char *page);
	ssize_t (*store)(struct elevator_queue *eq, const char *page, size_t length);
};

#if KAPI_ELV_ATTRS_CONST
typedef const struct elv_fs_entry elv_attribute_t;
#else
typedef struct elv_fs_entry elv_attribute_t;
#endif

struct elevator_type {
	struct kmem_cache *icq_cache;
	struct elevator_mq_ops ops;
	size_t icq_size;
	size_t icq_align;
	elv_attribute_t *elevator_attrs;
	const char *elevator_name;
	const char *elevator_alias;
#if KAPI_ELV_FEATURES
	const unsigned int elevator_features;
#endif
	struct module *elevator_owner;
#ifdef CONFIG_BLK_DEBUG_FS
	const struct blk_mq_debugfs_attr *queue_debugfs_attrs;
	const struct blk_mq_debugfs_attr *hctx_debugfs_attrs;
#endif
	char icq_cache_name[ELV_NAME_MAX + 6];
	struct list_head list;
};

struct elevator_queue {
	struct elevator_type *type;
#if KAPI_EQ_TAGS
	struct elevator_tags *et;
#endif
	void *elevator_data;
	struct kobject kobj;
	struct mutex sysfs_lock;
#if KAPI_EQ_FLAGS
	unsigned long flags;
#else
	unsigned int registered : 1;
#endif
	DECLARE_HASHTABLE(hash, ELV_HASH_BITS);
};

int elv_register(struct elevator_type *type);
void elv_unregister(struct elevator_type *type);
#if !KAPI_INIT_SCHED_TAKES_EQ
struct elevator_queue *elevator_alloc(struct request_queue *q, struct elevator_type *type);
#endif
void elv_rqhash_add(struct request_queue *q, struct request *rq);
void elv_rqhash_del(struct request_queue *q, struct request *rq);
bool blk_mq_sched_try_merge(struct request_queue *q, struct bio *bio, unsigned int nr_segs,
			    struct request **merged);
bool blk_mq_sched_try_insert_merge(struct request_queue *q, struct request *rq,
				   struct list_head *free);
bool blk_bio_list_merge(struct request_queue *q, struct list_head *list, struct bio *bio,
			unsigned int nr_segs);

#include "kbtf_asserts.h"

#endif
