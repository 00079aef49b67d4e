/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tokens and the queues that wait for them: sched/fair/tokens.h and sched/fair/waiting.h, with mqfq_next(), mqfq_take_token(),
 * mqfq_wait(), mqfq_stop_waiting(), mqfq_find_token(), mqfq_take_given(), mqfq_give(), mqfq_give_to(), mqfq_give_all(),
 * mqfq_give_back(), mqfq_dispatch_from() and mqfq_end() in sched/mqfq*.c. The inlines below have the names of the functions.
 *
 * Two queues have a leaf each, below the root. The process queue is all that happens under the lock of a queue: its requests
 * are inserted, at any time and in any order of levels, and it dispatches when blk-mq runs it. The process drive ends
 * requests. At the beginning each of D tokens is in a leaf or with a request in the drive.
 *
 * Set on the command line: D; REQUESTS0 and REQUESTS1, the requests of each queue: 1 for each of real time, 4 for each fair
 * one, 16 for each idle one; at most three of a level.
 *
 * What affects speed alone is left open, so that the model does more than the code: tokens_put() puts a token into the leaf
 * of its queue or into the root, waiting_nearest() finds any queue that waits at the level, and any number may be all that
 * mqfq_needs() lets a fair queue get. Left out: virtual time, which never throttles here, and which keeps a queue from taking
 * tokens for ever before others; another D (tokens_add(), tokens_drop()); more queues of a hardware queue
 * (mqfq_is_preceded()).
 *
 * Memory: the model is sequentially consistent, each read or write of shared memory is one step. The C code gets that from
 * the full barriers in mqfq_wait(), mqfq_give(), mqfq_give_all() and mqfq_next(), and from atomic operations with a result,
 * which are full barriers. tests/unit/mqfq/interleave.c shows what happens without.
 *
 * Checked:
 * - Tokens are conserved, and at most D requests are in the drive.
 * - When nothing happens any more, no queue keeps a token that it was given, and no queue waits beside a free token; also if
 *   the drive stops to end requests (with D > 1), but then idle requests may wait for those in the drive.
 * - With -DSTALLS, where the CPU of queue 0, which has no real-time requests, has no time from some moment on: the real-time
 *   requests of queue 1 go.
 * - The claim goes: what is queued goes to the drive. So a token freed on one CPU reaches the lone waiter on another. No
 *   process is delayed for ever (weak fairness).
 */
#ifndef D
#define D 1
#define REQUESTS0 5
#define REQUESTS1 4
#endif

#define RT 0
#define FAIR 1
#define IDLE 2
#define LEVELS 3
#define NONE 7
#define ROOT 2

#define BIT(n) (1 << (n))
#define UNIT(level) (1 << 2 * (level))
#define HAS(requests, level) ((requests) >> 2 * (level) & 3)
/* The most urgent level of some requests. */
#define FIRST(requests) (HAS(requests, RT) -> RT : (HAS(requests, FAIR) -> FAIR : (HAS(requests, IDLE) -> IDLE : LEVELS)))

byte tokens[3]; /* of the leaves and the root */
byte waiting[LEVELS]; /* bitmaps of queues */
byte count_rt, count_usual; /* the two halves of the word waiting.count */
byte runnable; /* queues */
byte to_run; /* queues that blk-mq is to run */
byte published; /* queues that have told virtual time the tag of a fair request */
byte in_drive[2]; /* requests, by queue */
bool stalled; /* the CPU of queue 0 has no time any more */

/* struct mqfq_queue; filled and waits are protected by its lock */
byte given[2];
byte filled[2]; /* requests */
byte waits[2] = NONE;

#define FREE (tokens[0] + tokens[1] + tokens[ROOT])
#define IS_STALLED(queue) (stalled && queue == 0)
#define IN_DRIVE (in_drive[0] + in_drive[1])

/* The result is in level. */
inline waiting_level(end)
{
	level = (count_rt -> RT : FAIR);
	do
	:: atomic { level >= end -> level = end; break }
	:: atomic { level < end && waiting[level] -> break }
	:: atomic { else -> level++ }
	od
}

/* Sets to. */
inline waiting_nearest()
{
	if
	:: waiting[level] & BIT(0) -> to = 0
	:: waiting[level] & BIT(1) -> to = 1
	:: else
	fi;
	level = 0
}

/* The result is in to, which is NONE before. */
inline mqfq_next_waiter()
{
	if
	:: count_rt || count_usual ->
		waiting_level(LEVELS);
		if
		:: atomic { level < IDLE -> waiting_nearest() }
		:: level == IDLE && !published -> atomic { waiting_nearest() }
		:: atomic { else -> level = 0 }
		fi
	:: else
	fi
}

