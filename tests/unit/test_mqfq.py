# SPDX-License-Identifier: GPL-2.0-only
"""MQFQ (sched/mqfq.c, sched/fair/): between threads, and whether it is fair.

`interleave` runs threads as coroutines, with one schedule for each seed. In each schedule: every request
ends; at most D are in the drive; none is dispatched that is more than T ahead of virtual time, which never
falls; a bio that joined a queued request ends with it; a queue's tree is in order; and in the end all tokens
are back. `fair` lets flows of random weights, sizes, merges and queues compete: dispatches and completions of
any two flows differ by no more than a bound, the drive is always full, and a flow's statistics agree with
what was observed. `order` compares with the order of SFQ(D), with T 0 and one queue. `shares` compares the
weights of flows in random hierarchies with those computed from the whole tree. `search` lets `d` be found on
modelled drives, and `write_cost` the cost of a write. `stress` runs real threads for the sanitizers.
"""

import shutil
import subprocess
from fractions import Fraction
from pathlib import Path

import pytest
from tests.unit import sfq
from tests.unit.programs import (
    GCC,
    ROOT,
    SANITIZED,
    SEED,
    THREAD_SANITIZED,
    complains,
    fixed_addresses,
    mutate,
    run_program,
)

BARRIER = "smp_mb__after_atomic();"

#: Ways to break it: name, what stands in the sources, what stands there instead.
MUTATIONS = [
    ("waits-without-barrier", "\t\tsmp_mb(); /* pairs with mqfq_give() and mqfq_give_to() */\n", ""),
    (
        "gives-without-barrier",
        "\ttokens_put(&m->tokens, number);\n\tsmp_mb(); /* pairs with the barrier after waiting_add() */\n",
        "\ttokens_put(&m->tokens, number);\n",
    ),
    (
        "no-barrier-before-given",
        "\tsmp_mb__after_atomic(); /* the CPU that gives a token then sees that the queue is not runnable,"
        " and runs it */\n",
        "",
    ),
    (
        "given-and-not-run",
        "\t\twaiting_remove(&m->waiting, q->number, level);\n\tmqfq_kick(m, q->number);\n",
        "\t\twaiting_remove(&m->waiting, q->number, level);\n",
    ),
    (
        "runs-before-it-has-enough",
        "\tif (level != WAITING_NONE && given >= mqfq_needs(m, q, level))\n"
        "\t\twaiting_remove(&m->waiting, q->number, level);\n\tmqfq_kick(m, q->number);\n",
        "\tmqfq_kick(m, q->number);\n\tif (level != WAITING_NONE && given >= mqfq_needs(m, q, level))\n"
        "\t\twaiting_remove(&m->waiting, q->number, level);\n",
    ),
    ("urgent-takes-nothing-from-others", "(level < MQFQ_FAIR && mqfq_take_given(m, level))", "false"),
    (
        "given-after-an-urgent-one-looked",
        "(level != WAITING_NONE && !mqfq_must_yield(m, level))",
        "level != WAITING_NONE",
    ),
    (
        "sleeps-when-what-it-found-was-taken",
        "if (q->waits != WAITING_NONE && !atomic_read(&q->given))",
        "if (!atomic_read(&q->given))",
    ),
    ("does-not-say-that-it-waits-again", " || !waiting_has(&m->waiting, q->number, level)", ""),
    ("never-steals", "!mqfq_must_yield(m, level) && mqfq_find_token(m, level))", "false)"),
    ("keeps-what-it-was-given", "\t\tmqfq_give_back(m, q);\n\tspin_unlock", "\t\t;\n\tspin_unlock"),
    (
        "throttled-without-another-look",
        "\t    shift == READ_ONCE(m->span_shift) && t == READ_ONCE(m->t)) {\n\t\tmqfq_account_far",
        "\t    true) {\n\t\tmqfq_account_far",
    ),
    ("never-turns", "\twhile (spans--)\n", "\twhile (false && spans--)\n"),
    ("gives-to-idle-in-vain", "(level == MQFQ_IDLE && mind", "(false && mind"),
    (
        "idle-sleeps-on",
        "mindicator_least(&m->mindicator) != MINDICATOR_NONE))\n\t\treturn WAITING_NONE;",
        "true))\n\t\treturn WAITING_NONE;",
    ),
    ("t-doubled", "atomic64_read(&m->vt) + READ_ONCE(m->t));", "atomic64_read(&m->vt) + 2 * m->t);"),
    ("d-is-exceeded", "while (tokens > 0)", "while (tokens > -1)"),
    ("time-falls", "while (tag_after(least, vt)) {", "while (least != (u64)vt) {"),
    (
        "merges-without-lock",
        "\tspin_lock(&q->lock);\n}\n\n"
        "static inline void mqfq_merge_end(struct mqfq_queue *q) __releases(&q->lock)\n"
        "{\n\tspin_unlock(&q->lock);\n",
        "}\n\nstatic inline void mqfq_merge_end(struct mqfq_queue *q)\n{\n",
    ),
    ("late-wait-for-all", "return tag_after(first->start, late->start) ?", "return false ?"),
    ("late-are-appended", "tag_after(mqfq_entry_of(list->prev)->start, e->start)", "false"),
    ("waits-uncounted", "\tatomic64_add(waiting_unit(level), &w->count);\n", ""),
    (
        "counts-wrap",
        "max_t(s64, atomic64_read(&flow->requests) - READ_ONCE(a->requests), 0)",
        "atomic64_read(&flow->requests) - READ_ONCE(a->requests)",
    ),
    (
        "key-before-counts",
        "\t\tmqfq_account_anew(m, e->flow);\n\t\tsmp_store_release(&a->key, key);",
        "\t\tsmp_store_release(&a->key, key);\n\t\tmqfq_account_anew(m, e->flow);",
    ),
    ("weighs-twice-in-a-period", "if (is_new || mqfq_is_later(period, flow->period)) {", "{"),
    ("counted-for-ever", "\t\tatomic64_sub(waiting_unit(level), &w->count);\n", "\t\t;\n"),
]

