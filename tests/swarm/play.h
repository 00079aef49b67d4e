/* SPDX-License-Identifier: GPL-2.0-only */
/* Plays a scenario: tasks, a small blk-mq with faults, a drive of flash/, and the scheduler under test, in one thread. */
#ifndef TAILGATE_SWARM_PLAY_H
#define TAILGATE_SWARM_PLAY_H

#include "scenario.h"

/* Returns NULL if every law held, otherwise the broken law as a text that is valid until the next play. */
const char *play(const struct scenario *s);
/* Number of requests in all plays. */
uint64_t play_requests(void);

#endif
