/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The kernel's interface of sorted trees, implemented as a treap: the weight of each node is a hash of its address, and no node
 * weighs more than its parent. So the depth is logarithmic on average. The caller alone decides the order.
 */
#ifndef SIM_LINUX_RBTREE_H
#define SIM_LINUX_RBTREE_H

#include <linux/kernel.h>
#include <linux/types.h>

struct rb_node {
	struct rb_node *parent; /* points to the node itself while it is in no tree */
	struct rb_node *rb_left, *rb_right;
};

struct rb_root {
	struct rb_node *rb_node;
};

#define RB_ROOT          \
	(struct rb_root) \
	{                \
		NULL,    \
	}
#define RB_EMPTY_ROOT(root) (!READ_ONCE((root)->rb_node))
#define RB_EMPTY_NODE(node) ((node)->parent == (node))
#define RB_CLEAR_NODE(node) ((node)->parent = (node))
#define rb_entry(node, type, member) container_of(node, type, member)

static inline u64 rb_weight(const struct rb_node *node)
{
	u64 hash = (uintptr_t)node * 0x9e3779b97f4a7c15u;

	return (hash ^ hash >> 32) * 0xd6e8feb86659fd93u;
}

/* Rotates @node into the place of its parent, which becomes its child. */
static inline void rb_lift(struct rb_node *node, struct rb_root *root)
{
	struct rb_node *parent = node->parent, *above = parent->parent;
	bool left = parent->rb_left == node;
	struct rb_node **inner = left ? &node->rb_right : &node->rb_left;

	*(left ? &parent->rb_left : &parent->rb_right) = *inner;
	if (*inner)
		(*inner)->parent = parent;
	*inner = parent;
	parent->parent = node;
	node->parent = above;
	*(!above		   ? &root->rb_node :
	  above->rb_left == parent ? &above->rb_left :
				     &above->rb_right) = node;
}

static inline void rb_link_node(struct rb_node *node, struct rb_node *parent, struct rb_node **link)
{
	node->parent = parent;
	node->rb_left = NULL;
	node->rb_right = NULL;
	*link = node;
}

static inline void rb_insert_color(struct rb_node *node, struct rb_root *root)
{
	while (node->parent && rb_weight(node->parent) < rb_weight(node))
		rb_lift(node, root);
}

static inline void rb_erase(struct rb_node *node, struct rb_root *root)
{
	struct rb_node *child, *parent;

	while (node->rb_left && node->rb_right)
		rb_lift(rb_weight(node->rb_left) < rb_weight(node->rb_right) ? node->rb_right :
									       node->rb_left,
			root);
	child = node->rb_left ? node->rb_left : node->rb_right;
	parent = node->parent;
	if (child)
		child->parent = parent;
	*(!parent		  ? &root->rb_node :
	  parent->rb_left == node ? &parent->rb_left :
				    &parent->rb_right) = child;
}

static inline struct rb_node *rb_first(const struct rb_root *root)
{
	struct rb_node *first = root->rb_node;

	while (first && first->rb_left)
		first = first->rb_left;
	return first;
}

static inline struct rb_node *rb_last(const struct rb_root *root)
{
	struct rb_node *last = root->rb_node;

	while (last && last->rb_right)
		last = last->rb_right;
	return last;
}

static inline struct rb_node *rb_next(const struct rb_node *node)
{
	struct rb_node *next = node->rb_right;

	if (next) {
		while (next->rb_left)
			next = next->rb_left;
		return next;
	}
	while (node->parent && node->parent->rb_right == node)
		node = node->parent;
	return node->parent;
}

static inline struct rb_node *rb_prev(const struct rb_node *node)
{
	struct rb_node *prev = node->rb_left;

	if (prev) {
		while (prev->rb_right)
			prev = prev->rb_right;
		return prev;
	}
	while (node->parent && node->parent->rb_left == node)
		node = node->parent;
	return node->parent;
}

#endif
