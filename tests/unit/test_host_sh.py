# SPDX-License-Identifier: GPL-2.0-only
"""The set-up script's reading of apt's sources, and the stages that make's targets are made of."""

import re
import subprocess
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]

DEB822 = """\
# a comment
Types: deb deb-src
URIs: http://mirror.example/debian http://second.example/debian
Suites: bookworm bookworm-updates
Components: main contrib
Signed-By: /usr/share/keyrings/debian.gpg

Types: deb
URIs: http://mirror.example/debian-security
Suites: bookworm-security
Components: main
"""
EMBEDDED_KEY = """\
Types: deb
URIs: http://mirror.example/debian
Suites: bookworm
Components: main
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 mQINBF
 -----END PGP PUBLIC KEY BLOCK-----
"""


def print_list(
    etc: Path, files: dict[str, str], what: str = "print-list"
) -> subprocess.CompletedProcess[str]:
    for name, text in files.items():
        path = etc / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    command = ["sh", "setup/host.sh", what, str(etc), "bookworm"]
    return subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)


def fields(text: str) -> dict[str, str]:
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return dict(line.split(": ", 1) for line in lines)


@pytest.mark.parametrize(
    ("files", "uri", "key"),
    [
        ({"sources.list": "deb http://a.example/debian bookworm main\n"}, "http://a.example/debian", None),
        (
            {
                "sources.list": "# deb http://off.example bookworm main\n"
                "deb-src http://src.example bookworm main\n"
                "deb http://other.example bookworm contrib\n"
                "deb [ arch=amd64 signed-by=/k.gpg ] http://b.example/debian bookworm contrib main # why\n"
            },
            "http://b.example/debian",
            "/k.gpg",
        ),
        (
            {"sources.list.d/debian.sources": DEB822},
            "http://mirror.example/debian",
            "/usr/share/keyrings/debian.gpg",
        ),
        (
            {
                "sources.list.d/a.sources": DEB822.replace("Types", "Enabled: no\nTypes", 1),
                "sources.list.d/b.list": "deb mirror+file:///etc/apt/mirrors stable main\n",
            },
            "mirror+file:///etc/apt/mirrors",
            None,
        ),
    ],
    ids=["one line", "one line with options", "deb822", "switched off"],
)
def test_backports_come_from_the_machines_own_mirror(
    tmp_path: Path, files: dict[str, str], uri: str, key: str | None
) -> None:
    done = print_list(tmp_path, files)
    assert done.returncode == 0, done.stderr
    expected = {"Types": "deb", "URIs": uri, "Suites": "bookworm-backports", "Components": "main"}
    assert fields(done.stdout) == expected | ({"Signed-By": key} if key else {})


def test_embedded_key_is_kept(tmp_path: Path) -> None:
    done = print_list(tmp_path, {"sources.list.d/debian.sources": EMBEDDED_KEY})
    assert done.stdout.partition("Signed-By:")[2].split() == EMBEDDED_KEY.partition("Signed-By:")[2].split()
    assert "\n .\n" in done.stdout


def test_no_mirror_of_this_release(tmp_path: Path) -> None:
    assert print_list(tmp_path, {"sources.list": "deb http://a.example trixie main\n"}).returncode == 1


def test_a_root_comes_from_the_release_its_updates_and_security(tmp_path: Path) -> None:
    backports = DEB822.replace("bookworm bookworm-updates", "bookworm-backports bookworm")
    done = print_list(tmp_path, {"sources.list.d/debian.sources": backports}, "print-mirrors")
    assert done.returncode == 0, done.stderr
    stanzas = [fields(stanza) for stanza in done.stdout.strip().split("\n\n")]
    key = {"Signed-By": "/usr/share/keyrings/debian.gpg"}
    common = {"Types": "deb", "Components": "main"}
    assert stanzas == [
        common | {"URIs": "http://mirror.example/debian", "Suites": "bookworm"} | key,
        common | {"URIs": "http://second.example/debian", "Suites": "bookworm"} | key,
        common | {"URIs": "http://mirror.example/debian-security", "Suites": "bookworm-security"},
    ]


def test_an_embedded_key_reaches_the_root(tmp_path: Path) -> None:
    done = print_list(tmp_path, {"sources.list.d/debian.sources": EMBEDDED_KEY}, "print-mirrors")
    assert done.stdout.partition("Signed-By:")[2].split() == EMBEDDED_KEY.partition("Signed-By:")[2].split()
    assert "\n .\n" in done.stdout


def test_a_root_needs_a_mirror(tmp_path: Path) -> None:
    files = {"sources.list": "deb http://a.example trixie main\n"}
    done = print_list(tmp_path, files, "print-mirrors")
    assert done.returncode == 1
    assert "no mirror of bookworm" in done.stderr


def stages(cache: Path, *specification: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "setup/stages.sh", "target", *specification],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin", "TAILGATE_CACHE": str(cache)},
    )


def test_stages_say_what_is_left_and_learn(tmp_path: Path) -> None:
    done = stages(tmp_path, "100|first|echo one", "20|second|echo two")
    assert (done.returncode, done.stdout) == (0, "one\ntwo\n")
    assert re.search(r"\[target 1/2\] first \(0:0\d so far, about 2:00 left\)", done.stderr)
    assert "[target 2/2] second" in done.stderr
    again = stages(tmp_path, "100|first|true", "20|second|true")
    assert re.search(r"about 0:0\d left", again.stderr.splitlines()[0])


def test_a_failed_stage_ends_the_target_with_its_status(tmp_path: Path) -> None:
    done = stages(tmp_path, "1|first|exit 7", "1|second|echo two")
    assert (done.returncode, done.stdout) == (7, "")
    assert "[target 1/2] first failed" in done.stderr
