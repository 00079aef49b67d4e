/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef SIM_LINUX_ERRNO_H
#define SIM_LINUX_ERRNO_H

#include_next <linux/errno.h>

#endif
