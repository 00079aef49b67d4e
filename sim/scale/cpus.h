/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * CPUs that do nothing but I/O. Each keeps @depth requests outstanding: when one ends it inserts a new one, and then runs its queue, as
 * blk-mq does. It also ends the requests that it submitted, whichever CPU dispatched them. There are two drives. In one, requests take no time,
 * and a CPU ends requests only when it cannot submit. In the other, each takes the same time, whatever else is in the drive, and a CPU
 * ends what is over before it submits, as an interrupt would make it.
 */
#ifndef TAILGATE_SIM_SCALE_CPUS_H
#define TAILGATE_SIM_SCALE_CPUS_H

#include <linux/types.h>

#define CPUS_MAX 64

/* --- cpus.c, compiled with QUEUE: the file that binds a scheduler ------------------------------------------------- */

/**
 * cpus_create() - before anything else, once
 * @count: 1 to CPUS_MAX
 * @depth: requests that each keeps outstanding, at least 1
 * @bound: most requests in the drive, if the scheduler has a bound
 * @t_kib: how far a flow may be ahead of others, in KiB, if the scheduler has flows; requests are of 4 KiB
 */
void cpus_create(unsigned int count, unsigned int depth, unsigned int bound, unsigned int t_kib);

/* Works until cpu_goes_on() says no and all that it submitted has ended. */
void cpu_work(unsigned int cpu);

/* Operations so far: insertion, dispatch and end of a request. Any thread. */
u64 cpu_finished(unsigned int cpu);

/* When all have ended: was each request that was inserted dispatched once, and is nothing left? */
bool cpus_conserved(void);

/* --- the environment ---------------------------------------------------------------------------------------------- */

bool cpu_goes_on(unsigned int cpu);
/* Nothing to do until another CPU does something; called again and again, @tries from 1. */
void cpu_idle(unsigned int tries);
/* All that a request costs beside its scheduler. */
void cpu_elsewhere(void);
/* Code that is not here, and takes so long. */
void cpu_other_code(u64 ns);
/* Another CPU, or a timer, has interrupted this one. */
void cpu_interrupted(void);
/* The CPU that calls. */
unsigned int cpu_self(void);
/* How long a request is in the drive; 0: the drive takes no time. */
u64 drive_ns(void);
/* The CPU has run its queue because it was asked to; @in_vain: nothing could go. For statistics only. */
void cpu_ran(unsigned int cpu, bool in_vain);
/* Time in ns: exact, that of the last tick, which is only memory, and what a timer of the hardware sees. */
u64 clock_ns(void);
u64 clock_tick_ns(void);
u64 clock_timer_ns(void);

#endif
