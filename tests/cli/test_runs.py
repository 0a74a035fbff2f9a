"""``energon explain`` and ``energon trace``: what they print, and their exit codes."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.run_energon import RunEnergon


def test_a_run_is_explained_with_its_findings(prepared: Path, energon: RunEnergon) -> None:
    done = energon("explain", prepared, "--steps", 100, "--batch-size", 2)
    assert done.code == 1  # six samples for 48 lanes
    assert "100 steps of 2 samples: 200 samples" in done.out
    assert "many epochs" in done.out
    facts = json.loads(energon("explain", prepared, "--steps", 100, "--batch-size", 2, "--json").out)
    assert facts["sources"][0]["used"] == 200
    assert {finding["kind"] for finding in facts["findings"]} == {"many epochs", "few samples"}


def test_a_step_is_traced_and_a_key_found(prepared: Path, energon: RunEnergon) -> None:
    done = energon("trace", prepared, "--step", 3, "--batch-size", 2, "--world-size", 2, "--json")
    samples = [json.loads(line) for line in done.out.splitlines()]
    assert [(one["rank"], one["position"]) for one in samples] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    key = samples[2]["key"]
    done = energon("trace", prepared, "--key", key, "--steps", 4, "--batch-size", 2, "--world-size", 2)
    assert f"step 3  rank 1  0  {key}" in done.out


def test_usage_without_a_step_or_key_is_refused(prepared: Path, energon: RunEnergon) -> None:
    assert energon("trace", prepared).code == 2
    assert energon("trace", prepared, "--step", 1, "--key", "000001").code == 2
    done = energon("trace", prepared, "--key", "nothing")
    assert done.code == 1
    assert "there is no sample 'nothing'" in done.err
