/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The least of many numbers: mindicator_set(), mindicator_refresh() and mindicator_least() in sched/fair/mindicator.h; and
 * mqfq_publish() in sched/mqfq_time.c, which moves virtual time to it.
 *
 * The tree has a fan of 2. Leaves 0 and 1 are below a node; that node and leaf 2 are below the root. The leaves begin with
 * any numbers, the nodes with the least of those. Three writers, each with a leaf of its own, publish one number each: it may
 * rise, fall, stay, vanish (NONE) or arrive. Numbers have four bits and wrap around: 14 is below 0.
 *
 * Memory: the model is sequentially consistent, each read or write of a word is one step. The C code gets that from the
 * smp_mb() between the write of a leaf and the reads that follow; from mindicator_rmb() between the read of a node and the reads
 * of the words below it, and between these and the read of the next node; and from cmpxchg(), which is a full barrier if it
 * changes the node. tests/unit/mqfq/mindicator.c shows what happens without smp_mb(); the mutations of this model in
 * tests/unit/test_models.py, what happens without the others.
 *
 * A version is modelled by its effect: a write fails if the node has been written since this writer read it. In C a version
 * comes again after 4096 writes.
 *
 * Checked:
 * - When all calls have returned, the root is the least leaf, and virtual time is not below it.
 * - From the return of mindicator_set() to the next change of that leaf, the root is not above the leaf's number.
 * - Virtual time never falls, and no call moves it past the number of a leaf that was set before the call and has not changed
 *   since.
 */
#define WRITERS 3
#define NODE 3
#define ROOT 4

#define NONE 15
#define START 14

/* mindicator_above() with the base that mindicator_set() gives it; tag_after(). */
#define ABOVE(number, base) (((number) - (base) + 8) & 15)
#define AFTER(tag, than) ((tag) != (than) && (((tag) - (than)) & 15) < 8)

byte word[5]; /* 0 to 2 are the leaves */
byte current[5]; /* of a node: the writers that have read it since it was written */
byte vt = START;
byte done;

/* For the checks: leaves that no writer is changing, and for each writer those that have not changed since its call. */
byte settled = 7;
byte unchanged[WRITERS];

#define AT_MOST(a, b) ((b) == NONE || ((a) != NONE && ABOVE(a, START) <= ABOVE(b, START)))
#define IS_TAKEN_IN(leaf) (!(settled >> (leaf) & 1) || AT_MOST(word[ROOT], word[leaf]))
#define ARE_TAKEN_IN (IS_TAKEN_IN(0) && IS_TAKEN_IN(1) && IS_TAKEN_IN(2))
#define IS_PASSED(other) (unchanged[leaf] >> (other) & 1 && !AT_MOST(least, word[other]))

inline any_number(number)
{
	if
	:: number = 14
	:: number = 0
	:: number = NONE
	fi
}

inline take_in(below)
{
	d_step {
		if
		:: word[below] != NONE && (least == NONE || ABOVE(word[below], base) < ABOVE(least, base)) ->
			least = word[below]
		:: else
		fi
	}
}

/* mindicator_refresh() begins: it reads the node. */
inline read_node(node)
{
	current[node] = current[node] | 1 << leaf
}

/* The rest of mindicator_refresh() of a node with two words below, and again if it fails. */
inline refresh(node, below)
{
	do
	:: d_step {
		if
		:: has_failed -> read_node(node)
		:: else
		fi;
		least = NONE
	   };
		take_in(below);
		take_in(below + 1);
		atomic {
			if
			:: current[node] >> leaf & 1 ->
				word[node] = least;
				current[node] = 0;
				assert(ARE_TAKEN_IN);
				has_failed = false;
				least = 0;
				break
			:: else ->
				least = 0;
				if
				:: has_failed -> has_failed = false; break
				:: else -> has_failed = true
				fi
			fi
		}
	od
}

/* mqfq_publish(), of any number */
proctype writer(byte leaf)
{
	byte least, base;
	bool has_failed;

	base = vt;
	atomic {
		settled = settled & ~(1 << leaf);
		unchanged[leaf] = settled;
		unchanged[0] = unchanged[0] & settled;
		unchanged[1] = unchanged[1] & settled;
		unchanged[2] = unchanged[2] & settled;
		any_number(word[leaf])
	}
	if
	:: leaf != 2 -> read_node(NODE); refresh(NODE, 0)
	:: else
	fi;
	read_node(ROOT);
	refresh(ROOT, 2);
	atomic {
		least = word[ROOT];
		settled = settled | 1 << leaf;
		assert(ARE_TAKEN_IN)
	}
	do
	:: atomic { least == NONE || !AFTER(least, base) -> break }
	:: atomic {
		else ->
		if
		:: vt == base ->
			assert(AFTER(least, vt));
			assert(!IS_PASSED(0) && !IS_PASSED(1) && !IS_PASSED(2));
			vt = least;
			break
		:: else -> base = vt
		fi
	   }
	od;
	atomic { least = 0; base = 0; unchanged[leaf] = 0; done++ }
}

inline set_node(node, below)
{
	if
	:: AT_MOST(word[below], word[below + 1]) -> word[node] = word[below]
	:: else -> word[node] = word[below + 1]
	fi
}

init {
	atomic {
		any_number(word[0]);
		any_number(word[1]);
		any_number(word[2]);
		/* leaves 0 and 1 are alike: half of the beginnings are enough */
		if
		:: AT_MOST(word[0], word[1])
		:: else -> word[0] = word[1]
		fi;
		/* words 2 and 3 are below the root */
		set_node(NODE, 0);
		set_node(ROOT, 2);
		if
		:: word[ROOT] != NONE -> vt = word[ROOT]
		:: else
		fi;
		run writer(0);
		run writer(1);
		run writer(2)
	}
	atomic {
		done == WRITERS;
		assert(word[ROOT] == NONE || !AFTER(word[ROOT], vt));
		done = word[ROOT];
		set_node(NODE, 0);
		set_node(ROOT, 2);
		assert(word[ROOT] == done)
	}
}
