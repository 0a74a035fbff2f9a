"""The worker config as hooks see it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from loader import ConfigError, DefaultTaskEncoder, EnergonError, WorkerConfig, get_loader, get_val_dataset
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
    numbers = {"rank": 0, "world_size": 1, "num_workers": 0, "seed_offset": 0}
    assert config.config() == {**numbers, "lanes": None, "data_parallel_group": None}


STEP = {"SLURM_STEP_ID": "0", "SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "4", "SLURM_NTASKS": "4"}
OPEN_MPI = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, str]], None]:
    """Return a function that sets the variables of launchers."""
    launchers = ("SLURM_", "OMPI_", "PMI_", "PMIX_", "MV2_", "RANK", "WORLD_SIZE", "LOCAL_")

    def set_variables(variables: dict[str, str]) -> None:
        for name in [name for name in os.environ if name.startswith(launchers)]:
            monkeypatch.delenv(name)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return set_variables


@pytest.mark.parametrize(
    ("variables", "what"),
    [
        (STEP, "this process is rank 3 of 4 (SLURM_PROCID=3, SLURM_STEP_NUM_TASKS=4)"),
        (OPEN_MPI, "this process is rank 1 of 2 (OMPI_COMM_WORLD_RANK=1, OMPI_COMM_WORLD_SIZE=2)"),
        ({"RANK": "0", "WORLD_SIZE": "4"}, "this process is rank 0 of 4 (RANK=0, WORLD_SIZE=4)"),
        ({"WORLD_SIZE": "4"}, "several ranks (expected RANK next to WORLD_SIZE=4, found none)"),
        (STEP | {"SLURM_PROCID": "9"}, "several ranks (expected SLURM_PROCID below SLURM_STEP_NUM_TASKS"),
    ],
)
def test_one_of_several_ranks_without_a_process_group_warns_that_it_loads_all_data(
    environment: Callable[[dict[str, str]], None], variables: dict[str, str], what: str
) -> None:
    environment(variables)
    with pytest.warns(RuntimeWarning, match=re.escape(what)) as warned:
        config = WorkerConfig.default_worker_config(num_workers=0)
    assert (config.rank, config.world_size) == (0, 1)
    text = str(warned[0].message)
    assert "torch.distributed is not initialised, so each rank loads all the data: call torch.distributed.init" in text
    assert "pass env=True to take the rank from these variables, or pass rank and world_size to WorkerConfig" in text
    assert warned[0].filename == __file__


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"RANK": "0", "WORLD_SIZE": "1"},
        STEP | {"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"},
        {"SLURM_JOB_ID": "1", "SLURM_NTASKS": "8", "SLURM_PROCID": "0"},
        {"SLURM_ARRAY_TASK_ID": "3", "SLURM_ARRAY_TASK_COUNT": "8", "SLURM_NTASKS": "1", "SLURM_PROCID": "0"},
    ],
    ids=["no cluster", "torchrun of one", "srun -n1", "batch script", "job array"],
)
def test_a_single_process_is_silent(environment: Callable[[dict[str, str]], None], variables: dict[str, str]) -> None:
    environment(variables)
    for env in (False, True):
        config = WorkerConfig.default_worker_config(num_workers=0, env=env)
        assert (config.rank, config.world_size) == (0, 1)


def test_a_process_group_decides_over_the_environment(
    environment: Callable[[dict[str, str]], None], tmp_path: Path
) -> None:
    environment(STEP)
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/meeting", rank=0, world_size=1)
    try:
        for env in (False, True):
            config = WorkerConfig.default_worker_config(num_workers=0, env=env)
            assert (config.rank, config.world_size) == (0, 1)
    finally:
        torch.distributed.destroy_process_group()


@pytest.mark.parametrize(
    ("variables", "expected"), [(STEP, (3, 4)), (OPEN_MPI, (1, 2)), ({"SLURM_NTASKS": "4"}, (0, 1))]
)
def test_the_ranks_can_be_taken_from_the_environment(
    environment: Callable[[dict[str, str]], None], variables: dict[str, str], expected: tuple[int, int]
) -> None:
    environment(variables)
    config = WorkerConfig.default_worker_config(num_workers=0, env=True)
    assert (config.rank, config.world_size) == expected
    environment(STEP | {"SLURM_PROCID": "9"})
    with pytest.raises(ConfigError, match="expected SLURM_PROCID below SLURM_STEP_NUM_TASKS, found 9 and 4"):
        WorkerConfig.default_worker_config(num_workers=0, env=True)
    with pytest.raises(TypeError, match="expected True or False as env"):
        WorkerConfig.default_worker_config(num_workers=0, env="no")  # type: ignore[arg-type]
