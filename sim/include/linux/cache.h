/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef SIM_LINUX_CACHE_H
#define SIM_LINUX_CACHE_H

#define L1_CACHE_BYTES 64
#define SMP_CACHE_BYTES L1_CACHE_BYTES
#define ____cacheline_aligned __attribute__((__aligned__(L1_CACHE_BYTES)))
#define ____cacheline_aligned_in_smp ____cacheline_aligned

#endif
