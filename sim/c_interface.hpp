// SPDX-License-Identifier: GPL-2.0-only
// The C of sched/ and flash/, without the kernel's macros that C++ has other names for.
#pragma once

#include <algorithm> // before: the macros would break it

extern "C" {
#include "../sched/pieces.h"
#include "schedulers/scheduler.h"
}
#include "drive.h"

#undef min
#undef max
#undef swap
