// SPDX-License-Identifier: GPL-2.0-only
/* The schedulers that the simulator offers. */
#include "scheduler.h"

/* clang-format off */
#define SIM_SCHEDULERS(scheduler) \
	scheduler(deadline) \
	scheduler(kyber) \
	scheduler(fifo) \
	scheduler(k2) \
	scheduler(mqfq)
/* clang-format on */

#define DECLARE(name) extern const struct sim_scheduler sim_##name;
SIM_SCHEDULERS(DECLARE)

#define ENTRY(name) &sim_##name,
const struct sim_scheduler *const sim_schedulers[] = { SIM_SCHEDULERS(ENTRY) NULL };
