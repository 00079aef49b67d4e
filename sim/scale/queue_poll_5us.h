/* SPDX-License-Identifier: GPL-2.0-only */
#define POLL_NS 5000
#include "queue_poll.h"
