/* SPDX-License-Identifier: GPL-2.0-only */
/* Plays a scenario: tasks, a small blk-mq with faults, a drive of flash/, and the scheduler under test, in one thread. */
#ifndef TAILGATE_SWARM_PLAY_H
#define TAILGATE_SWARM_PLAY_H

#include "scenario.h"

/* NULL: every law held. Else which one did not; the text lives until the next play. */
const char *play(const struct scenario *s);
/* Requests that were made in all plays. */
uint64_t play_requests(void);

#endif
