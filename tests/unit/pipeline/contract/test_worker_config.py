"""The worker config as hooks see it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from loader import DefaultTaskEncoder, EnergonError, WorkerConfig, get_loader, get_val_dataset
from tests.e2e.text_dataset import write_texts


class Asking(DefaultTaskEncoder[Any, Any, Any, Any]):
    def encode_sample(self, sample: Any) -> Any:
        config = WorkerConfig.active_worker_config
        assert config is not None
        config.assert_worker()
        seen = {
            "rank": config.global_rank(),
            "local": config.rank_worker_id(),
            "global": config.global_worker_id(),
            "seed": config.worker_seed(),
            "batch": config.active_worker_batch_index,
        }
        if config.should_log(1):
            config.worker_log({"key": sample.__key__, "path": config})
        sample.text = seen
        return sample


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_texts(tmp_path_factory.mktemp("texts"), train=(1,), val=(4,))


def test_hooks_see_the_config_of_their_run_and_their_worker(texts: Path, tmp_path: Path) -> None:
    config = WorkerConfig(
        rank=1, world_size=2, num_workers=2, worker_debug_path=tmp_path / "{rank}/{worker_id}.jsonl", worker_log_level=0
    )
    # Level 0 logs nothing; the stage that logs batches would otherwise write to the same file.
    dataset = get_val_dataset(texts, worker_config=config, batch_size=None, task_encoder=Asking())
    seen = [sample.text for sample in get_loader(dataset)]
    assert [one["local"] for one in seen] == [0, 1]
    assert [one["global"] for one in seen] == [2, 3] == [config.global_worker_id(local) for local in range(2)]
    assert [one["seed"] for one in seen] == [config.worker_seed(0), config.worker_seed(1)]
    assert len({config.worker_seed(local) for local in range(100)}) == 100
    assert all(0 <= one["seed"] < 2**32 for one in seen)
    assert [(one["rank"], one["batch"]) for one in seen] == [(1, 1), (1, 3)]
    assert not list(tmp_path.iterdir())


def test_a_hooks_lines_go_to_the_debug_file(tmp_path: Path) -> None:
    config = WorkerConfig(
        rank=0, world_size=1, num_workers=0, worker_debug_path=tmp_path / "logs/{worker_id}.jsonl", worker_log_level=2
    )
    assert [config.should_log(level) for level in (1, 2, 3)] == [True, True, False]
    config.worker_log({"key": "ä", "path": tmp_path})
    config.worker_log({"key": "b"})
    lines = (tmp_path / "logs/0.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [{"key": "ä", "path": str(tmp_path)}, {"key": "b"}]
    silent = WorkerConfig(rank=0, world_size=1, num_workers=0, worker_log_level=2)
    assert not silent.should_log(1)
    silent.worker_log({"key": "a"})


def test_outside_of_hooks_no_config_is_active() -> None:
    config = WorkerConfig(rank=0, world_size=1, num_workers=0)
    assert WorkerConfig.active_worker_config is None
    with pytest.raises(EnergonError, match="no hook of this run"):
        config.assert_worker()
    with pytest.raises(EnergonError):
        _ = config.active_worker_sample_index
    assert config.config() == {"rank": 0, "world_size": 1, "num_workers": 0, "seed_offset": 0, "lanes": None}


def test_one_of_several_ranks_without_a_process_group_warns_that_it_loads_all_data(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "4")
    with pytest.warns(RuntimeWarning, match=r"one of WORLD_SIZE=4 ranks, but torch\.distributed is not initialised"):
        config = WorkerConfig.default_worker_config(num_workers=0)
    assert (config.rank, config.world_size) == (0, 1)
    monkeypatch.setenv("WORLD_SIZE", "1")
    WorkerConfig.default_worker_config(num_workers=0)
