"""Datasets are written to object stores, and resharded from there."""

from __future__ import annotations

from pathlib import Path

import pytest

from loader import ShardWriter
from loader.convert.resharding import ReshardPlan, run_reshard
from loader.convert.rows.shard_layout import ShardLayout
from loader.dataset.opening import folder_at
from loader.format.dataset_ref import DatasetRef
from tests.e2e.dataset_tree import caption_samples, prepare, shard_path, write_shard
from tests.object_server import ObjectServer


def test_a_dataset_goes_to_an_object_store_and_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        write_shard(shard_path(tmp_path / "ds", number), caption_samples(10 * number, 5))
    prepare(tmp_path / "ds")
    (tmp_path / "server/bucket").mkdir(parents=True)
    with ObjectServer(tmp_path / "server") as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.setenv(name, "test")
        with ShardWriter("s3://bucket/written", samples_per_shard=3) as writer:
            for number in range(10):
                writer.write({"__key__": str(number), "txt": "x"})
        assert writer.report is not None
        assert (writer.report.samples, writer.report.scanned) == (10, 0)
        assert len(folder_at("s3://bucket/written").index) == 10
        there = ReshardPlan(
            ref=DatasetRef(str(tmp_path / "ds")),
            output="s3://bucket/new",
            layout=ShardLayout(shuffle_seed=1, samples_per_shard=4),
        )
        run_reshard(there)
        run_reshard(ReshardPlan(ref=DatasetRef(there.output), output=str(tmp_path / "back"), sort_by="key"))
    source, back = folder_at(tmp_path / "ds"), folder_at(tmp_path / "back")
    for sample in range(15):
        assert back.index.key(sample) == source.index.key(sample)
        assert back.read_parts(sample) == source.read_parts(sample)
