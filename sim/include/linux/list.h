/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef SIM_LINUX_LIST_H
#define SIM_LINUX_LIST_H

#include <linux/kernel.h>
#include <linux/types.h>

#define LIST_HEAD_INIT(name)     \
	{                        \
		&(name), &(name) \
	}
#define LIST_HEAD(name) struct list_head name = LIST_HEAD_INIT(name)

static inline void INIT_LIST_HEAD(struct list_head *list)
{
	list->next = list;
	list->prev = list;
}

static inline int list_empty(const struct list_head *head)
{
	return head->next == head;
}

static inline void list_join(struct list_head *prev, struct list_head *next)
{
	prev->next = next;
	next->prev = prev;
}

static inline void list_add(struct list_head *node, struct list_head *head)
{
	list_join(node, head->next);
	list_join(head, node);
}

static inline void list_add_tail(struct list_head *node, struct list_head *head)
{
	list_join(head->prev, node);
	list_join(node, head);
}

static inline void __list_del(struct list_head *prev, struct list_head *next)
{
	list_join(prev, next);
}

static inline void list_del(struct list_head *node)
{
	list_join(node->prev, node->next);
	/* poison: following a node that left its list crashes */
	node->next = NULL;
	node->prev = NULL;
}

static inline void list_del_init(struct list_head *node)
{
	list_join(node->prev, node->next);
	INIT_LIST_HEAD(node);
}

static inline void list_move_tail(struct list_head *node, struct list_head *head)
{
	list_join(node->prev, node->next);
	list_add_tail(node, head);
}

static inline void list_splice_init(struct list_head *list, struct list_head *head)
{
	if (list_empty(list))
		return;
	list_join(list->prev, head->next);
	list_join(head, list->next);
	INIT_LIST_HEAD(list);
}

static inline void list_splice_tail_init(struct list_head *list, struct list_head *head)
{
	if (list_empty(list))
		return;
	list_join(head->prev, list->next);
	list_join(list->prev, head);
	INIT_LIST_HEAD(list);
}

#define list_entry(node, type, member) container_of(node, type, member)
#define list_first_entry(head, type, member) list_entry((head)->next, type, member)
#define list_last_entry(head, type, member) list_entry((head)->prev, type, member)
#define list_first_entry_or_null(head, type, member) \
	(list_empty(head) ? NULL : list_first_entry(head, type, member))
#define list_for_each(at, head) for ((at) = (head)->next; (at) != (head); (at) = (at)->next)

#define list_for_each_entry(at, head, member)                                         \
	for (at = list_first_entry(head, typeof(*at), member); &at->member != (head); \
	     at = list_entry(at->member.next, typeof(*at), member))
#define list_for_each_entry_safe(at, following, head, member)             \
	for (at = list_first_entry(head, typeof(*at), member),            \
	    following = list_entry(at->member.next, typeof(*at), member); \
	     &at->member != (head);                                       \
	     at = following, following = list_entry(at->member.next, typeof(*at), member))

#endif
