# SPDX-License-Identifier: GPL-2.0-only
"""Faults that are put back into sched/: which law of the swarm test finds each, after how many scenarios.

K2 once had most of its faults; the others, and those of MQFQ and fifo, are invented for the test.

`make swarm-faults` prints a table; its exit status is 1 if a fault is not found.
"""

import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.unit.programs import ROOT, mutate

#: Number of scenarios within which each fault has to be found.
WITHIN = 20_000
COMPILER = (
    "gcc",
    "-std=gnu11",
    "-g",
    "-O2",
    "-Wall",
    "-Wextra",
    "-Wno-unused-function",
    "-Wno-unused-parameter",
)


@dataclass(frozen=True)
class Fault:
    """A fault in words, and the edit of sched/ that puts it back."""

    what: str
    old: str
    new: str
    #: Whether it is found within one or two seconds.
    found_soon: bool = False


K2_FAULTS = (
    Fault(
        "a request that is due by the floor and split loses its turn",
        "	k2->floor.due_ns[FLOOR_REQUESTS] = due_ns;",
        "	(void)due_ns;",
    ),
    Fault(
        "a discard that is due by the floor goes beside one in the drive",
        "return k2->discard_sectors && atomic_read(&k2->discard.inflight);",
        "return false;",
    ),
    Fault(
        "nothing runs a queue when bounds end with real-time activity",
        "	if (k2->activity.watched && k2->activity.active)\n		until_ns",
        "	if (false)\n		until_ns",
    ),
    Fault(
        "a request beside discards is taken for one in the idle drive",
        "inflight_requests(&k2->inflight) == 1 &&",
        "inflight_sectors(&k2->inflight) == e->sectors &&",
    ),
    Fault(
        "a request that waited is taken for one in the idle drive",
        "4 * waited_ns <= (s64)target_idle_ns(idle)",
        "true",
    ),
    Fault(
        "a flow that is gone stays predicted",
        "if (a->flows[__ffs(flows)].present_until_ns < arrived_ns &&",
        "if (false &&",
    ),
    Fault(
        "of discards and other background that are owed, discards always go last",
        "owed ? due_ns[FLOOR_DISCARDS] < due_ns[FLOOR_REQUESTS] :",
        "owed ? false :",
    ),
    Fault(
        "real-time writes and pauses fill the bucket of the debt without end",
        "	if (debt_in_bucket(d, now_ns) < max_t(u64, d->limit_sectors, DEBT_WINDOW_SECTORS))",
        "	if (true)",
    ),
    Fault(
        "the bound that looks ahead rises when a request is overdue, and nothing runs a queue",
        "a->predicted ? a->hi_sectors : BOUND_NONE",
        "BOUND_NONE",
    ),
    Fault(
        "of the real-time flows that are expected, the latest one alone sets the limit",
        "			limit = min(limit, ns > 0 ? a->lo_sectors + rate_sectors(a->slope, ns) :\n"
        "						    a->lead_sectors);",
        "			limit = ns > 0 ? a->lo_sectors + rate_sectors(a->slope, ns) : a->lead_sectors;",
    ),
    Fault(
        "the background falls to lo when a real-time request is expected, and not the lead before it",
        "ns = due_ns - now_ns - a->lead_ns;",
        "ns = due_ns - now_ns;",
    ),
    Fault(
        "a target that asks for less than 8 KiB lets them go within the lead",
        "	a->lead_sectors = near < AHEAD_LEAD_SECTORS ? 0 : a->lo_sectors;",
        "	a->lead_sectors = a->lo_sectors;",
    ),
    Fault(
        "what the background gets while nothing else runs counts against its floor later",
        "!due_ns || now_ns < due_ns ?",
        "!due_ns ?",
        found_soon=True,
    ),
    Fault(
        "a background request that is owed and does not fit holds up a real-time one",
        "		if (owed & 1U << list || k2_may_go(k2, list, now))\n			return list;",
        "		if (k2_may_go(k2, list, now))\n			return list;\n"
        "		if (owed & 1U << list)\n			return K2_LISTS;",
    ),
    Fault(
        "the background stays bounded when real-time activity is over",
        "	inflight_change(&k2->inflight, on ? requests : BOUND_NONE,",
        "	inflight_change(&k2->inflight, requests,",
        found_soon=True,
    ),
    Fault(
        "the debt of writes is bound although nothing asks for that",
        "debt || !target_ns ? debt : DEBT_AUTO",
        "debt ?: DEBT_AUTO",
        found_soon=True,
    ),
    Fault(
        "requests that cannot be split pass the bound on bytes",
        "		.sectors = k2_sectors(e),\n		.writes",
        "		.sectors = k2->piece_sectors && k2_sectors(e) > k2->piece_sectors ? 0 : k2_sectors(e),\n"
        "		.writes",
        found_soon=True,
    ),
    Fault(
        "the background stays blocked when what a bound refused is merged away",
        "if (atomic_read(&k2->blocked) & 1U << e->list && atomic_xchg(&k2->blocked, 0))",
        "if (0)",
    ),
    Fault(
        "bytes that went while no bound was in force are not counted",
        "	e->sectors = min_t(unsigned int, k2_sectors(e), (1U << 24) - 1);",
        "	e->sectors = k2->bounded ? min_t(unsigned int, k2_sectors(e), (1U << 24) - 1) : 0;",
        found_soon=True,
    ),
    Fault(
        "a target of more than 4.2 s wraps around",
        "1000ULL * target_us",
        "(unsigned int)(1000 * target_us)",
        found_soon=True,
    ),
    Fault(
        "with p99.9, a request in time raises the bound as with p99",
        "in_time * step / rarer",
        "in_time * step",
        found_soon=True,
    ),
    Fault(
        "a late request lowers the bound of a target twice as far",
        "down = late * fall",
        "down = 2 * late * fall",
    ),
    Fault(
        "a bound of a target that is sought again rises in large steps however high it is",
        "p->lift > TARGET_AGAIN_LIFT && p->log < TARGET_AGAIN_LOG",
        "p->lift > TARGET_AGAIN_LIFT",
    ),
    Fault(
        "a bound of a target is sought again in large steps although its aim is hardly raised",
        "p->lift > TARGET_AGAIN_LIFT && p->log < TARGET_AGAIN_LOG",
        "p->lift && p->log < TARGET_AGAIN_LOG",
    ),
    Fault(
        "requests in time lower the bound of a target",
        "p->log + up + forgiven - down",
        "p->log - up + forgiven - down",
    ),
    Fault(
        "the aim is raised at any bound",
        "	if (t->held && times == 1 && p->log < log_min + fall)",
        "	if (t->held && times == 1)",
        found_soon=True,
    ),
    Fault(
        "the aim is raised while the bound is sought",
        "	if (t->held && times == 1 && p->log <",
        "	if (t->held && p->log <",
    ),
    Fault(
        "requests in time raise the aim",
        "(late * TARGET_LIFT_ODDS * rarer - in_time) * raise",
        "(late * TARGET_LIFT_ODDS * rarer + in_time) * raise",
    ),
    Fault(
        "the aim falls below the target",
        "clamp_t(int, lift, 0, TARGET_LIFT_MAX)",
        "clamp_t(int, lift, -TARGET_LIFT_MAX, TARGET_LIFT_MAX)",
    ),
    Fault(
        "the percentile of a target does not change with its knob",
        "target_change(&k2->target, on && target_ns, target_ns, rare);",
        "target_change(&k2->target, on && target_ns, target_ns, false);",
        found_soon=True,
    ),
    Fault(
        "an automatic target is in force without real-time activity",
        " || target_ns == TARGET_AUTO;",
        ";",
        found_soon=True,
    ),
    Fault(
        "the background is held for ten times as long to measure the idle drive",
        "now_ns + TARGET_PROBE_NS;",
        "now_ns + 10 * TARGET_PROBE_NS;",
        found_soon=True,
    ),
    Fault(
        "the background is held while the queue is being frozen",
        "&r) || k2_draining(k2))",
        "&r))",
    ),
    Fault(
        "a number for write_debt_kib_max is limited to the range of auto",
        "	WRITE_ONCE(d->limit_sectors, min(limit, d->cap_sectors));",
        "	limit = clamp_t(u64, limit, DEBT_SECTORS_MIN, DEBT_SECTORS_MAX);\n"
        "	WRITE_ONCE(d->limit_sectors, min(limit, d->cap_sectors));",
        found_soon=True,
    ),
    Fault(
        "a real-time request that the driver returns counts as completed",
        "K2_STATISTICS && done",
        "K2_STATISTICS",
        found_soon=True,
    ),
    Fault(
        "a pause of the debt of writes has no longest",
        "	d->pause_ns = min_t(u64, pause_ns, DEBT_PAUSE_NS_MAX);",
        "	d->pause_ns = 16 * pause_ns;",
    ),
    Fault(
        "the background waits on when the real-time request that was expected has come",
        "	if (e->list < K2_LIST_BACKGROUND && (k2->ahead.learns || k2->debt.on))\n"
        "		atomic_xchg(&k2->blocked, 0);",
        "",
    ),
    Fault(
        "the timer is set to the latest time that was asked for",
        "if (armed_ns && armed_ns <= at_ns)",
        "if (armed_ns == at_ns)",
    ),
    Fault(
        "a background request that is held hides real-time ones",
        "k2_block(k2, 1U << list);",
        "k2_block(k2, K2_MAP_ALL);",
        found_soon=True,
    ),
    Fault(
        "a floor that is owed a request arms no timer",
        "		until_ns = min(until_ns, max(k2->floor.due_ns[K2_FLOOR_KIND(list)], now + 1));",
        "		until_ns += 0;",
        found_soon=True,
    ),
    Fault(
        "the slot that a returned request leaves wakes nothing",
        "	if (!k2_unblock(k2, K2_RELEASE_COMPLETION))",
        "	if (!k2_unblock(k2, K2_RELEASE_COMPLETION) || comes_back)",
        found_soon=True,
    ),
    Fault(
        "a larger bound wakes nothing",
        "	k2_apply(k2);\n	k2_unblock(k2, K2_RELEASE_KNOB);",
        "	k2_apply(k2);",
    ),
    Fault(
        "the debt of writes holds nothing",
        "	if (!d->on || !r->writes || !r->sectors || !d->rate)\n",
        "	if (true)\n",
        found_soon=True,
    ),
    Fault(
        "four times the limit of the debt may be written",
        "	u64 limit = d->limit_sectors, bucket, owed;\n",
        "	u64 limit = 4 * d->limit_sectors, bucket, owed;\n",
    ),
    Fault(
        "a request that was queued before splitting began is never split",
        "	if (!k2->piece_sectors || list != K2_LIST_BACKGROUND ||\n",
        "	if (true || list != K2_LIST_BACKGROUND ||\n",
        found_soon=True,
    ),
    Fault(
        "the bound that looks ahead keeps an idle drive free without end",
        "	held_until_ns = a->held_ns + a->patience_ns + 1;",
        "	held_until_ns = BOUND_AT_END;",
    ),
    Fault(
        "no tags are kept for real-time tasks",
        "	unsigned int limit = tags > kept ? tags - kept : 1;",
        "	unsigned int limit = tags > kept ? tags : 1;",
        found_soon=True,
    ),
    Fault(
        "the limit on tags is left out while requests wait, if there are many tags",
        "	return tags < READ_ONCE(k2->tags_enough) || READ_ONCE(k2->levels.filled) ||\n",
        "	return tags < READ_ONCE(k2->tags_enough) ||\n",
    ),
    Fault(
        "a real-time request that the driver returned counts as in the drive for ever",
        "		atomic_dec(&k2->rt_inflight_all);",
        "		if (done)\n			atomic_dec(&k2->rt_inflight_all);",
        found_soon=True,
    ),
    Fault(
        "the longest gap between real-time arrivals is never forgotten",
        "a->period_ns = recent_max(a->period_ns, gap_ns, ACTIVITY_DECAY_SHIFT);",
        "a->period_ns = max(a->period_ns, gap_ns);",
        found_soon=True,
    ),
)

