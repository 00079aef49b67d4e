# SPDX-License-Identifier: GPL-2.0-only
"""What the documents refer to exists: links, anchors, make targets, subcommands of tailgate, paths."""

import functools
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.documents import lines, listed
from tests.unit.programs import ROOT

#: Folders whose files documents name by their path from the root of the repository.
FOLDERS = (
    "claims",
    "docs",
    "drives",
    "experiments",
    "flash",
    "kernel",
    "machines",
    "sched",
    "setup",
    "sim",
    "src",
    "tests",
)
#: Paths that a command makes, or that stand for one that the reader chooses.
MADE = re.compile(r"[<>*$\[]|\bNAME\b|\.\.\.")
LINK = re.compile(r"\[[^\]\[]*\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`]+)`")
CLAIMS = re.compile(r"^<!-- claims: ([a-z0-9-]+) -->$")


def pages() -> list[Path]:
    return listed("*.md")


each_page = pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))


def code(page: Path) -> Iterator[tuple[int, str]]:
    """Each piece of code: inline, also if it continues on the next line; a line of a block."""
    prose = []
    for number, line, is_block in lines(page):
        if is_block:
            yield number, line.strip()
        prose.append("" if is_block else line)
    text = "\n".join(prose)
    for found in CODE.finditer(text):
        yield text.count("\n", 0, found.start()) + 1, " ".join(found[1].split())


@functools.cache
def anchors(page: Path) -> frozenset[str]:
    """Anchors of a page's headings, as GitHub makes them."""
    made: set[str] = set()
    for _, line, is_block in lines(page):
        heading = re.match(r"#+ (.*)", line)
        if heading and not is_block:
            text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1]).strip().lower()
            anchor = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
            repeated = sum(
                a == anchor or re.fullmatch(re.escape(anchor) + r"-\d+", a) is not None for a in made
            )
            made.add(f"{anchor}-{repeated}" if repeated else anchor)
    return frozenset(made)


@each_page
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for number, line, is_block in lines(page):
        for target in [] if is_block else LINK.findall(CODE.sub("", line)):
            if re.match(r"[a-z]+:", target):
                continue
            path, _, anchor = target.partition("#")
            to = (page.parent / path).resolve() if path else page
            if not to.exists() or (anchor and anchor not in anchors(to)):
                broken.append(f"{page.relative_to(ROOT)}:{number}: {target}")
    assert not broken


def named(page: Path, pattern: str) -> Iterator[tuple[str, str]]:
    """Where a page's code matches, and the pattern's last group."""
    for number, text in code(page):
        for found in re.finditer(pattern, text):
            yield f"{page.relative_to(ROOT)}:{number}: {found[0].strip()}", found.groups()[-1]