#: Seeds with which a mutation that is rarely noticed is noticed. They are tried first; after a change of the
#: code, other seeds may be needed.
SHOWN_AT = {
    "runs-before-it-has-enough": 50_341,
    "given-after-an-urgent-one-looked": 78_121,
    "sleeps-when-what-it-found-was-taken": 9_286,
    "gives-to-idle-in-vain": 4_897,
    "merges-without-lock": 13_880,
}

#: Ways to break the mindicator.
STALE = [
    ("one-refresh", "\t\t\tmindicator_refresh(&m->words[level][index], below, base);\n", "\t\t\t;\n"),
    ("no-version", "number = (was + 1) &", "number = was &"),
    ("no-barrier", "\tsmp_mb(); /* the words are read after the leaf is written */\n", ""),
    (
        "equal-is-not-written",
        "\tnumber = (was + 1)",
        "\tif (was >> MINDICATOR_VERSION_BITS == least)\n\t\treturn true;\n\tnumber = (was + 1)",
    ),
]


#: Mutations that make MQFQ unfair, or leave the drive idle.
UNFAIR = [
    ("t-doubled", "atomic64_read(&m->vt) + READ_ONCE(m->t));", "atomic64_read(&m->vt) + 2 * m->t);"),
    ("d-doubled", "tokens, m->d);\n\ttokens_share", "tokens, 2 * m->d);\n\ttokens_share"),
    ("tags-from-now-on", "start = tag_after(end, now) ? (u64)end : now;", "start = now;"),
    ("grows-for-nothing", "\tatomic64_add(cost, &flow->end);\n", ""),
    ("weights-alike", "div_u64(SHARES_SECTOR * SHARES_WEIGHT, path->at[0].weight)", "SHARES_SECTOR"),
    ("last-comes-first", "link = tag_after(mqfq_entry_of_rb(parent)->start, e->start) ?", "link = true ?"),
    (
        "never-published",
        "\tif (mqfq_number(m, q) != q->published)\n\t\tmqfq_publish(m, q, mqfq_number(m, q));\n\tclear",
        "\tclear",
    ),
]


#: Mutations that change the order of one queue with T = 0.
UNORDERED = [m for m in UNFAIR if m[0] not in ("t-doubled", "grows-for-nothing", "never-published")]

