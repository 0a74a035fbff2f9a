"""`energon analyze-debug` of both reads the files that loaders of both write at `worker_debug_path`."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from itertools import count, islice
from pathlib import Path

import pytest

from loader import WorkerConfig, get_savable_loader, get_train_dataset
from loader.training.loaders import run
from tests.e2e.text_dataset import write_texts
from tests.interop.conftest import Peer, Program

BLEND = """\
__module__: megatron.energon
__class__: MetadatasetV2
splits:
  train: {blend: [{weight: 1, path: one}, {weight: 2, path: two}]}
  val: {path: one}
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
def test_analyze_debug_counts_the_samples(
    data: Path, peer: Peer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, workers: int, name: str
) -> None:
    # Number the loaders as in two new processes: earlier tests of this process have made some of rank 0 alone.
    monkeypatch.setattr(run, "_numbers", defaultdict(count))
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


@pytest.mark.parametrize(("name", "workers"), [("one", 0), ("mix.yaml", 2)])
def test_the_debug_log_of_megatron_energon_names_the_samples_that_its_loaders_gave(
    data: Path, peer: Peer, ours: Program, tmp_path: Path, *, name: str, workers: int
) -> None:
    log = tmp_path / "debug"
    log.mkdir()
    script = Program((peer.python, str(Path(__file__).with_name("peer_debug_log.py"))))
    given = [
        json.loads(script.run(data / name, log, rank, 2, workers, 6).splitlines()[-1]) for rank in range(2)
    ]  # by rank and step

    facts = json.loads(ours.run("analyze-debug", log, "--no-heatmap", "--json"))

    training, validation = facts["loaders"]
    assert (training["modality"], training["ranks"], training["uses"]) == ("train", [0, 1], 48)
    assert (validation["modality"], validation["analyzed"]) == ("val", False)
    assert training["paths"] == [str(data / one) for one in (["one", "two"] if "yaml" in name else ["one"])]
    assert (facts["steps"], facts["uses"]) == (6, 48)
    assert facts["unique"] == len({key for batches in given for keys in batches for key in keys})
    lines = [json.loads(line) for line in ours.run("analyze-debug", log, "--step", 3, "--json").splitlines()]
    assert [(one["rank"], one["position"], one["key"]) for one in lines] == [
        (rank, position, key) for rank in range(2) for position, key in enumerate(given[rank][3])
    ]
    read = json.loads(ours.run("analyze-debug", log, "--force-loading-order", "--no-heatmap", "--json"))
    assert read["uses"] >= (1 if workers else 48)  # the last lines of worker processes may be lost
