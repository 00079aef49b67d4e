# SPDX-License-Identifier: GPL-2.0-only
"""Models in Promela of what MQFQ's queues share without a lock (tests/models), searched exhaustively by spin.

Each model says which functions of sched/ it stands for, and what it checks. A broken model must be found out.
`make models` searches the large cases too, which is of use when a model has changed.
"""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.unit.programs import ROOT, WATCHDOG_S

MODELS = ROOT / "tests/models"
MEMORY_MIB = 2048
DEPTH = 10_000


@dataclass(frozen=True)
class Case:
    """A search of a model: for violated assertions, or for a schedule that breaks the claim `goes`."""

    model: str
    name: str
    defines: tuple[str, ...] = ()
    claim: bool = False
    large: bool = False

    def __str__(self) -> str:
        return f"{self.model}-{self.name}"


def tokens(requests0: int, requests1: int, d: int) -> tuple[str, ...]:
    """Requests of two queues: 1 for each of real time, 4 for each fair one, 16 for each idle one."""
    return (f"-DREQUESTS0={requests0}", f"-DREQUESTS1={requests1}", f"-DD={d}")


CASES = [
    Case("mindicator", "three-writers"),
    Case("tokens", "idle", tokens(4, 16, 1)),
    Case("tokens", "urgent-beside-a-stalled-cpu", (*tokens(4, 1, 1), "-DSTALLS")),
    Case("tokens", "one-waits-on", tokens(8, 4, 1)),
    Case("tokens", "two-tokens", tokens(4, 4, 2)),
    Case("tokens", "urgent", tokens(5, 4, 1), large=True),
    Case("tokens", "two-urgent", tokens(2, 4, 1), large=True),
    Case("tokens", "urgent-of-two-tokens", tokens(1, 4, 2), large=True),
    Case("tokens", "a-lone-waiter-goes", tokens(0, 4, 1), claim=True),
    Case("tokens", "all-go", tokens(4, 4, 1), claim=True),
    Case("tokens", "all-go-beside-urgent", tokens(1, 4, 1), claim=True, large=True),
    Case("wheel", "two-publishers"),
    Case("wheel", "t-changes", ("-DSET_T",)),
    Case("wheel", "all-go", claim=True),
    Case("wheel", "all-go-t-changes", ("-DSET_T",), claim=True),
]

