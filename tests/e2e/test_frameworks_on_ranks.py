"""Accelerate and Lightning on two ranks: each gets its own micro-batches, and a checkpoint has both positions."""

from __future__ import annotations

import logging
import os
import socket
import warnings
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import distributed

from loader import SavableDataLoader, WorkerConfig, get_savable_loader, get_train_dataset
from tests.e2e.rank_processes import RankProcesses, rank_processes
from tests.e2e.text_dataset import write_texts

RANKS = 2


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_texts(tmp_path_factory.mktemp("frameworks") / "texts"))


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RankProcesses]:
    with rank_processes(RANKS, tmp_path_factory.mktemp("group")) as processes:
        processes.run(look_like_torchrun, free_port())
        yield processes


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def loader_of(texts: str, **options: Any) -> SavableDataLoader[Any]:
    dataset = get_train_dataset(
        texts,
        batch_size=4,
        shuffle_buffer_size=20,
        max_samples_per_sequence=5,
        worker_config=WorkerConfig.default_worker_config(num_workers=0),
        **options,
    )
    return get_savable_loader(dataset)


@pytest.fixture(scope="module")
def expected(texts: str) -> list[list[str]]:
    """The first micro-batches of the run."""
    return [batch.text for batch in islice(loader_of(texts), 40)]


# ------------------------------------------------------------------------------------------------- functions of ranks


def look_like_torchrun(rank: int, port: int) -> None:
    """Set the environment variables that torchrun sets."""
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "TORCHELASTIC_RUN_ID": "a test"}
    place = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(RANKS), "LOCAL_WORLD_SIZE": str(RANKS)}
    os.environ.update(address | place | {"OMP_NUM_THREADS": "1"})


def with_accelerate(rank: int, texts: str, folder: str) -> tuple[list[list[str]], list[list[str]], bool]:
    """Train three steps, save, train two more, and load; return the micro-batches after saving and after loading."""
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    loader = loader_of(texts)
    _, prepared = accelerator.prepare(torch.nn.Linear(1, 1), loader)
    accelerator.register_for_checkpointing(prepared)
    seen = [batch.text for batch in islice(prepared, 3)]
    accelerator.save_state(folder)
    list(islice(prepared, 2))
    accelerator.wait_for_everyone()  # rank 0 writes the states of all ranks
    accelerator.load_state(folder)
    return seen, [batch.text for batch in islice(prepared, 3)], prepared is loader


def with_lightning(rank: int, texts: str, folder: str, steps: int, checkpoint: str | None) -> list[list[str]]:
    """Train up to a step on all ranks, with a checkpoint after each step; return the micro-batches."""
    import lightning.pytorch as pl

    class Recorder(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(1))
            self.seen: list[list[str]] = []

        def training_step(self, batch: Any, _: int) -> Any:
            self.seen.append(batch.text)
            return self.weight**2

        def on_train_batch_end(self, *_: Any) -> None:
            self.trainer.save_checkpoint(f"{folder}/{self.trainer.global_step}.ckpt")

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    is_several = distributed.is_initialized()
    trainer = pl.Trainer(
        accelerator="cpu",
        devices=RANKS if is_several else 1,
        strategy="ddp" if is_several else "auto",
        max_epochs=-1,
        max_steps=steps,
        enable_checkpointing=False,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    model = Recorder()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Lightning itself, with the installed torch
        trainer.fit(model, train_dataloaders=loader_of(texts, virtual_epoch_length=5), ckpt_path=checkpoint)
    return model.seen


# --------------------------------------------------------------------------------------------------------------- tests


@pytest.mark.filterwarnings("ignore:.*OMP_NUM_THREADS")
def test_accelerate_leaves_a_loader_alone_and_saves_where_it_stands(
    texts: str, expected: list[list[str]], tmp_path: Path
) -> None:
    from accelerate.state import AcceleratorState

    before, after, is_same = with_accelerate(0, texts, str(tmp_path / "saved"))
    AcceleratorState._reset_state(reset_partial_state=True)
    assert is_same
    assert (before, after) == (expected[:3], expected[3:6])


@pytest.mark.slow
def test_accelerate_on_two_ranks_shards_nothing_twice_and_saves_where_both_stand(
    texts: str, expected: list[list[str]], ranks: RankProcesses, tmp_path: Path
) -> None:
    answers = ranks.run(with_accelerate, texts, str(tmp_path / "saved"))
    for rank, (before, after, is_same) in enumerate(answers):
        assert is_same
        assert before == expected[rank:6:RANKS]
        assert after == expected[6 + rank : 12 : RANKS]


@pytest.mark.slow
def test_lightning_on_two_ranks_goes_on_from_the_one_checkpoint_that_it_writes(
    texts: str, expected: list[list[str]], ranks: RankProcesses, tmp_path: Path
) -> None:
    whole = ranks.run(with_lightning, texts, str(tmp_path), 4, None)
    assert whole == [expected[rank:8:RANKS] for rank in range(RANKS)]
    checkpoint = str(tmp_path / "3.ckpt")
    resumed = ranks.run(with_lightning, texts, str(tmp_path / "again"), 8, checkpoint)
    assert resumed == [expected[6 + rank : 16 : RANKS] for rank in range(RANKS)]
    # The same checkpoint, on another number of ranks.
    assert with_lightning(0, texts, str(tmp_path / "alone"), 8, checkpoint) == expected[6:11]
