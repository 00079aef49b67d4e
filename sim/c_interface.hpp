// SPDX-License-Identifier: GPL-2.0-only
// The C interfaces of sched/ and flash/, without the kernel macros that collide with C++ names.
#pragma once

#include <algorithm> // before the C headers, whose macros would break it

extern "C" {
#include "../sched/pieces.h"
#include "schedulers/scheduler.h"
}
#include "drive.h"

#undef min
#undef max
#undef swap
