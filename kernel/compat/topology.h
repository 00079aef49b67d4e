/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which CPUs share a last-level cache. Only kernels for x86 tell modules; elsewhere the CPUs of a NUMA node count as sharing one.
 *   KAPI_PER_CPU_LLC_ID  per_cpu_llc_id() replaces get_llc_id() (v6.7)
 *   KAPI_GET_LLC_ID      get_llc_id() exists
 */
#ifndef TAILGATE_COMPAT_TOPOLOGY_H
#define TAILGATE_COMPAT_TOPOLOGY_H

#include <linux/topology.h>

#include "kbtf_features.h"

#ifdef CONFIG_X86
#include <asm/processor.h>
#endif

/* The number of a CPU's last-level cache. */
static inline unsigned int cpu_to_cache(unsigned int cpu)
{
#if defined(CONFIG_X86) && KAPI_PER_CPU_LLC_ID
	return per_cpu_llc_id(cpu);
#elif defined(CONFIG_X86) && KAPI_GET_LLC_ID
	return get_llc_id(cpu);
#else
	return cpu_to_node(cpu);
#endif
}

#endif
