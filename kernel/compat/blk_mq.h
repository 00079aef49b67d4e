/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Differences in the block layer's public interface for blk-mq drivers between kernels.
 *   KAPI_DISK_LIMITS      blk_mq_alloc_disk() takes struct queue_limits (v6.9)
 *   KAPI_LIMITS_FEATURES  write cache, FUA and rotational are features in queue_limits (v6.11)
 */
#ifndef TAILGATE_COMPAT_BLK_MQ_H
#define TAILGATE_COMPAT_BLK_MQ_H

#include <linux/blk-mq.h>
#include <linux/blkdev.h>

#include "kbtf_features.h"

#ifndef BLK_MQ_F_SHOULD_MERGE /* removed in v6.14, where merging is the default */
#define BLK_MQ_F_SHOULD_MERGE 0
#endif

#endif