@functools.cache
def make_targets() -> frozenset[str]:
    rules = re.findall(r"^([a-z][\w -]*):(?!=)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    return frozenset(name for rule in rules for name in rule.split())


@each_page
def test_make_targets_exist(page: Path) -> None:
    found = named(page, r"(?:^|[;&|] *)make(?: +-[sj]\d*| +[A-Z_]+=\S+)* +([a-z][\w-]*)")
    assert not [where for where, target in found if target not in make_targets()]


def test_make_check_names_what_it_leaves_out_by_targets_that_exist() -> None:
    left_out = re.search(
        r"^define NOT_TESTED$(.*?)^endef$", (ROOT / "Makefile").read_text(), re.DOTALL | re.M
    )
    assert left_out
    named = set(re.findall(r"\bmake ([a-z-]+)", left_out[1]))
    assert {"demo", "swarm", "vm-test-all"} <= named <= make_targets()


@functools.cache
def shown(*arguments: str) -> str:
    """What a command of tailgate prints."""
    command = [str(Path(sys.executable).with_name("tailgate")), *arguments]
    environment = os.environ | {"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


@each_page
def test_subcommands_exist(page: Path) -> None:
    commands = re.findall(r"^[ │]+([a-z]+)(?:  +\S|$)", shown("--help"), re.MULTILINE)
    found = named(page, r"(?:^|[;&|] *|\.venv/bin/)tailgate +([a-z]+)\b")
    assert not [where for where, command in found if command not in commands]


def help_of(command: str, *words: str) -> str:
    """A subcommand's help, and that of its own subcommand if the first word is one."""
    text = shown(command, "--help")
    nested = (
        words and words[0].isalpha() and re.search(rf"^[ │]+{re.escape(words[0])}  +\S", text, re.MULTILINE)
    )
    return text + (shown(command, words[0], "--help") if nested else "")


@each_page
def test_options_exist(page: Path) -> None:
    missing = []
    for where, arguments in named(page, r"(?:^|[;&|] *|\.venv/bin/)tailgate +([a-z]+\b[^|;&#>]*)"):
        words = arguments.split()
        options = {word.partition("=")[0] for word in words if word.startswith("--")}
        missing += [where for option in options if not re.search(rf"{option}\b", help_of(*words))]
    assert not missing


@each_page
def test_experiments_exist(page: Path) -> None:
    found = named(page, r"\btailgate run ([\w-]+/[\w-]+)(?![\w./-])")
    assert not [
        where
        for where, name in found
        if not MADE.search(name) and not (ROOT / f"experiments/{name}.toml").exists()
    ]


@each_page
def test_paths_exist(page: Path) -> None:
    """Paths that begin with a folder of the repository, from its root or from the page's own folder."""
    found = named(page, rf"(?<![\w/.~$}}-])((?:{'|'.join(FOLDERS)})/[\w./*<>\[\]-]*[\w*>\]])")
    assert not [
        where
        for where, path in found
        if not MADE.search(path) and not any((place / path).exists() for place in (ROOT, page.parent))
    ]


@each_page
def test_files_in_tables_exist(page: Path) -> None:
    """A column headed `file` names files beside the page; * and [..] are patterns."""
    missing = []
    heading = before = ""
    for number, line, is_code in lines(page):
        if not line.startswith("|") or is_code:
            before = ""
            continue
        heading = heading if before else line.split("|")[1].strip()
        before = line
        if heading == "file":
            missing += [
                f"{page.relative_to(ROOT)}:{number}: {name}"
                for name in CODE.findall(line.split("|")[1])
                if "<" not in name and not any(page.parent.glob(name))
            ]
    assert not missing


def test_pages_that_sources_name_exist() -> None:
    sources = listed("*.py", "*.[ch]", "*.[ch]pp", "*.toml", "*.fio", "*.sh", "Makefile")
    name = re.compile(r"\b(?:docs|tests|sim|sched|kernel)/[\w/-]+\.md\b")
    assert not [
        f"{source.relative_to(ROOT)}: {page}"
        for source in sources
        for page in name.findall(source.read_text())
        if not (ROOT / page).exists()
    ]


def test_tables_of_figures_have_unique_names_and_an_end() -> None:
    seen: dict[str, Path] = {}
    for page in pages():
        name = ""
        for number, line, _ in lines(page):
            begins = CLAIMS.match(line)
            where = f"{page.relative_to(ROOT)}:{number}"
            if begins:
                assert not name, f"{where}: {name} has no end"
                name = begins[1]
                assert name not in seen, f"{where}: {name} is in {seen[name]} too"
                seen[name] = page
            elif line == "<!-- end -->":
                assert name, f"{where}: nothing has begun"
                name = ""
            else:
                assert not line.startswith("<!-- claims"), f"{where}: a name is of a-z, 0-9 and -"
        assert not name, f"{page}: {name} has no end"


@each_page
def test_page_has_its_licence_and_one_title(page: Path) -> None:
    assert page.read_text().startswith("<!-- SPDX-License-Identifier: ")
    assert sum(line.startswith("# ") for _, line, is_block in lines(page) if not is_block) == 1
