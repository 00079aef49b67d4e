// SPDX-License-Identifier: GPL-2.0-only
/*
 * While it is loaded, workers that clone a bio get none, as if the disk's pool of bios were empty; with every=3, each third time.
 * The parameter `refused` counts.
 */
#include <linux/bio.h>
#include <linux/kprobes.h>
#include <linux/module.h>

static unsigned int every = 1, asked, refused;
module_param(every, uint, 0444);
module_param(refused, uint, 0444);

static struct bio *no_clone(void)
{
	return NULL;
}

/* At the entry of the function: the other one returns to the same caller. */
static int asks(struct kprobe *probe, struct pt_regs *regs)
{
	if (!(current->flags & PF_WQ_WORKER) || ++asked % every)
		return 0;
	refused++;
	instruction_pointer_set(regs, (unsigned long)no_clone);
	return 1;
}

/* With one, the probe is not replaced by a jump, which could not go elsewhere. */
static void after(struct kprobe *probe, struct pt_regs *regs, unsigned long flags)
{
}

static struct kprobe probe = {
	.symbol_name = "bio_alloc_clone",
	.pre_handler = asks,
	.post_handler = after,
};

static int __init no_bios_init(void)
{
	return register_kprobe(&probe);
}

static void __exit no_bios_exit(void)
{
	unregister_kprobe(&probe);
}

module_init(no_bios_init);
module_exit(no_bios_exit);
MODULE_DESCRIPTION("Takes bios from workers, for tests");
MODULE_LICENSE("GPL");