#: Ways to break a model: model, name, the case that shows it, what stands there, what stands there instead.
MUTATIONS = [
    ("mindicator", "one-refresh", "three-writers", ":: else -> has_failed = true", ":: else -> break"),
    ("mindicator", "blind-write", "three-writers", ":: current[node] >> leaf & 1 ->", ":: true ->"),
    (
        "mindicator",
        "equal-is-not-written",
        "three-writers",
        "word[node] = least;\n\t\t\t\tcurrent[node] = 0;",
        "current[node] = (word[node] == least -> current[node] : 0);\n\t\t\t\tword[node] = least;",
    ),
    (
        "mindicator",
        "node-read-last",
        "three-writers",
        "d_step {\n\t\tif\n\t\t:: has_failed -> read_node(node)\n\t\t:: else\n\t\tfi;\n"
        "\t\tleast = NONE\n\t   };\n"
        "\t\ttake_in(below);\n\t\ttake_in(below + 1);",
        "least = NONE;\n\t\ttake_in(below);\n\t\ttake_in(below + 1);\n\t\tread_node(node);",
    ),
    (
        "mindicator",
        "next-node-read-early",
        "three-writers",
        "\t:: leaf != 2 -> read_node(NODE); refresh(NODE, 0)\n\t:: else\n\tfi;\n\tread_node(ROOT);\n",
        "\t:: leaf != 2 -> read_node(NODE); read_node(ROOT); refresh(NODE, 0)\n"
        "\t:: else -> read_node(ROOT)\n\tfi;\n",
    ),
    ("mindicator", "time-falls", "three-writers", ":: vt == base ->", ":: true ->"),
    ("tokens", "never-steals", "two-tokens", ":: else ->\n\t\tmqfq_find_token(own);\n", ":: else ->\n"),
    (
        "tokens",
        "does-not-look-again",
        "urgent",
        ":: atomic { waits[me] != NONE && !given[me] -> break }",
        ":: atomic { waits[me] != NONE -> break }",
    ),
    (
        "tokens",
        "sleeps-when-what-it-found-was-taken",
        "urgent-of-two-tokens",
        ":: atomic { waits[me] != NONE && !given[me] -> break }",
        ":: atomic { !given[me] -> break }",
    ),
    (
        "tokens",
        "urgent-takes-nothing-from-others",
        "urgent-beside-a-stalled-cpu",
        ":: !stolen && of_level < FAIR ->",
        ":: false ->",
    ),
    (
        "tokens",
        "given-after-an-urgent-one-looked",
        "urgent-beside-a-stalled-cpu",
        ":: at != NONE && at != RT ->",
        ":: false ->",
    ),
    (
        "tokens",
        "blocked-after-announcing",
        "urgent",
        "\t\trunnable = runnable & ~BIT(me);\n"
        "\t\tif\n\t\t:: waits[me] == NONE || !(waiting[own] & BIT(me)) -> announce()\n\t\t:: else\n\t\tfi;\n"
        "\t\tif\n\t\t:: atomic { waits[me] != NONE && !given[me] -> break }\n",
        "\t\tif\n\t\t:: waits[me] == NONE || !(waiting[own] & BIT(me)) -> announce()\n\t\t:: else\n\t\tfi;\n"
        "\t\tif\n\t\t:: !given[me] -> runnable = runnable & ~BIT(me); break\n",
    ),
    (
        "tokens",
        "does-not-say-that-it-waits-again",
        "urgent",
        "waits[me] == NONE || !(waiting[own] & BIT(me))",
        "waits[me] == NONE",
    ),
    (
        "tokens",
        "runs-before-it-has-enough",
        "two-urgent",
        "\t\t\twaiting_remove(to, RT)\n\t\t:: atomic { else -> has = 0 }\n\t\tfi\n",
        "\t\t\tatomic { mqfq_kick(to) } waiting_remove(to, RT);\n\t\t\tto = NONE; at = 0; break\n"
        "\t\t:: atomic { else -> has = 0 }\n\t\tfi\n",
    ),
    ("tokens", "given-and-not-run", "idle", "to_run = to_run | BIT(queue)", "skip"),
    (
        "tokens",
        "put-without-a-look",
        "all-go",
        "\t\t\tmqfq_next_waiter();\n\t\t\tif\n\t\t\t:: to == NONE\n",
        "\t\t\tif\n\t\t\t:: true\n",
    ),
    (
        "tokens",
        "keeps-what-it-was-given",
        "urgent-of-two-tokens",
        ":: given[me] && waits[me] == NONE -> mqfq_give_back()",
        ":: given[me] && waits[me] == NONE",
    ),
    ("tokens", "idle-sleeps-on", "idle", ":: level == IDLE && !published ->", ":: false ->"),
    (
        "tokens",
        "taken-in-two-steps",
        "urgent-beside-a-stalled-cpu",
        ":: atomic { waits[me] == NONE && tokens[me] -> tokens[me]--; got = true; break }",
        ":: waits[me] == NONE && tokens[me] -> tokens[me]--; got = true; break",
    ),
    (
        "wheel",
        "time-is-not-read-again",
        "two-publishers",
        ":: IS_NEAR\n\t\t\t:: else ->\n\t\t\t\tif\n\t\t\t\t:: HAS_COME(span, bits)\n",
        ":: false\n\t\t\t:: else ->\n\t\t\t\tif\n\t\t\t\t:: false\n",
    ),
    (
        "wheel",
        "only-last-bucket",
        "two-publishers",
        "spans > BUCKETS -> BUCKETS : spans",
        "spans > 1 -> 1 : spans",
    ),
    ("wheel", "woken-is-not-run", "two-publishers", "runnable = true; to_run = true", "runnable = true"),
    (
        "wheel",
        "blocked-after-the-bit",
        "t-changes",
        "runnable = false;\n\t\t\tchoose_span();\n\t\t\twheel[span % BUCKETS] = true;\n",
        "choose_span();\n\t\t\twheel[span % BUCKETS] = true;\n\t\t\trunnable = false;\n",
    ),
    ("wheel", "new-t-wakes-nobody", "t-changes", "byte at;", "byte at = BUCKETS;"),
    ("wheel", "new-span-is-not-noticed", "t-changes", ":: atomic { shift == bits && t", ":: atomic { t"),
    ("wheel", "new-t-is-not-noticed", "t-changes", "shift == bits && t == ahead ->", "shift == bits ->"),
]