#: Ways to get a hierarchy's weights wrong.
MISJUDGED = [
    (
        "ten-children-ten-shares",
        "\tfor (i = 1; i < path->depth; i++)\n\t\tparents",
        "\treturn price;\n\tfor (i = 1; i < path->depth; i++)\n\t\tparents",
    ),
    ("counted-for-each-child", "\t\tcompetes = parents[i]->counted != period;\n", ""),
    ("counted-once", "if (share->period != period) {", "if (false) {"),
    ("period-before-forgotten", "max(parents[i]->sum, parents[i]->before)", "parents[i]->sum"),
    ("idle-ones-count", "i && competes && parents[i]", "i && parents[i]"),
    (
        "too-deep-is-its-ancestor",
        "\tif (number == depth)\n\t\treturn min(depth, SHARES_DEPTH) - 1;\n"
        "\treturn number < SHARES_DEPTH ? number - 1 : SHARES_DEPTH;",
        "\treturn number <= SHARES_DEPTH ? number - 1 : SHARES_DEPTH;",
    ),
    ("who-left-counts", "period - share->period == 1 ? share->sum : 0", "max(share->sum, share->before)"),
]


#: Mutations that make the search find another bound.
LOST = [
    ("any-gain-will-do", "limit = 1000 + s->limits->gain;", "limit = 1000 + 10 * s->limits->gain;"),
    ("no-gain-is-enough", "limit = 1000 + s->limits->gain;", "limit = 1000 + s->limits->gain / 10;"),
    ("never-goes-down", "return max(s->step, l->least + strides) - strides;", "return s->step;"),
    ("never-halves", "return s->too_small + (s->enough", "return s->too_small + 0 * (s->enough"),
    ("takes-the-load-for-the-drive", "(!search_is_high(s) && s->waited", "(false && s->waited"),
    ("pauses-count", "\tif (search_is_after_pause(sample))\n\t\tsearch_measure(s, s->step);\n", ""),
    ("a-slow-drive-pauses", "sample->periods > SEARCH_PERIODS_MAX && !sample->waits", "sample->periods > 1"),
    ("discards-say-what-the-throughput-is", "if (!sectors || ", "if ("),
    ("one-measurement-decides", "#define SEARCH_REPEATS 4", "#define SEARCH_REPEATS 1"),
    ("growth-is-a-gain", "return s->window == 1 || s->window == 2;", "return s->window & 1;"),
]

#: Ways to misjudge what a write costs.
MISPRICED = [
    ("growth-is-a-mix", "return c->window == 2 || c->window == 3;", "return !(c->window & 1);"),
    ("does-not-settle", "#define WRITE_COST_SETTLES 4", "#define WRITE_COST_SETTLES 0"),
    ("short-windows", "#define WRITE_COST_TICKS_MIN 16", "#define WRITE_COST_TICKS_MIN 1"),
    ("noise-is-a-mix", "if (4 * c->read[1] * c->written[0] <", "if (false &&"),
    ("takes-the-load-for-the-drive", "if (c->waited * 16 < ticks * 15 ||", "if ("),
    ("pauses-count", "\tif (search_is_after_pause(sample))\n\t\tc->window = c->ticks = 0;\n", ""),
    ("reads-alone-are-a-mix", " || !read || !written) {", ") {"),
    ("upside-down", "div64_u64(100 * read, written)", "div64_u64(100 * written, read)"),
    ("believed-at-once", "\tif (8 * c->pct <= 9 * was && 8 * c->pct >= 7 * was) {\n", "\t{\n"),
    ("never-rests", "if (8 * c->pct <= 9 * was && 8 * c->pct >= 7 * was) {", "if (!measured) {"),
    ("no-other-price", "#define WRITE_COST_TIMES 4", "#define WRITE_COST_TIMES 1"),
    ("old-ones-count", "\tc->read[0] = c->read[1] = c->written[0] = c->written[1] = 0;\n", ""),
]


#: Ways to get a flow's statistics wrong.
MISCOUNTED = [
    ("never-told", "\t\tif (unlikely(e->flow != q->serving))\n\t\t\tmqfq_tell(m, q, e->flow);\n", ""),
    ("told-twice", "\tWRITE_ONCE(q->told_sectors, sectors);\n", ""),
    ("throttled-while-it-waits-for-a-token", "\tif (level == MQFQ_FAIR)\n\t\tmqfq_account_near(m, q);\n", ""),
    ("throttled-from-the-start", "\tq->throttled_ns = mqfq_now(m);\n", ""),
    ("weights-alike", "a->was.sectors) * now->price", "a->was.sectors) * SHARES_SECTOR"),
    (
        "growth-is-unfair",
        "\tatomic64_add(cost, &flow->end);\n\tflow_break(flow);\n",
        "\tatomic64_add(cost, &flow->end);\n",
    ),
    ("passed-by-virtual-time", "tag_after(now->end, vt) && !now->passed;", "tag_after(now->end, vt);"),
    (
        "nothing-counts-while-a-cpu-is-offline",
        "\t\tmqfq_look(m, q, looks);\n",
        "\t\tmqfq_look(m, q, looks);\n\t\tif (q->leaves)\n\t\t\tmqfq_break(m);\n",
    ),
    ("across-a-change-of-t", "\tmqfq_break(m);\n\t/* virtual time", "\t/* virtual time"),
    (
        "small-requests-alone",
        "\t\tWRITE_ONCE(flow->largest, sectors);\n\telse",
        "\t\tWRITE_ONCE(flow->largest, 1);\n\telse",
    ),
]


