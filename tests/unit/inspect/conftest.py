"""A small prepared dataset of captions."""

from __future__ import annotations

from pathlib import Path

import pytest

from loader.prepare.plan import PreparePlan
from loader.prepare.run import run_prepare
from tests.e2e.dataset_tree import RATIO, caption_samples, shard_path, write_shard


def prepared(folder: Path) -> Path:
    run_prepare(PreparePlan(path=str(folder), split=RATIO))
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in range(4):
        write_shard(shard_path(tmp_path / "ds", number), caption_samples(10 * number, 5))
    return prepared(tmp_path / "ds")