def search(case: Case, text: str, folder: Path) -> str:
    """Let spin search a model exhaustively; an empty answer is success."""
    assert shutil.which("spin"), "spin is missing: run `make setup-check`"
    (folder / "model.pml").write_text(text)
    made = subprocess.run(
        ["spin", *case.defines, "-a", "model.pml"], cwd=folder, capture_output=True, text=True
    )
    assert made.returncode == 0, made.stdout + made.stderr
    flags = [] if case.claim else ["-DSAFETY", "-DNOCLAIM"]
    # An optimizing compiler takes longer than the search.
    compile_pan = ["gcc", "-w", f"-DMEMLIM={MEMORY_MIB}", *flags, "pan.c", "-o", "pan"]
    subprocess.run(compile_pan, cwd=folder, check=True)
    run_pan = ["./pan", f"-m{DEPTH}", "-w22", *(["-a", "-f"] if case.claim else [])]
    done = subprocess.run(run_pan, cwd=folder, capture_output=True, text=True, timeout=WATCHDOG_S)
    answer = done.stdout + done.stderr
    complete = not re.search("not completed|max search depth|truncated", answer)
    return "" if done.returncode == 0 and complete and "errors: 0" in answer else answer


def read_model(name: str) -> str:
    return (MODELS / f"{name}.pml").read_text()


@pytest.mark.parametrize(
    "case", [c for c in CASES if not c.large or "TAILGATE_LARGE_MODELS" in os.environ], ids=str
)
def test_no_schedule_breaks_a_model(case: Case, tmp_path: Path) -> None:
    assert search(case, read_model(case.model), tmp_path) == ""


@pytest.mark.parametrize(
    ("model", "shown_by", "old", "new"),
    [(m[0], *m[2:]) for m in MUTATIONS],
    ids=[f"{m[0]}-{m[1]}" for m in MUTATIONS],
)
def test_a_broken_model_is_found_out(model: str, shown_by: str, old: str, new: str, tmp_path: Path) -> None:
    text = read_model(model)
    assert text.count(old) == 1, f"{old!r} stands in {text.count(old)} places: mend the mutation"
    (case,) = (case for case in CASES if str(case) == f"{model}-{shown_by}")
    assert re.search("errors: [1-9]", search(case, text.replace(old, new), tmp_path))


@pytest.mark.parametrize("model", sorted({c.model for c in CASES}))
def test_what_a_model_stands_for_is_there(model: str) -> None:
    """A function that a model names must exist: if it is renamed or removed, the model has to be checked."""
    names = set(
        re.findall(r"\b([a-z_]+)\(\)", " ".join(re.findall(r"/\*.*?\*/", read_model(model), re.DOTALL)))
    )
    sources = "".join(path.read_text() for path in (ROOT / "sched").rglob("*.[ch]"))
    assert names
    assert {name for name in names if f"{name}(" not in sources} == set()
