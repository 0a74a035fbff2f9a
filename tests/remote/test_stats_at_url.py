"""Statistics of a dataset at a URL: the same as of its folder, by a few large requests."""

from __future__ import annotations

from pathlib import Path

import pytest

from loader.format.dataset_ref import DatasetRef
from loader.inspect.stats import StatsRequest, collect_stats
from loader.prepare.plan import PreparePlan
from loader.prepare.run import run_prepare
from tests.e2e.dataset_tree import RATIO, caption_samples, shard_path, write_shard
from tests.object_server import ObjectServer

pytestmark = pytest.mark.usefixtures("direct")


def test_neighbours_are_read_together(server: ObjectServer, tmp_path: Path) -> None:
    folder = tmp_path / "objects/data/ds"
    for shard in range(2):
        write_shard(shard_path(folder, shard), caption_samples(200 * shard, 200))
    run_prepare(PreparePlan(path=str(folder), split=RATIO))
    expected = collect_stats(StatsRequest(ref=DatasetRef(str(folder)), dedupe="")).document()
    server.requests.clear()
    found = collect_stats(StatsRequest(ref=DatasetRef("s3://data/ds"), dedupe="")).document()
    assert found == expected | {"path": "s3://data/ds"}
    assert len([request for request in server.requests if request.key.endswith(".tar")]) <= 8