MQFQ_FAULTS = (
    Fault(
        "a weight that changes and comes back within a window counts as unchanged",
        "		if (price != flow->price)\n			flow_break(flow);\n",
        "",
    ),
    Fault(
        "T is twice as large",
        "atomic64_read(&m->vt) + READ_ONCE(m->t));",
        "atomic64_read(&m->vt) + 2 * m->t);",
        found_soon=True,
    ),
    Fault(
        "twice as many requests go to the drive",
        "tokens, m->d);\n\ttokens_share",
        "tokens, 2 * m->d);\n\ttokens_share",
        found_soon=True,
    ),
    Fault(
        "a flow pays for nothing that it had before",
        "start = tag_after(end, now) ? (u64)end : now;",
        "start = now;",
    ),
    Fault(
        "what a flow did not use is kept for it",
        "start = tag_after(end, now) ? (u64)end : now;",
        "start = tag_after(end, now) ? (u64)end : (u64)end;",
    ),
    Fault(
        "all flows weigh the same",
        "div_u64(SHARES_SECTOR * SHARES_WEIGHT, path->at[0].weight)",
        "SHARES_SECTOR",
        found_soon=True,
    ),
    Fault(
        "a write costs what a read does",
        "return writes ? div_u64(cost",
        "return false ? div_u64(cost",
    ),
    Fault(
        "a request that moves no data costs nothing",
        "#define MQFQ_SECTORS_MIN 1",
        "#define MQFQ_SECTORS_MIN 0",
    ),
    Fault(
        "a queue that waits for a token does not tell virtual time",
        "	if (mqfq_number(m, q) != q->published)\n"
        "		mqfq_publish(m, q, mqfq_number(m, q));\n	clear",
        "	clear",
    ),
    Fault(
        "a request that comes first in a queue that waits is not told to virtual time",
        "	if (q->published != MINDICATOR_NONE && q->first != in->first &&\n"
        "	    mqfq_number(m, q) != q->published)\n",
        "	if (false)\n",
    ),
    Fault("virtual time falls", "while (tag_after(least, vt)) {", "while (least != (u64)vt) {"),
    Fault(
        "virtual time wakes nobody",
        "	while (spans--)\n",
        "	while (false && spans--)\n",
        found_soon=True,
    ),
    Fault(
        "a token wakes nobody",
        "		waiting_remove(&m->waiting, q->number, level);\n	mqfq_kick(m, q->number);\n",
        "		waiting_remove(&m->waiting, q->number, level);\n",
        found_soon=True,
    ),
    Fault(
        "an urgent queue that waits gets every token",
        "max(READ_ONCE(q->urgent), 1U)",
        "UINT_MAX",
        found_soon=True,
    ),
    Fault(
        "a queue with requests of flows that waits gets every token",
        "return max(READ_ONCE(m->d) >> MQFQ_GIVEN_SHIFT, MQFQ_GIVEN_MIN);",
        "return UINT_MAX;",
    ),
    Fault(
        "a queue that passed its token on goes before a more urgent one beside it",
        " || mqfq_is_preceded(m, q)",
        "",
    ),
    Fault(
        "an urgent queue that has its tokens asks for no more",
        " || !waiting_has(&m->waiting, q->number, level)",
        "",
    ),
    Fault(
        "more tokens wake nobody",
        "	mqfq_give_all(m, 0);\n",
        "",
    ),
    Fault(
        "a queue keeps tokens that it has no use for",
        "		mqfq_give_back(m, q);\n	spin_unlock",
        "		;\n	spin_unlock",
    ),
    Fault(
        "a queue that found a token looks for no other one",
        "			mqfq_stop_waiting(m, q); /* there may be",
        "			; /* there may be",
    ),
    Fault(
        "another T wakes nobody",
        "		wheel_empty(&m->wheel, i, mqfq_kick_throttled, m);",
        "		;",
    ),
    Fault(
        "tokens that are to be fewer come back",
        "	return unlikely(atomic_read(&t->excess) > 0) && tokens_take_one(&t->excess);",
        "	return false;",
    ),
    Fault(
        "class idle does not get the tokens that it had to yield",
        "		if (unlikely(waiting_any(&m->waiting))) /* class idle need not yield any more */\n"
        "			mqfq_give_all(m, q->number);\n",
        "",
    ),
    Fault(
        "of the runnable queues of a hardware queue the nearest goes first, whatever its level",
        "	if (mqfq_urgency(m, best) == MQFQ_FAIR && mqfq_urgency(m, near) == MQFQ_FAIR &&\n",
        "	if (",
    ),
    Fault(
        "of two queues of a real-time level the nearer one keeps all tokens",
        "	if (level != MQFQ_FAIR)\n		return waiting_in",
        "	if (false)\n		return waiting_in",
    ),
    Fault(
        "a request takes a token before a more urgent one that waits",
        "	       waiting_level(&m->waiting, level) != level;",
        "	       false;",
    ),
    Fault(
        "a real-time request behind a flow that waits does not make the queue runnable",
        " || __ffs(q->filled) != __ffs(in->filled)",
        "",
    ),
    Fault(
        "class idle goes while a flow waits",
        "	if (unlikely(level == MQFQ_IDLE) && mind",
        "	if (false && mind",
    ),
    Fault(
        "class idle is not woken when nothing else is left",
        "mindicator_least(&m->mindicator) != MINDICATOR_NONE))\n		return WAITING_NONE;",
        "true))\n		return WAITING_NONE;",
    ),
    Fault(
        "an urgent request waits for tokens that other queues do not use",
        "(level < MQFQ_FAIR && mqfq_take_given(m, level))",
        "false",
    ),
    Fault(
        "requests whose CPU is to go offline wait for their turn",
        "			urgency = MQFQ_URGENT;\n			mqfq_break(m);",
        "			mqfq_break(m);",
        found_soon=True,
    ),
    Fault(
        "nothing runs a hardware queue whose CPU is to go offline",
        "		if (leaves)\n			mqfq_kick(m, q->number);",
        "		;",
        found_soon=True,
    ),
    Fault(
        "an empty queue waits for virtual time",
        "	if (number == MINDICATOR_NONE)\n		mqfq_leave_wheel(m, q);\n",
        "",
    ),
    Fault(
        "a queue waits for virtual time twice, as another request comes first",
        "	mqfq_leave_wheel(m, q);\n	clear_bit",
        "	clear_bit",
    ),
    Fault(
        "class idle waits for ever",
        "	return unlikely(due) &&",
        "	return false &&",
    ),
    Fault(
        "class idle that waits in its queue is not run when its time has come",
        "			mqfq_kick(m, i);\n",
        "			;\n",
    ),
    Fault(
        "what the driver gave back is charged to its flow again",
        "unlikely(e->state == MQFQ_RETURNED) ? MQFQ_URGENT : level",
        "level",
    ),
    Fault(
        "what the driver gave back keeps its token",
        "MQFQ_RETURNED : MQFQ_NEW;\n	mqfq_end(m, e);",
        "MQFQ_RETURNED : MQFQ_NEW;\n	if (!comes_back)\n		mqfq_end(m, e);",
    ),
    Fault(
        "a flow's statistics begin with what the flow before it in its place had",
        "	WRITE_ONCE(a->requests, requests);\n",
        "",
    ),
    Fault(
        "a new flow takes the place of another one, and there is a free one",
        "			gone = place;\n			was = 0;\n			break;\n",
        "			gone = gone == FLOWS_SHARED ? place : gone;\n			break;\n",
    ),
    Fault(
        "a slot that is idle as T is small is counted once more when the statistics are read",
        "	q->throttled_idle = idle;\n",
        "",
    ),
    Fault(
        "a flow counts as throttled after its request went",
        "	mqfq_account_near(m, q);\n	if (number",
        "	if (number",
    ),
    Fault(
        "a flow that left a part of its share is taken for one that was refused it",
        "		if (unlikely(start != (u64)end))\n			flow_break(flow);\n",
        "",
    ),
    Fault(
        "a flow's window begins while requests wait that cost something else",
        "	a->begins = whole && !tag_after(a->settled, vt);",
        "	a->begins = whole;",
    ),
)

