"""This library's ``megatron.energon`` has all public names of version 7.4.1, except for those listed with a reason.

The list of names is a golden file, so that megatron-energon need not be installed; ``tests/interop/test_census.py``
compares it with the installed one. ``python tests/interop/census.py update .venv-peer/bin/python`` rewrites both files.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.interop import census
from tests.source_tree import ROOT

INVENTED = [
    "megatron.energon.gone",
    "megatron.energon.gone:Class",
    "megatron.energon.rng:Gone",
    "megatron.energon.rng:Gone.method",
    "megatron.energon.rng:Gone.method(argument)",
    "megatron.energon.rng:SystemRng.gone",
    "megatron.energon.rng:SystemRng.gone(argument)",
    "megatron.energon.rng:SystemRng.seed(gone)",
]


@pytest.fixture(scope="module")
def all_lacking(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Compare in a process of its own, since the census imports all modules and replaces optional packages."""
    names = tmp_path_factory.mktemp("census") / "names.txt"
    names.write_text("\n".join([*census.PEER_NAMES.read_text().splitlines(), *INVENTED]))
    command = [sys.executable, census.__file__, "lacking", str(names)]
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=True)
    return set(done.stdout.split())


@pytest.fixture(scope="module")
def lacking(all_lacking: set[str]) -> set[str]:
    return all_lacking - set(INVENTED)


def test_each_lacking_name_has_a_reason(lacking: set[str]) -> None:
    reasons = census.read_reasons()
    assert not lacking - reasons.keys(), "provide these names, or add them to lacking.txt with a reason"
    assert census.NO_REASON not in reasons.values()


def test_no_provided_name_is_listed_as_lacking(lacking: set[str]) -> None:
    assert not census.read_reasons().keys() - lacking, "remove these rows: python tests/interop/census.py update"


def test_members_of_what_is_missing_are_not_listed(all_lacking: set[str]) -> None:
    assert all_lacking & set(INVENTED) == {
        "megatron.energon.gone",
        "megatron.energon.rng:Gone",
        "megatron.energon.rng:SystemRng.gone",
        "megatron.energon.rng:SystemRng.seed(gone)",
    }
    provided = {"megatron.energon.rng:SystemRng.seed(seed)", "megatron.energon.rng:WorkerRng.worker_config"}
    assert provided <= census.read_rows(census.PEER_NAMES.read_text()).keys(), "names of which the others are variants"
    assert not provided & all_lacking
