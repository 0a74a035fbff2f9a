"""Recorded states are restored, and the recorded micro-batches follow, over the datasets of earlier versions, too."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.golden_states import ALL_CASES, RECORDS, add_joiner, digests
from tests.elastic_runs import Spread, running, sealed

VERSIONS = sorted(path.stem for path in RECORDS.glob("*.json"))
RUNS = [(version, name) for version in VERSIONS for name in json.loads((RECORDS / f"{version}.json").read_text())]
OLDEST = {name: version for version, name in reversed(RUNS)}
CASES = [pytest.param(*run, marks=() if OLDEST[run[1]] == run[0] else pytest.mark.slow) for run in RUNS]


@pytest.fixture(scope="module")
def recorded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """Return the datasets that a version prepared, and the runs it recorded over them."""
    add_joiner()
    target = tmp_path_factory.mktemp("golden")
    with tarfile.open(RECORDS / f"{request.param}.tar.xz") as archive:
        archive.extractall(target, filter="data")
    text = (RECORDS / f"{request.param}.json").read_text()
    runs = json.loads(text.replace("DATA", str(target / "data")))
    for run in runs.values():
        run["states"] = [sealed(state) for state in run["states"]]  # the checksum of a state is that of its paths, too
    return target / "data", runs


def test_a_version_is_recorded() -> None:
    assert {name for _, name in RUNS} == set(ALL_CASES)


@pytest.mark.parametrize(("recorded", "name"), CASES, indirect=["recorded"])
def test_a_recorded_state_goes_on_with_the_recorded_batches(name: str, recorded: tuple[Path, dict[str, Any]]) -> None:
    folder, runs = recorded
    run = runs[name]
    pipeline = ALL_CASES[name].pipeline(folder)
    left = {number: digest for number, digest in run["batches"].items() if int(number) not in run["delivered"]}
    for ranks in (1, 2) if ALL_CASES[name].known_ahead else (1,):
        with running(pipeline, Spread(ranks), run["states"]) as restored:
            while not left.keys() <= digests(restored.delivered, folder).keys() and restored.step():
                pass
            found = digests(restored.delivered, folder)
        assert {number: found.get(number) for number in left} == left
