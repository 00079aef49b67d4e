/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * CPUs that do nothing but I/O. Each keeps @depth requests outstanding: when a request ends, the CPU inserts a new one and then runs its
 * queue, as blk-mq does. A CPU also ends the requests that it submitted, whichever CPU dispatched them.
 *
 * There are two drives. In one, requests take no time, and a CPU ends requests only when it cannot submit. In the other, each request
 * takes the same time, whatever else is in the drive, and a CPU ends completed requests before it submits, as after an interrupt.
 */
#ifndef TAILGATE_SIM_SCALE_CPUS_H
#define TAILGATE_SIM_SCALE_CPUS_H

#include <linux/types.h>

#define CPUS_MAX 64

/* --- cpus.c, compiled with QUEUE: the file that binds a scheduler ------------------------------------------------- */

/**
 * cpus_create() - create the CPUs; called once, before all other functions
 * @count: number of CPUs, 1 to CPUS_MAX
 * @depth: requests that each CPU keeps outstanding, at least 1
 * @bound: most requests in the drive, if the scheduler has a bound
 * @t_kib: how far a flow may be ahead of others, in KiB, if the scheduler has flows; all requests are 4 KiB
 */
void cpus_create(unsigned int count, unsigned int depth, unsigned int bound, unsigned int t_kib);

/* Runs a CPU until cpu_goes_on() returns false and all its requests have ended. */
void cpu_work(unsigned int cpu);

/* Number of operations so far; one operation is the insertion, dispatch and end of a request. Any thread. */
u64 cpu_finished(unsigned int cpu);

/* After all CPUs have ended: was each inserted request dispatched once, and is none left? */
bool cpus_conserved(void);

/* --- the environment ---------------------------------------------------------------------------------------------- */

bool cpu_goes_on(unsigned int cpu);
/* Waits for another CPU; called repeatedly, with @tries counting from 1. */
void cpu_idle(unsigned int tries);
/* Spends the time that a request costs outside the scheduler. */
void cpu_elsewhere(void);
/* Spends the time of code that is not modelled. */
void cpu_other_code(u64 ns);
/* Spends the time of an interrupt by another CPU or a timer. */
void cpu_interrupted(void);
/* Number of the calling CPU. */
unsigned int cpu_self(void);
/* Time in ns that a request is in the drive; 0: the drive takes no time. */
u64 drive_ns(void);
/* The CPU has run its queue because it was asked to; @in_vain: nothing was dispatched. For statistics only. */
void cpu_ran(unsigned int cpu, bool in_vain);
/* Time in ns: exact; that of the last tick, which is read from memory; as seen by a hardware timer. */
u64 clock_ns(void);
u64 clock_tick_ns(void);
u64 clock_timer_ns(void);

#endif
