"""The engine of the page on engines, which an installed package adds to all commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.cluster_tasks import columns_of, datasets, energon, finish
from tests.e2e.dataset_tree import copy_of, write_shards, written
from tests.installed_package import install
from tests.source_tree import ROOT


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a folder with the installed package of the page."""
    pytest.importorskip("joblib")
    return str(install(ROOT / "docs/how-to/write-an-engine.md", tmp_path_factory.mktemp("package")))


def test_commands_run_on_it(tmp_path: Path, site: str) -> None:
    joblib = ("--engine", "joblib", "--num-workers", "2")
    # A map of a function in the working folder.
    alone, mapped = datasets(tmp_path, 2)
    line = ("map", "quality:score", "--write", "score")
    finish(energon(line[0], alone, *line[1:], cwd=tmp_path))
    finish(energon(line[0], mapped, *line[1:], *joblib, cwd=tmp_path, PYTHONPATH=site))
    assert columns_of(mapped) == columns_of(alone)
    # A prepare, and a lint of its result.
    one = write_shards(tmp_path / "one", 30)
    other = copy_of(one, tmp_path / "other")
    flags = ("--non-interactive", "--split-ratio", "2,1")
    finish(energon("prepare", one, *flags, cwd=tmp_path))
    finish(energon("prepare", other, *flags, *joblib, cwd=tmp_path, PYTHONPATH=site))
    assert written(other) == written(one)
    finish(energon("lint", "other", *joblib, cwd=tmp_path, PYTHONPATH=site))


def test_errors_list_it_and_say_what_it_cannot_do(tmp_path: Path, site: str) -> None:
    line = ("map", tmp_path, "quality:score", "--write", "score", "--engine")
    output = finish(energon(*line, "joblob", cwd=tmp_path, PYTHONPATH=site), code=2)
    assert "'joblob' is not one of 'processes', 'ray', 'dask', 'joblib'" in " ".join(output.split())
    output = finish(energon(*line, "joblib", "--address", "a:1", cwd=tmp_path, PYTHONPATH=site), code=2)
    assert "--address is valid only with --engine ray or --engine dask." in " ".join(output.split())
