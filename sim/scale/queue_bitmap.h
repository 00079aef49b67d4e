/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * MQFQ without its tree of tokens, for cpus.c: tokens are spread over words, each on a cache line of its own, as in the kernel's sbitmap
 * (lib/sbitmap.c), which kyber uses ("Multi-Queue Fair Queueing", Section 4.3.3). A search begins at the word where the CPU last took or
 * returned a token, and wraps around. Unlike in sbitmap a word is a count and not a bitmap, because tokens are interchangeable here. A
 * token that another queue waits for is handed to it directly, as with the tree.
 */
#define tokens_take tokens_take_from_tree
#define tokens_put tokens_put_into_tree
#define tokens_add tokens_add_to_tree
#include "../../sched/fair/tokens.h"
#undef tokens_take
#undef tokens_put
#undef tokens_add

/* The number of words that sbitmap_init_node() chooses for 128 bits. The words are those of the tree's first nodes. */
#define BITMAP_WORDS 4

static struct hint {
	unsigned int word;
} ____cacheline_aligned hints[CPUS_MAX];

static inline unsigned int bitmap_words(const struct tokens *t)
{
	return t->count < BITMAP_WORDS ? t->count : BITMAP_WORDS;
}

static inline bool tokens_take(struct tokens *t, unsigned int queue)
{
	unsigned int word = hints[queue].word, i;

	for (i = 0; i < bitmap_words(t); i++) {
		if (tokens_take_one(&t->nodes[word].tokens)) {
			hints[queue].word = word;
			return true;
		}
		word = (word + 1) % bitmap_words(t);
	}
	return false;
}

static inline void tokens_put(struct tokens *t, unsigned int queue)
{
	atomic_inc(&t->nodes[hints[queue].word].tokens);
}

/* Spreads the tokens, which are all in the root at first, over the words. Called before all other functions. */
static inline void tokens_add(struct tokens *t, int more)
{
	unsigned int word = 0, i;

	tokens_add_to_tree(t, more);
	if (bitmap_words(t) < BITMAP_WORDS)
		return;
	while (tokens_take_one(&t->nodes[t->count - 1].tokens)) {
		atomic_inc(&t->nodes[word].tokens);
		word = (word + 1) % BITMAP_WORDS;
	}
	for (i = 0; i < cpu_count; i++)
		hints[i].word = i % BITMAP_WORDS;
}

#include "queue_mqfq.h"
