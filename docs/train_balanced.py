"""Train a tiny model on 4 ranks with and without balance, then resume on 2 ranks.

usage: python docs/train_balanced.py [STEPS]
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from PIL import Image

from energon_toolkit import (
    DefaultTaskEncoder,
    ShardWriter,
    WorkerConfig,
    get_savable_loader,
    get_train_dataset,
    stateless,
)

PATCH = 28  # pixels: a token of the picture, as in Qwen2.5-VL
COST = "vision_tokens + txt_chars"  # a formula over columns


# ---- the data: pictures and texts of unequal sizes, and the columns that say what they cost


def write_dataset(folder: str, samples: int) -> None:
    random = np.random.default_rng(0)
    sides = np.clip(random.lognormal(1.8, 0.6, (samples, 2)), 2, 32).astype(int)
    lengths = np.clip(random.lognormal(4, 0.8, samples), 8, 400).astype(int)
    with ShardWriter(folder, samples_per_shard=100, split_ratio={"train": 1}) as writer:
        for number, ((rows, columns), length) in enumerate(zip(sides, lengths, strict=True)):
            picture = Image.new("RGB", (PATCH * int(columns), PATCH * int(rows)), (number % 256, 90, 30))
            writer.write({"__key__": f"{number:04d}", "jpg": picture, "txt": "ab" * (length // 2)})
    command = [str(Path(sys.executable).with_name("energon")), "stats", folder]
    subprocess.run(
        [*command, "--write-costs", "qwen2.5-vl", "--write", "txt.chars"], check=True, stdout=subprocess.DEVNULL
    )


class Tokens(DefaultTaskEncoder):
    """Makes patches of a picture and letters of a text: as many tokens as the columns say."""

    @stateless
    def encode_sample(self, sample: Any) -> dict[str, Any]:
        patches = sample["jpg"].unfold(1, PATCH, PATCH).unfold(2, PATCH, PATCH)  # (3, rows, columns, PATCH, PATCH)
        return {
            "__key__": sample["__key__"],
            "patches": patches.permute(1, 2, 0, 3, 4).flatten(0, 1).flatten(1),
            "letters": torch.tensor(list(sample["txt"].encode())),
        }

    @stateless
    def batch(self, samples: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return samples


def batches(folder: str, *, rank: int, ranks: int, balance: str | None, states: Any = None) -> Any:
    dataset = get_train_dataset(
        folder,
        batch_size=8,
        shuffle_buffer_size=100,
        max_samples_per_sequence=10,
        task_encoder=Tokens(),
        worker_config=WorkerConfig(rank=rank, world_size=ranks, num_workers=0, lanes=4),
        balance=balance,
    )
    loader = get_savable_loader(dataset)
    if states is not None:
        loader.restore_state_global(states)
    return loader


# ---- the model, and a training step whose ranks wait for each other when they add up their gradients


class Model(torch.nn.Module):
    """Predicts the letters of a text from the patches of its picture."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.picture = torch.nn.Linear(3 * PATCH * PATCH, width)
        self.text = torch.nn.Embedding(256, width)
        self.layer = torch.nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0, batch_first=True)
        self.head = torch.nn.Linear(width, 256)

    def forward(self, sample: dict[str, Any]) -> torch.Tensor:
        letters = sample["letters"]
        sequence = torch.cat([self.picture(sample["patches"]), self.text(letters[:-1])])
        answer = self.head(self.layer(sequence[None])[0, -len(letters) + 1 :])
        return torch.nn.functional.cross_entropy(answer, letters[1:])


def train(model: Model, loader: Any, steps: int) -> Iterator[tuple[int, float, list[str]]]:
    """Yield for each step of this rank: tokens, seconds of work, and keys of samples.

    Work is processor time, so that other programs on the machine change nothing.
    """
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _, batch in zip(range(steps), loader, strict=False):
        start = time.process_time()
        optimizer.zero_grad()
        torch.stack([model(sample) for sample in batch]).mean().backward()
        work = time.process_time() - start
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)  # waits for the slowest rank
        optimizer.step()
        tokens = sum(len(sample["patches"]) + len(sample["letters"]) for sample in batch)
        yield tokens, work, [sample["__key__"] for sample in batch]


def gathered(values: Any) -> list[Any]:
    every: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(every, values)
    return every


def run(rank: int, folder: str, steps: int) -> None:
    """Run one of 4 ranks; the first two of them go on as 2 ranks."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    join(rank, 4, folder, "four")
    list(train(Model(), batches(folder, rank=rank, ranks=4, balance=None), 2))  # the first steps are slower
    # Train without balance and with it, and compare how long the ranks wait.
    for balance in (None, COST):
        loader = batches(folder, rank=rank, ranks=4, balance=balance)
        measured = list(train(Model(), loader, steps))
        costs = np.array(gathered([(tokens, work) for tokens, work, _ in measured]))  # (ranks, steps, 2)
        if rank == 0:
            tokens, work = np.moveaxis(costs, -1, 0)
            waits = 1 - work.mean(axis=0).sum() / work.max(axis=0).sum()
            ratio = (tokens.max(axis=0) / tokens.mean(axis=0)).mean()
            print(f"balance={balance!r}: max/mean tokens of a step {ratio:.3f}, ranks wait {waits:.0%} of the time")
    # Save, and go on: these are the micro-batches that a resumed run must have, in the order of the run.
    states = [loader.save_state_global(0)]
    dist.broadcast_object_list(states)
    expected = in_order(train(Model(), loader, 4))
    dist.barrier()
    dist.destroy_process_group()
    if rank < 2:
        join(rank, 2, folder, "two")
        loader = batches(folder, rank=rank, ranks=2, balance=COST, states=states[0])
        resumed = in_order(train(Model(), loader, 8))
        if rank == 0:
            print(f"resumed on 2 ranks: {len(resumed)} micro-batches, the same: {resumed == expected}")
        dist.destroy_process_group()


def in_order(steps: Iterator[tuple[int, float, list[str]]]) -> list[list[str]]:
    by_rank = gathered([keys for _, _, keys in steps])
    return [keys for step in zip(*by_rank, strict=True) for keys in step]


def join(rank: int, ranks: int, folder: str, name: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{folder}/{name}", rank=rank, world_size=ranks)


if __name__ == "__main__":
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    with tempfile.TemporaryDirectory() as temporary:
        folder = str(Path(temporary, "data"))
        write_dataset(folder, 800)
        mp.spawn(run, (folder, steps), nprocs=4)
