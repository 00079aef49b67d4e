/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Queues that wait for virtual time: sched/fair/wheel.h, with mqfq_throttle(), the part of mqfq_publish() that moves virtual
 * time, mqfq_kick() and mqfq_set_t() in sched/mqfq*.c.
 *
 * One queue has a request that may go when virtual time has come to its start tag less T. The process queue is
 * mqfq_dispatch() with mqfq_throttle(): it starts where blk-mq runs the hardware queue. Two publishers move virtual time on,
 * a few times, by one span or by more than the wheel holds. The wheel has four buckets, and the queue may have to wait for
 * a span beyond them. Tags have eight bits and wrap around. With -DSET_T there is one publisher, and T changes at any time, with
 * or without the length of a span.
 *
 * One queue is enough: queues share nothing but the words of a bucket's bitmap, which are changed by atomic operations on
 * bits. Which number is published is not checked here but in mindicator.pml: a publisher chooses any. The counter
 * wheel.waiting is left out: no wake-up depends on it.
 *
 * Memory: the model is sequentially consistent, each read or write of shared memory is one step. The C code gets that from
 * the full barriers after clear_bit() and after wheel_wait() in mqfq_throttle(), in wheel_turn() and in mqfq_set_t(), and
 * from atomic operations with a result, which are full barriers. tests/unit/mqfq/interleave.c shows what happens without.
 *
 * Checked:
 * - When nothing happens any more, the queue is not blocked if its span has come. Virtual time may stop anywhere.
 * - The claim goes: if the span of the queue has come to stay, its request goes. No process is delayed for ever (weak
 *   fairness).
 */
#ifdef SET_T
#define PUBLISHERS 1
#define MOVES 3
#else
#define PUBLISHERS 2
#define MOVES 2
#endif
#define BUCKETS 4

byte vt = 252;
byte t = 4;
byte shift = 1; /* span_shift: a span is two tags */
byte start; /* of the request */
bool wheel[BUCKETS]; /* the bit of the queue in each bucket */
bool runnable = true;
bool to_run = true; /* blk-mq is to run the hardware queue */
bool gone;

#define MINUS(a, b) (((a) + 256 - (b)) & 255)
#define SPANS(from, to, bits) (((to) + 256 - (from)) & (255 >> (bits)))
/* What wheel_span() rounds up to: the span at which the queue may go. */
#define SPAN_OF(until, bits) (((until) + (1 << (bits)) - 1 & 255) >> (bits))
#define HAS_COME(span, bits) (SPANS(span, vt >> (bits), bits) << (bits) < 128)
#define IS_NEAR (MINUS(vt + t, start) < 128)
#define MAY_GO HAS_COME(SPAN_OF(MINUS(start, t), shift), shift)

/* mqfq_kick() */
inline kick()
{
	atomic {
		if
		:: !runnable -> runnable = true; to_run = true
		:: else
		fi
	}
}

/* wheel_span() */
inline choose_span()
{
	d_step {
		span = SPAN_OF(MINUS(start, ahead), bits);
		if
		:: SPANS(vt >> bits, span, bits) >= BUCKETS -> span = ((vt >> bits) + BUCKETS - 1) & (255 >> bits)
		:: else
		fi
	}
}

active proctype queue()
{
	byte span, bits, ahead;

	if
	:: start = 6 /* three spans away */
	:: start = 9 /* five */
	fi;
end:	do
	:: atomic { to_run -> to_run = false };
		do
		:: atomic { !runnable -> break }
		:: atomic { runnable && IS_NEAR -> gone = true; runnable = false; break }
		:: else ->
			/* mqfq_throttle() */
			bits = shift;
			ahead = t;
			runnable = false;
			choose_span();
			wheel[span % BUCKETS] = true;
			if
			:: IS_NEAR
			:: else ->
				if
				:: HAS_COME(span, bits)
				:: else ->
					if
					:: atomic { shift == bits && t == ahead -> span = 0; bits = 0; ahead = 0; break }
					:: else
					fi
				fi
			fi;
			atomic { wheel[span % BUCKETS] = false; span = 0; bits = 0; ahead = 0 }
			runnable = true
		od
	od
}

active [PUBLISHERS] proctype publisher()
{
	byte now, least, spans, left = MOVES;

	do
	:: atomic {
		left && !gone ->
		left--;
		now = vt;
		if
		:: least = (((vt >> shift) + 1) << shift) & 255
		:: least = (((vt >> shift) + BUCKETS + 1) << shift) & 255
		fi
	   }
		do
		:: atomic { vt == now -> vt = least; break }
		:: atomic {
			else -> now = vt;
			if
			:: MINUS(least, now) == 0 || MINUS(least, now) >= 128 -> least = now; break
			:: else
			fi
		   }
		od;
		/* wheel_turn(): least becomes a span */
		atomic {
			spans = SPANS(now >> shift, least >> shift, shift);
			spans = (spans > BUCKETS -> BUCKETS : spans);
			least = least >> shift;
			now = 0
		}
		do
		:: atomic { spans && !wheel[(least + 257 - spans) % BUCKETS] -> spans-- }
		:: atomic {
			spans && wheel[(least + 257 - spans) % BUCKETS] ->
			wheel[(least + 257 - spans) % BUCKETS] = false;
			spans--
		   }
			kick()
		:: atomic { !spans -> least = 0; break }
		od
	:: atomic { left = 0; break }
	od
}

#ifdef SET_T
/* mqfq_set_t() */
active proctype set_t()
{
	byte at;

	if
	:: t = 0; shift = 0
	:: t = 0 /* spans keep their length */
	:: t = 6; shift = 2
	fi;
	do
	:: atomic { at < BUCKETS && !wheel[at] -> at++ }
	:: atomic { at < BUCKETS && wheel[at] -> wheel[at] = false; at++ }
		kick()
	:: atomic { at == BUCKETS -> break }
	od
}
#endif

init {
	atomic {
		timeout;
		assert(gone || !MAY_GO)
	}
}

ltl goes { [] ([] MAY_GO -> <> gone) }