FIFO_FAULTS = (
    Fault("the newest goes first", "entry = f->list.next;", "entry = f->list.prev;", found_soon=True),
    Fault(
        "a request too many goes",
        "atomic_read(&f->inflight) < (int)",
        "atomic_read(&f->inflight) <= (int)",
        found_soon=True,
    ),
    Fault(
        "nothing runs a hardware queue at an end",
        "return READ_ONCE(f->queued);",
        "return false;",
        found_soon=True,
    ),
    Fault("what the driver gave back goes last", "if (at_head)", "if (false)", found_soon=True),
)

#: Faults by scheduler.
FAULTS = {"k2": K2_FAULTS, "mqfq": MQFQ_FAULTS, "fifo": FIFO_FAULTS}


def compile_swarm(
    out: Path,
    sched: Path = ROOT / "sched",
    flags: tuple[str, ...] = (),
    own: str = "",
    ready: Path | None = None,
) -> Path:
    """Compile the swarm test over a copy of sched/; `out` is a folder, which takes the copies too.

    With `ready`, the folder of an earlier compilation, only the scheduler `own` is compiled; the rest is
    copied.
    """
    tree = out / "tree"
    for name in ("tests/swarm", "tests/unit/mqfq", "sim", "flash"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(sched, tree / "sched", dirs_exist_ok=True)
    includes = ("-I", str(tree / "sim/single"), "-I", str(tree / "sim/include"))
    objects = []
    for source in (*sorted((tree / "tests/swarm").glob("*.c")), tree / "sim/drive.c"):
        is_ready = ready is not None and source.stem != own
        made = (ready if ready and is_ready else out) / f"{source.stem}.o"
        if not is_ready:
            command = [*COMPILER, *flags, *includes, "-c", str(source), "-o", str(made)]
            subprocess.run(command, check=True)
        objects.append(str(made))
    program = out / "swarm"
    subprocess.run([*COMPILER, *flags, *objects, "-o", str(program)], check=True)
    return program


def with_fault(scheduler: str, fault: Fault, out: Path, ready: Path | None = None) -> Path:
    """The swarm test over sched/ with this fault; `ready` is the folder of a compilation without it."""
    sched = out / "sched"
    shutil.copytree(ROOT / "sched", sched)
    mutate(sched, fault.old, fault.new)
    return compile_swarm(out, sched, own=scheduler, ready=ready)


def play(program: Path, scheduler: str, first: int, within: int) -> tuple[int, str] | None:
    """The number of scenarios until a law was broken, and the law; None if every law held."""
    command = [str(program), scheduler, str(first), str(within), "brief"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return None
    seed, _, law = done.stdout.splitlines()[0].removeprefix("seed ").partition(": ")
    return int(seed) - first + 1, law


def find(scheduler: str, fault: Fault, first: int, within: int, ready: Path) -> tuple[int, str] | None:
    """The number of scenarios until the fault was found, and the law that it breaks; None if it was not
    found.
    """
    with tempfile.TemporaryDirectory() as scratch:
        return play(with_fault(scheduler, fault, Path(scratch), ready), scheduler, first, within)


def main() -> int:
    """Print the table of faults; the exit status."""
    missed = 0
    print(f"{'scenarios':>9}  fault: law that finds it")
    with tempfile.TemporaryDirectory() as ready:
        compile_swarm(Path(ready))
        for scheduler, faults in FAULTS.items():
            print(scheduler)
            for fault in faults:
                found = find(scheduler, fault, 1, WITHIN, Path(ready))
                missed += found is None
                print(
                    f"{found[0] if found else 'missed':>9}  {fault.what}: {found[1] if found else '-'}",
                    flush=True,
                )
    return 1 if missed else 0