inline waiting_remove(queue, of_level)
{
	if
	:: atomic { waiting[of_level] & BIT(queue) -> waiting[of_level] = waiting[of_level] & ~BIT(queue) }
		if
		:: of_level < FAIR -> count_rt--
		:: else -> count_usual--
		fi
	:: else
	fi
}

/* Sets stolen. From the root downwards. */
inline tokens_steal()
{
	do
	:: atomic { tokens[ROOT - node] -> tokens[ROOT - node]--; stolen = true; node = 0; break }
	:: atomic {
		else ->
		if
		:: node == ROOT -> node = 0; break
		:: else -> node++
		fi
	   }
	od
}

inline mqfq_kick(queue)
{
	if
	:: !(runnable & BIT(queue)) ->
		runnable = runnable | BIT(queue);
		to_run = to_run | BIT(queue)
	:: else
	fi
}

/* The result is in yields. */
inline mqfq_must_yield(of_level)
{
	if
	:: of_level == IDLE && published -> yields = true
	:: else ->
		if
		:: of_level == IDLE || count_rt ->
			waiting_level(of_level);
			atomic { yields = level != of_level; level = 0 }
		:: else
		fi
	fi
}

/* A part of mqfq_take_given() */
inline take_given(queue, of_level)
{
	if
	:: atomic { !stolen && waits[queue] != NONE && waits[queue] > of_level && given[queue] -> given[queue]--; stolen = true }
	:: else
	fi
}

/* Sets stolen. */
inline mqfq_find_token(of_level)
{
	tokens_steal();
	if
	:: !stolen && of_level < FAIR -> take_given(0, of_level); take_given(1, of_level)
	:: else
	fi
}

/* To the queue to. Sets stolen if the token is the caller's again. */
inline mqfq_give_to()
{
	atomic { given[to]++; has = given[to] }
	atomic {
		at = waits[to];
		if
		:: at >= FAIR -> has = 0
		:: else
		fi
	}
	if
	:: at < FAIR ->
		if
		:: atomic { has >= (HAS(filled[to], RT) -> HAS(filled[to], RT) : 1) -> has = 0 }
			waiting_remove(to, RT)
		:: atomic { else -> has = 0 }
		fi
	:: at == FAIR && D == 1 -> /* with more tokens there are too many schedules */
		if
		:: waiting_remove(to, FAIR) /* it has all that it may get */
		:: true
		fi
	:: else
	fi;
	atomic {
		mqfq_kick(to);
		if
		:: at == NONE -> yields = true
		:: else
		fi
	}
	if
	:: at != NONE && at != RT -> mqfq_must_yield(at)
	:: else
	fi;
	atomic {
		if
		:: yields && given[to] -> given[to]--; stolen = true
		:: else
		fi;
		yields = false;
		at = 0;
		to = NONE
	}
}

inline mqfq_give()
{
	do
	:: mqfq_next_waiter();
		if
		:: to != NONE -> mqfq_give_to()
		:: else ->
			atomic {
				if
				:: tokens[me]++
				:: tokens[ROOT]++
				fi
			}
			mqfq_next_waiter();
			if
			:: to == NONE
			:: else -> tokens_steal()
			fi
		fi;
		atomic {
			to = NONE;
			if
			:: stolen -> stolen = false
			:: else -> break
			fi
		}
	od
}

inline mqfq_give_all()
{
	do
	:: mqfq_next_waiter();
		if
		:: atomic { to == NONE -> break }
		:: atomic { else -> at = waits[to]; to = NONE }
		fi;
		mqfq_find_token(at);
		atomic {
			at = 0;
			if
			:: stolen -> stolen = false
			:: else -> break
			fi
		}
		mqfq_give()
	od
}

inline mqfq_stop_waiting()
{
	was = waits[me];
	waiting_remove(me, was);
	waits[me] = NONE;
	if
	:: atomic { was < FAIR -> was = 0 }
		mqfq_give_all()
	:: atomic { else -> was = 0 }
	fi
}

inline mqfq_give_back()
{
	back = given[me];
	do
	:: atomic { back && given[me] -> back--; given[me]-- }
		mqfq_give()
	:: atomic { else -> back = 0; break }
	od
}

/* The part of mqfq_wait() in which the queue says that it waits, and then looks for a token. */
inline announce()
{
	atomic {
		waits[me] = own;
		if
		:: own < FAIR -> count_rt++
		:: else -> count_usual++
		fi
	}
	waiting[own] = waiting[own] | BIT(me);
	mqfq_must_yield(own);
	if
	:: yields -> yields = false
	:: else ->
		mqfq_find_token(own);
		if
		:: atomic { stolen -> stolen = false; given[me]++ }
			mqfq_stop_waiting()
		:: else
		fi
	fi
}

