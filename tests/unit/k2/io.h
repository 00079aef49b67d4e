/* SPDX-License-Identifier: GPL-2.0-only */
/* The functions that sched/k2.c needs for an entry. The file that includes this defines struct io with the members used here. */

static struct list_head *k2_node(struct k2_entry *e)
{
	return &((struct io *)e)->node;
}

static struct k2_entry *k2_entry_of(struct list_head *node)
{
	return &container_of(node, struct io, node)->entry;
}

static unsigned int k2_sectors(struct k2_entry *e)
{
	return ((struct io *)e)->sectors;
}

static bool k2_writes(struct k2_entry *e)
{
	return ((struct io *)e)->writes;
}

static u64 k2_key(struct k2_entry *e)
{
	return ((struct io *)e)->key;
}
