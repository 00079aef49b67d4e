# SPDX-License-Identifier: GPL-2.0-only
"""The verdicts on the Kyber paper's observations: from invented claims, and those of this checkout."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from tailgate.base.paths import DRIVES
from tailgate.spec import drive
from tailgate.spec.toml import parse_toml
from tailgate.upkeep.claims import command, model, observations, results, tables
from tailgate.upkeep.claims.model import Topic
from tailgate.upkeep.claims.observations import EXPLAINED, NEITHER, REPRODUCED
from tailgate.upkeep.claims.quantity import exact
from tailgate.upkeep.claims.results import Figure, Result, Source
from tailgate.upkeep.claims.steps import OF_RESULTS, by_topic, kyber

#: The first observation has two claims; the eleventh begins like the first.
CLAIMS = """
[[claim]]
id = "kyber-o1"
sentence = "It is fast."
results = ["o-1/fast"]
bound = ">= 1"
why = "-"
since = "abc1234"

[[claim]]
id = "kyber-o1-price"
sentence = "And it costs."
results = ["o-1/*/price"]
bound = "<= 0.5"
why = "-"
since = "abc1234"

[[claim.missed]]
results = ["o-1/drained/price"]
because = "the drive drains at one rate"
property = "drain_kib_ns"

[[claim.missed]]
results = ["o-1/slow/price"]
because = "the reader is slow"

[[claim]]
id = "kyber-o11"
sentence = "It is slow."
results = ["o-11/slow"]
bound = "<= 1"
why = "-"
since = "abc1234"
"""


def stored(values: Mapping[str, float]) -> dict[str, Result]:
    source = Source("tailgate run x", "sim", "virtual", (1,))
    figures = [Figure(name, exact(value), source) for name, value in values.items()]
    return results.by_id({"x": {"step": results.step_of(figures, "abc1234", "2026-11-23")}})


@pytest.mark.parametrize(
    ("values", "verdict", "words"),
    [
        ({"o-1/fast": 2, "o-1/drained/price": 0.4}, REPRODUCED, "reproduced"),
        ({"o-1/fast": 2, "o-1/drained/price": 0.6}, EXPLAINED, "explained by `drain_kib_ns`"),
        ({"o-1/fast": 2, "o-1/drained/price": 0.6, "o-1/slow/price": 0.6}, NEITHER, "neither"),
        ({"o-1/fast": 0.5, "o-1/drained/price": 0.4}, NEITHER, "neither"),
        ({"o-1/fast": 2}, NEITHER, "neither"),
        ({"o-11/slow": 0.5}, NEITHER, "neither"),
    ],
)
def test_an_observation_is_reproduced_or_explained_by_the_drive(
    values: Mapping[str, float], verdict: int, words: str, tmp_path: Path
) -> None:
    """A reason that names no property of the drive is none here, and neither is what was not measured."""
    (tmp_path / "x.toml").write_text(CLAIMS)
    topics = {"x": parse_toml(tmp_path / "x.toml", Topic)}
    found = observations.verdicts(topics, stored(values))
    assert found["o-1"] == verdict
    assert observations.words(topics, "o-1", verdict) == words
    assert found["o-11"] == (REPRODUCED if "o-11/slow" in values else NEITHER)
    assert set(found) == set(observations.NAMES)


def test_a_cell_says_the_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.toml").write_text(CLAIMS)
    topics = {"x": parse_toml(tmp_path / "x.toml", Topic)}
    monkeypatch.setattr(model, "read", lambda: topics)
    table = tables.Table(columns=("x",), rows=(("{verdict:kyber/observations/o-1/verdict}",),))
    found = stored({"kyber/observations/o-1/verdict": EXPLAINED})
    *_, row = tables.rendered(table, found, "sample")
    assert row == "| explained by `drain_kib_ns` |"


def test_verdicts_are_not_kept_with_the_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They change with results and claims, which no hash of the sources has."""
    assert {name for steps in by_topic().values() for name in steps} >= OF_RESULTS
    asked = []
    name = kyber.kyber_observations.__name__
    assert name in OF_RESULTS
    monkeypatch.setattr(command, "KEPT", tmp_path)
    monkeypatch.setattr(command, "build_simulator", lambda: None)
    monkeypatch.setattr(command, "store", lambda *_: asked.append(name))
    monkeypatch.setattr(command, "sources_key", lambda: "key")
    (tmp_path / "key").mkdir()
    (tmp_path / "key" / f"{name}.json").write_text("damaged")
    command.measure([name], fresh=False)
    assert asked == [name]


def test_the_claims_of_this_checkout_judge_every_observation_by_the_drives_they_name() -> None:
    topics = model.read()
    drives = [drive.load(str(path))[1] for path in DRIVES.glob("*.toml")]
    parameters = {key for found in drives for key in found.parameters}
    for name in observations.NAMES:
        assert observations.claims(topics, name), name
    named = {m.property for t in topics.values() for c in t.claim for m in c.missed if m.property}
    assert named
    assert named <= parameters


def test_the_stored_verdicts_are_those_of_the_stored_results() -> None:
    """`tailgate claims kyber_observations` judges them anew, in a second."""
    found = results.by_id(results.read())
    for name, verdict in observations.verdicts(model.read(), found).items():
        own = found.get(f"{observations.START}/{name}/verdict")
        assert own is None or own.figure.value == verdict, name