#: Accesses that are marked no more, or protected: the thread sanitizer sees them.
RACES = [
    ("waiting-read", "if (READ_ONCE(waiting_map(w, level)[word]))", "if (waiting_map(w, level)[word])"),
    ("wheel-read", "if (!READ_ONCE(map[word]))", "if (!map[word])"),
    ("leaf-read", "number = READ_ONCE(below[i])", "number = below[i]"),
    ("counter-written", "WRITE_ONCE(q->dispatched, q->dispatched + 1);", "q->dispatched++;"),
    ("lock-not-taken", "\tspin_lock(&q->lock);\n\tin->q = q;", "\tq->lock.locked = 1;\n\tin->q = q;"),
]


def compile_program(name: str, out: Path, *flags: str, root: Path = ROOT) -> Path:
    """Compile tests/unit/mqfq/<name>.c of a tree; most have one thread."""
    program = out / name
    own = root / "tests/unit/interleave" if name in ("interleave", "mindicator") else ROOT / "sim/single"
    includes = ["-I", str(own)] if name != "stress" else []
    includes += ["-I", str(ROOT / "sim/include")]
    source = root / "tests/unit/mqfq" / f"{name}.c"
    subprocess.run([*GCC, "-O1", *flags, *includes, str(source), "-lm", "-o", str(program)], check=True)
    return program


def compile_mutated(name: str, old: str, new: str, root: Path, *flags: str) -> Path:
    shutil.copytree(ROOT / "sched", root / "sched")
    for folder in ("interleave", "mqfq"):
        shutil.copytree(ROOT / "tests/unit" / folder, root / "tests/unit" / folder)
    mutate(root / "sched", old, new)
    return compile_program(name, root, "-w", "-O0", *flags, root=root)


