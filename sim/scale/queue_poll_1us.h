/* SPDX-License-Identifier: GPL-2.0-only */
#define POLL_NS 1000
#include "queue_poll.h"