/* Sets got if there is a token for a request of the level own; with mqfq_take_token() and mqfq_wait(). */
inline mqfq_next()
{
	do
	:: atomic { !filled[me] -> runnable = runnable & ~BIT(me); break }
	:: atomic { filled[me] -> own = FIRST(filled[me]) }
		if
		:: waits[me] != NONE && waits[me] != own -> mqfq_stop_waiting(); runnable = runnable | BIT(me)
		:: else
		fi;
		mqfq_must_yield(own);
		if
		:: atomic { yields -> yields = false }
			mqfq_give_back()
		:: atomic { !yields && given[me] -> given[me]--; got = true; break }
		:: else ->
			if
			:: atomic { waits[me] == NONE && tokens[me] -> tokens[me]--; got = true; break }
			:: waits[me] == NONE && !tokens[me] ->
				if
				:: atomic { tokens[ROOT] -> tokens[ROOT]--; got = true; break }
				:: else
				fi
			:: waits[me] != NONE
			fi
		fi;
		if
		:: HAS(filled[me], FAIR) -> published = published | BIT(me)
		:: else
		fi;
		runnable = runnable & ~BIT(me);
		if
		:: waits[me] == NONE || !(waiting[own] & BIT(me)) -> announce()
		:: else
		fi;
		if
		:: atomic { waits[me] != NONE && !given[me] -> break }
		:: else -> runnable = runnable | BIT(me)
		fi
	od
}

inline mqfq_dispatch_from()
{
	mqfq_next();
	atomic {
		if
		:: got -> filled[me] = filled[me] - UNIT(own)
		:: else
		fi;
		own = 0;
		if
		:: !HAS(filled[me], FAIR) -> published = published & ~BIT(me)
		:: else
		fi
	}
	if
	:: waits[me] != NONE && !filled[me] -> mqfq_stop_waiting()
	:: else
	fi;
	if
	:: given[me] && waits[me] == NONE -> mqfq_give_back()
	:: else
	fi;
	atomic {
		if
		:: got -> in_drive[me]++; got = false; assert(IN_DRIVE <= D)
		:: else
		fi
	}
}

/* mqfq_insert() of one of the requests that are left */
inline insert()
{
	if
	:: HAS(left, RT) -> own = RT
	:: HAS(left, FAIR) -> own = FAIR
	:: HAS(left, IDLE) -> own = IDLE
	fi;
	left = left - UNIT(own);
	if
	:: own < FIRST(filled[me]) -> runnable = runnable | BIT(me)
	:: own == FAIR -> runnable = runnable | BIT(me) /* its tag is the least */
	:: own >= FIRST(filled[me])
	fi;
	filled[me] = filled[me] + UNIT(own);
	own = 0
}

proctype queue(byte me, left)
{
	byte level, to = NONE, node, has, back, own, was, at;
	bool got, yields, stolen;

end:	do
	:: atomic {
		if
		:: left && !IS_STALLED(me) -> insert()
		:: to_run & BIT(me) && !IS_STALLED(me) -> to_run = to_run & ~BIT(me)
		fi
	   }
		do
		:: runnable & BIT(me) -> mqfq_dispatch_from()
		:: else -> break
		od
	od
}

/* mqfq_end() */
active proctype drive()
{
	byte level, to = NONE, node, has, me, at;
	bool stolen, yields;

end:	do
	:: atomic {
		if
		:: in_drive[0] -> me = 0
		:: in_drive[1] -> me = 1
		fi;
		in_drive[me]--
	   }
		mqfq_give();
		me = 0
	:: D > 1 -> break /* the drive ends nothing any more */
	od
}

#ifdef STALLS
active proctype stall()
{
	stalled = true
}
#endif

init {
	byte i;

	atomic {
		for (i : 1 .. D) {
			if
			:: tokens[0]++
			:: in_drive[0]++
			/* the queues are alike: the first token is beside queue 0 */
			:: i > 1 -> tokens[1]++
			:: i > 1 -> in_drive[1]++
			fi
		}
		i = 0;
		run queue(0, REQUESTS0);
		run queue(1, REQUESTS1)
	}
	atomic {
		timeout;
		assert(FREE + IN_DRIVE + (stalled -> given[0] : 0) == D);
		assert(!FREE || (stalled || FIRST(filled[0]) >= IDLE) && FIRST(filled[1]) >= IDLE);
		assert(!FREE || IN_DRIVE || stalled || !filled[0] && !filled[1]);
		assert(!stalled || IN_DRIVE || !HAS(filled[1], RT))
	}
}

ltl goes { [] (filled[1] -> <> !filled[1]) }
