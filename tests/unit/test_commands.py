# SPDX-License-Identifier: GPL-2.0-only
"""The command line: help, refusals, exit statuses, completion, closed pipes; what each command is told."""

import json
import os
import resource
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from tailgate import main as cli
from tailgate.base.paths import ROOT
from tailgate.guest import host, kernels
from tailgate.guest.host import Finding
from tailgate.guest.labels import LABELS
from tailgate.spec import experiment
from tailgate.upkeep.app import app as maintainers
from tailgate.upkeep.claims import command as claims

RUN = "import sys; from tailgate.main import main; sys.exit(main(sys.argv[1:]))"


def commands(group: TyperGroup, before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words of every command."""
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            yield from commands(command, (*before, name))
        else:
            yield (*before, name)


def every_command() -> list[tuple[str, ...]]:
    group = get_command(cli.app)
    assert isinstance(group, TyperGroup)
    return sorted(commands(group))


def refused(arguments: Sequence[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one line that a refused command prints."""
    assert cli.main(arguments) == 2
    captured = capsys.readouterr()
    [line] = captured.err.splitlines()
    assert not captured.out
    assert line.startswith("tailgate: ")
    return line.removeprefix("tailgate: ")


def test_the_commands_that_there_are() -> None:
    assert {" ".join(words) for words in every_command()} == {
        "list",
        "knobs",
        "run",
        "report",
        "simulate",
        "tune",
        "vm",
        "watch",
        "doctor",
        "new experiment",
        *("claims", "bench", "calibrate", "draw", "blktests"),
    }


@pytest.mark.parametrize("words", [(), ("new",), *every_command()], ids=" ".join)
def test_help_teaches_in_80_columns(
    words: Sequence[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert cli.main([*words, "--help"]) == 0
    captured = capsys.readouterr()
    assert not captured.err
    assert max(map(len, captured.out.splitlines())) <= 80
    if words != ("new",):
        examples = captured.out.partition("Examples:")[2].partition("Exit status: 0 done, 1 ")[0]
        assert f"tailgate {' '.join(words)}".rstrip() in examples


def test_maintainers_commands_stand_apart(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0
    users, _, upkeep = capsys.readouterr().out.partition("─ Maintainers ─")
    assert " run " in users
    assert " claims " not in users
    assert " claims " in upkeep


@pytest.mark.parametrize("words", every_command(), ids=" ".join)
def test_an_unknown_option_is_refused_before_anything_is_done(
    words: Sequence[str], capsys: pytest.CaptureFixture[str]
) -> None:
    line = refused([*words, "--no-such"], capsys)
    assert line == f"no such option: --no-such; `tailgate {' '.join(words)} --help` tells more"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "missing command; `tailgate --help`"),
        (["--no-such"], "no such option: --no-such; `tailgate --help`"),
        (["simulat"], "no such command 'simulat'. Did you mean 'simulate'? `tailgate --help`"),
        (["run"], "missing argument 'EXPERIMENT'; `tailgate run --help`"),
        (["list", "more"], "got unexpected extra argument(s) (more); `tailgate list --help`"),
        (["run", "k2/fig8", "--target"], "option '--target' requires an argument; "),
        (
            ["run", "k2/fig8", "--jobs", "0"],
            "--jobs: expected a number greater than or equal to 1, got '0'; ",
        ),
        (["run", "k2/fig8", "--jobs", "few"], "--jobs: expected a valid integer, got 'few'; `tailgate run"),
        (["run", "k2/fig8", "--kernel", "new"], "--kernel: expected stable, backports, stable-rt or backp"),
        (["run", "k2/fig8", "--seeds", "3000000000"], "--seeds: expected numbers from 1 to 2147483648"),
        (
            ["run", "k2/fig8", "--seeds", "1,x"],
            "--seeds: expected numbers from 1 to 2147483648, such as 1,2,3, got '1,x'",
        ),
        (["run", "k2/fig8", "--quick", "--claims"], "--quick, --full and --claims exclude each other"),
        (["run", "k2/fig8", "--out", "/dev/null/x"], "--out: expected a folder that is writable, or can"),
        (["bench", "--out", "/no/such/file"], "--out: expected a file in a folder that is there and writ"),
        (["bench", "--only", "lines", "--only", "x"], "--only: expected lines, scale, threads, simul"),
        (["vm", "--memory", "64"], "--memory: expected a number greater than or equal to 256, got '64'; "),
        (["vm", "--drive", "nope"], "there is no drive nope; expected "),
        (["draw", "first"], "SEED: expected a valid integer, got 'first'; "),
        (["simulate", "/no/such.fio"], "/no/such.fio: expected a readable fio job file"),
        (["new", "experiment", "a/b"], "'a/b' is no name: expected letters"),
        (["new", "experiment", "x", "--from", "/no/such.fio"], "/no/such.fio: expected a readable fio job"),
    ],
)
def test_a_mistake_is_told_in_one_line(
    arguments: Sequence[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refused(arguments, capsys).startswith(message)


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    stated = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"tailgate {stated}\n"


def test_interrupted(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupt() -> list[str]:
        raise KeyboardInterrupt

    monkeypatch.setattr(experiment, "names", interrupt)
    assert cli.main(["list"]) == 130
    assert capsys.readouterr().err == "tailgate: stopped\n"
    monkeypatch.setattr(experiment, "find", lambda _: interrupt())
    assert cli.main(["run", "k2/fig8"]) == 130
    assert capsys.readouterr().err == "tailgate: stopped; the same command goes on where this one ended\n"


def test_a_full_disk_is_told_in_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", RUN, "list"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 1
    assert done.stderr == "tailgate: a write: No space left on device\n"


def test_a_job_that_is_too_large_is_told_in_one_line(tmp_path: Path) -> None:
    job = tmp_path / "large.fio"
    job.write_text(
        "[a]\nfilename=/dev/nvme0n1\ndirect=1\nioengine=libaio\nrw=randread\nruntime=1\ntime_based\n"
    )
    with job.open("a") as file:
        file.write("numjobs=4096\niodepth=65535\n")
    done = subprocess.run(
        [sys.executable, "-c", RUN, "simulate", str(job)],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (2**31, 2**31)),
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},  # each of its threads takes memory, one for each CPU
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("tailgate: out of memory; expected ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["when it ends", "at the first line"])
@pytest.mark.parametrize("arguments", [["list"], ["--help"]])
def test_a_closed_pipe_ends_quietly(
    arguments: list[str], unbuffered: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    command = [sys.executable, "-c", RUN, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1


@pytest.mark.parametrize(
    ("arguments", "absent"),
    [
        (["--help"], ["numpy", "pyarrow", "pydantic", "plotly", "scipy", "tailgate.targets"]),
        (["list"], ["numpy", "pyarrow", "plotly", "scipy", "tailgate.targets"]),
    ],
)
def test_the_first_commands_of_a_user_import_little(arguments: list[str], absent: list[str]) -> None:
    """Imports are tested and not time, because time depends on the host."""
    code = (
        "import sys; from tailgate.main import main; main(sys.argv[1:]); print(*sys.modules, file=sys.stderr)"
    )
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert not set(absent) & set(done.stderr.split())


# --- completion -------------------------------------------------------------------------------------------


def completed(line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The completions that bash offers at the end of a line."""
    monkeypatch.setenv("_TAILGATE_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
    with pytest.raises(SystemExit) as ended:
        cli.main([])
    assert not ended.value.code
    return capsys.readouterr().out.split()


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("tailgate sim", ["simulate"]),
        ("tailgate run k2/table", ["k2/table1", "k2/table2", "k2/table3"]),
        ("tailgate run k2/fig8 --drive fore", ["foresee-emmc"]),
        ("tailgate run k2/fig8 --schedulers k2-", ["k2-8", "k2-16", "k2-32"]),
        ("tailgate run k2/fig8 --schedulers k2-8,k2-", ["k2-8,k2-16", "k2-8,k2-32"]),
        ("tailgate run k2/fig8 --kernel ", list(LABELS)),
        ("tailgate run no/such --schedulers k", []),
        ("tailgate simulate experiments/k2/fig1", ["experiments/k2/fig11.fio"]),
        ("tailgate simulate experim", ["experiments/"]),
    ],
)
def test_completion(
    line: str, offered: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    assert completed(line, monkeypatch, capsys) == offered


def test_the_shell_is_told_how_to_complete(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("typer.completion._get_shell_name", lambda: "bash")
    with pytest.raises(SystemExit) as ended:
        cli.main(["--show-completion"])
    assert ended.value.code == 0
    assert "complete -o default -F _tailgate_completion tailgate" in capsys.readouterr().out


# --- what each command is told ----------------------------------------------------------------------------


@pytest.mark.parametrize(("status", "ready"), [("ok", True), ("warn", True), ("missing", False)])
def test_doctor(
    status: host.Status, ready: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A machine is ready if nothing is missing for guests, even if its own kernel lacks something."""
    own = Finding("host", "modules", "missing", "this kernel loads no modules", "boot another [one]")
    monkeypatch.setattr(host, "virtual_machines", lambda: [Finding("vm", "fio", status, "fio-3.33")])
    monkeypatch.setattr(host, "this_kernel", lambda root: [own])
    monkeypatch.setattr(host, "drive_findings", lambda root: [])
    monkeypatch.setattr(host, "drives", lambda root: [])
    assert cli.main(["doctor"]) == (0 if ready else 1)
    out = capsys.readouterr().out
    assert [word in out for word in ("fio-3.33", "boot another [one]")] == [True, True]
    assert cli.main(["doctor", "--json"]) == (0 if ready else 1)
    answer = json.loads(capsys.readouterr().out)
    assert answer["ready"] == ready
    assert [f["status"] for f in answer["findings"]] == [status, "missing"]


def test_claims(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[list[str], bool]] = []

    def measure(steps: Sequence[str], fresh: bool) -> bool:
        told.append((list(steps), fresh))
        return len(told) == 1

    monkeypatch.setattr(claims, "main", measure)
    assert cli.main(["claims"]) == 0
    assert cli.main(["claims", "figure_8", "--fresh", "writes"]) == 1
    assert told == [([], False), (["figure_8", "writes"], True)]


@pytest.mark.parametrize(("option", "function"), [("--check", "judge"), ("--docs", "write_tables")])
def test_claims_that_measure_nothing(
    option: str, function: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told: list[str] = []
    monkeypatch.setattr(claims, "main", lambda *_: pytest.fail("measured"))
    monkeypatch.setattr(claims, function, lambda: told.append(function))
    assert cli.main(["claims", option]) == (1 if option == "--check" else 0)
    assert told == [function]
    for more in ("figure_8", "--fresh"):
        assert refused(["claims", option, more], capsys).startswith("--check and --docs measure nothing")


def test_a_step_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(["claims", "figure_9"], capsys).startswith(
        "there is no topic or step figure_9; expected k2, "
    )


@pytest.mark.parametrize(
    ("module", "arguments", "status", "begins"),
    [
        ("tailgate.upkeep", ["draw", "1"], 0, "# SPDX"),
        ("tailgate.upkeep", ["run", "k2/fig8"], 2, "tailgate: no such command 'run'"),
        ("tailgate.guest.modules", ["newest"], 2, "tailgate: no guest kernel is called 'newest': use stable"),
        ("tailgate.guest.kernels", ["--fresh"], 2, "tailgate: no such option: --fresh"),
    ],
)
def test_what_make_and_maintainers_call(module: str, arguments: list[str], status: int, begins: str) -> None:
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == status
    assert (done.stderr or done.stdout).startswith(begins)
    assert len(done.stderr.splitlines()) <= 1


def test_kernels_are_asked_for_by_label(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    told: list[tuple[list[str], bool]] = []

    def resolve(labels: list[str], progress: object, *, refresh: bool) -> list[kernels.Kernel]:
        told.append((labels, refresh))
        return [kernels.Kernel(label, "6.1", *([tmp_path] * 4)) for label in labels]

    monkeypatch.setattr(kernels, "resolve", resolve)
    assert kernels.main() == 0
    assert kernels.main(["stable", "stable-kasan"], refresh=True) == 0
    assert told == [(["backports"], False), (["stable", "stable-kasan"], True)]
    assert capsys.readouterr().out == "backports: 6.1\nstable: 6.1\nstable-kasan: 6.1\n"


def test_maintainers_commands_alone_are_those_of_tailgate() -> None:
    group = get_command(maintainers)
    assert isinstance(group, TyperGroup)
    assert set(commands(group)) <= set(every_command())
