// SPDX-License-Identifier: GPL-2.0-only
/* k2 with more knobs, for experiments and tests: values that k2 chooses automatically, and the control "placebo". */
#define K2_EXPERIMENTS
#include "k2.c"
