"""`energon analyze-debug` of megatron-energon reads the files that loaders write at `worker_debug_path`."""

from __future__ import annotations

import re
from itertools import islice
from pathlib import Path

import pytest

from loader import WorkerConfig, get_savable_loader, get_train_dataset
from tests.e2e.text_dataset import write_texts
from tests.interop.conftest import Peer

BLEND = """\
__module__: megatron.energon
__class__: MetadatasetV2
splits: {train: {blend: [{weight: 1, path: one}, {weight: 2, path: two}]}}
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("debug")
    write_texts(folder / "one")
    write_texts(folder / "two", first=1000)
    (folder / "mix.yaml").write_text(BLEND)
    return folder


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("name", ["one", "mix.yaml"])
def test_analyze_debug_counts_the_samples(data: Path, peer: Peer, tmp_path: Path, workers: int, name: str) -> None:
    for rank in range(2):
        config = WorkerConfig(
            rank=rank,
            world_size=2,
            num_workers=workers,
            worker_debug_path=tmp_path / "debug/worker_{worker_id}.jsonl",
            worker_log_level=2,
        )
        dataset = get_train_dataset(
            data / name, batch_size=4, shuffle_buffer_size=20, max_samples_per_sequence=5, worker_config=config
        )
        loader = get_savable_loader(dataset)
        list(islice(loader, 6))
        loader.shutdown()

    report = peer.run("analyze-debug", "--heatmap-path", tmp_path / "heatmap.png", tmp_path / "debug")

    path = data / "one"
    assert re.search(rf"\d: train .*{re.escape(str(path))}", report)
    assert "Found 48 unique sample keys, 6 steps" in report
    assert (tmp_path / "heatmap.png").exists()
