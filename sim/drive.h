/* SPDX-License-Identifier: GPL-2.0-only */
/* The drive model of flash/, a set of C headers, as functions that C++ can call. */
#ifndef TAILGATE_SIM_DRIVE_H
#define TAILGATE_SIM_DRIVE_H

#include <linux/types.h>

#include "../flash/flash.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const struct flash_parameter_info *const sim_drive_parameters;
extern const u32 sim_drive_parameter_count;

/* Returns NULL without memory, or with @wrong set to the invalid parameter and @expected to its valid range (see flash_check()). */
struct flash *sim_drive_create(const struct flash_parameters *parameters,
			       const struct flash_parameter_info **wrong, const char **expected);
void sim_drive_destroy(struct flash *drive);
/* A command at this sector will be submitted soon: prefetches the memory that it needs. Changes no state. */
void sim_drive_expect(const struct flash *drive, u64 sector);
void sim_drive_submit(struct flash *drive, u32 queue, struct flash_command *command, u64 now_ns);
void sim_drive_advance(struct flash *drive, u64 now_ns, struct list_head *done);
u64 sim_drive_next_ns(const struct flash *drive);

/* Value of a due time: none, the drive is idle. */
#define SIM_DRIVE_NEVER (~0ULL)

/* Number of operations of a die that began before the previous one ended, since this thread's last drive was created. */
u64 sim_drive_overlaps(void);

#ifdef __cplusplus
}
#endif

#endif