@pytest.fixture(scope="session")
def interleave(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_program("interleave", tmp_path_factory.mktemp("mqfq"))


@pytest.mark.parametrize("first", range(0, 30_000, 10_000))
def test_no_schedule_loses_a_wake_up_or_breaks_a_law(interleave: Path, first: int) -> None:
    """A failure names its seed; `interleave SEED 1` repeats it."""
    assert run_program(interleave, first, 10_000) == ""


@pytest.mark.parametrize(("name", "old", "new"), MUTATIONS, ids=[m[0] for m in MUTATIONS])
def test_a_broken_one_is_noticed(name: str, old: str, new: str, tmp_path: Path) -> None:
    program = compile_mutated("interleave", old, new, tmp_path)
    shown_at = SHOWN_AT.get(name)
    assert (shown_at is not None and complains(program, shown_at, 1)) or complains(program, 0, 300_000)


@pytest.mark.parametrize("sanitizer", [THREAD_SANITIZED, SANITIZED], ids=["thread", "address"])
def test_real_threads(sanitizer: tuple[str, ...], tmp_path: Path) -> None:
    program = compile_program("stress", tmp_path, *sanitizer)
    assert run_program(program, 1, 5000, prefix=fixed_addresses()) == ""


@pytest.mark.parametrize(("old", "new"), [m[1:] for m in RACES], ids=[m[0] for m in RACES])
def test_a_race_is_noticed(old: str, new: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy host the threads may not interfere in the first runs."""
    monkeypatch.setenv("TSAN_OPTIONS", "halt_on_error=1")
    program = compile_mutated("stress", old, new, tmp_path, *THREAD_SANITIZED)
    prefix = fixed_addresses()
    assert any("data race" in run_program(program, seed, 5000, prefix=prefix) for seed in range(1, 21))


def test_the_root_is_the_least_leaf(tmp_path: Path) -> None:
    assert run_program(compile_program("mindicator", tmp_path), 0, 100_000) == ""


@pytest.mark.parametrize(("old", "new"), [m[1:] for m in STALE], ids=[m[0] for m in STALE])
def test_a_stale_root_is_noticed(old: str, new: str, tmp_path: Path) -> None:
    assert complains(compile_mutated("mindicator", old, new, tmp_path), 0, 100_000)


def test_flows_that_always_wait_share_by_weight(tmp_path: Path) -> None:
    """Starts from another seed in each run."""
    assert run_program(compile_program("fair", tmp_path, *SANITIZED), SEED, 800) == ""


@pytest.mark.parametrize(("old", "new"), [m[1:] for m in UNFAIR], ids=[m[0] for m in UNFAIR])
def test_an_unfair_one_is_noticed(old: str, new: str, tmp_path: Path) -> None:
    assert complains(compile_mutated("fair", old, new, tmp_path), 0, 3000)


@pytest.mark.parametrize(("old", "new"), [m[1:] for m in UNFAIR], ids=[m[0] for m in UNFAIR])
def test_completed_service_alone_shows_it(old: str, new: str, tmp_path: Path) -> None:
    assert complains(compile_mutated("fair", old, new, tmp_path), 0, 3000, "completed")


def test_statistics_say_what_was_seen(tmp_path: Path) -> None:
    """Starts from another seed in each run."""
    assert run_program(compile_program("fair", tmp_path, *SANITIZED), SEED, 600, "statistics") == ""


@pytest.mark.parametrize(("old", "new"), [m[1:] for m in MISCOUNTED], ids=[m[0] for m in MISCOUNTED])
def test_wrong_statistics_are_noticed(old: str, new: str, tmp_path: Path) -> None:
    assert complains(compile_mutated("fair", old, new, tmp_path), 0, 1000, "statistics")


def differs_from_sfq(program: Path, first: int, count: int) -> str:
    """The seed of a script that MQFQ plays in another order than SFQ(D); "" if there is none."""
    for seed in range(first, first + count):
        reference, script = sfq.play(seed)
        command = [str(program), str(reference.depth)]
        done = subprocess.run(command, input="\n".join(script), capture_output=True, text=True, check=True)
        lines = (line.split() for line in done.stdout.splitlines())
        went = [(Fraction(int(start), sfq.TAG), int(number)) for number, start in lines]
        if len(went) != len(reference.went) or sfq.by_tag(went) != sfq.by_tag(reference.went):
            return f"seed {seed}"
    return ""


def test_without_t_one_queue_goes_in_the_order_of_sfq(tmp_path: Path) -> None:
    """Starts from another seed in each run."""
    assert differs_from_sfq(compile_program("order", tmp_path, *SANITIZED), SEED, 100) == ""


@pytest.mark.parametrize(("old", "new"), [m[1:] for m in UNORDERED], ids=[m[0] for m in UNORDERED])
def test_another_order_is_noticed(old: str, new: str, tmp_path: Path) -> None:
    assert differs_from_sfq(compile_mutated("order", old, new, tmp_path), 0, 100) != ""


def test_a_hierarchy_shares_what_its_groups_weigh(tmp_path: Path) -> None:
    """Starts from another seed in each run."""
    assert run_program(compile_program("shares", tmp_path, *SANITIZED), SEED, 3000) == ""


@pytest.mark.parametrize(("old", "new"), [m[1:] for m in MISJUDGED], ids=[m[0] for m in MISJUDGED])
def test_a_misjudged_hierarchy_is_noticed(old: str, new: str, tmp_path: Path) -> None:
    assert complains(compile_mutated("shares", old, new, tmp_path), 0, 3000)


def test_a_search_finds_the_depth_of_a_drive(tmp_path: Path) -> None:
    """Starts from another seed in each run."""
    assert run_program(compile_program("search", tmp_path, *SANITIZED), SEED, 1000) == ""


@pytest.mark.parametrize(("old", "new"), [m[1:] for m in LOST], ids=[m[0] for m in LOST])
def test_a_search_that_gets_lost_is_noticed(old: str, new: str, tmp_path: Path) -> None:
    assert complains(compile_mutated("search", old, new, tmp_path), 0, 20_000)


def test_what_a_write_costs_is_found(tmp_path: Path) -> None:
    """Starts from another seed in each run."""
    assert run_program(compile_program("write_cost", tmp_path, *SANITIZED), SEED, 1000) == ""


@pytest.mark.parametrize(("old", "new"), [m[1:] for m in MISPRICED], ids=[m[0] for m in MISPRICED])
def test_a_wrong_price_is_noticed(old: str, new: str, tmp_path: Path) -> None:
    assert complains(compile_mutated("write_cost", old, new, tmp_path), 0, 5000)
