"""Kill, stop and hang the workers of a loader at random: are all batches those of an undisturbed run?

    python -m benchmarks.bench_worker_kills            # 200 times
    python -m benchmarks.bench_worker_kills --count 20

The run blends two datasets and packs. Prints the number of replaced workers and the longest pause of the loop.
"""

from __future__ import annotations

import argparse
import hashlib
import logging
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from loader import DefaultTaskEncoder, ShardWriter, WorkerConfig, get_savable_loader, get_train_dataset

TIMEOUT_S = 3.0
WORKERS = 3
MIX = """__module__: megatron.energon
__class__: MetadatasetV2
splits:
  train:
    blend:
    - {weight: 2, path: one}
    - {weight: 1, path: two}
"""


class Packing(DefaultTaskEncoder[Any, Any, Any, Any]):
    """Pack three samples each, and hang in C where a file asks for it.

    Args:
        hangs: A folder; each file in it makes one sample hang, and is removed.
    """

    def __init__(self, hangs: Path | None = None) -> None:
        super().__init__()
        self.hangs = hangs

    def encode_sample(self, sample: Any) -> Any:
        text = sample["json"]["text"]
        for file in self.hangs.glob("*.due") if self.hangs is not None else ():
            mark = file.with_name(f"{text}.done")
            if mark.exists():
                continue  # two hangs at a sample would quarantine it
            mark.touch()
            file.unlink(missing_ok=True)
            hashlib.pbkdf2_hmac("sha256", b"password", b"salt", 10**9)
        return sample["json"]["text"]

    def select_samples_to_pack(self, samples: list[str]) -> list[list[str]]:
        return [samples[start : start + 3] for start in range(0, len(samples), 3)]

    def pack_selected_samples(self, samples: list[str]) -> str:
        return " + ".join(f"{sample} {random.random():.6f}" for sample in samples)

    def batch(self, samples: list[str]) -> list[str]:
        return samples


def write(folder: Path) -> Path:
    """Write the datasets and their mix."""
    for name in ("one", "two"):
        with ShardWriter(folder / name) as writer:
            for number in range(1000):
                writer.write({"__key__": f"{number:06d}", "json": {"text": f"{name} {number}"}})
    mix = folder / "mix.yaml"
    mix.write_text(MIX)
    return mix


def loader_of(mix: Path, hangs: Path | None = None, **options: Any) -> Any:
    dataset = get_train_dataset(
        mix,
        worker_config=WorkerConfig(rank=0, world_size=1, num_workers=WORKERS, lanes=6),
        task_encoder=Packing(hangs),
        batch_size=2,
        packing_buffer_size=8,
        shuffle_buffer_size=100,
        max_samples_per_sequence=10,
    )
    return get_savable_loader(dataset, **options)


def timed(loader: Any, pauses: list[tuple[int, float]]) -> Iterator[Any]:
    """Yield the batches; note how long the loop waited for each, and how many workers were replaced meanwhile."""
    batches, replacements = iter(loader), loader.run.lanes.replacements
    while True:
        begin, before = time.monotonic(), replacements.replaced
        batch = next(batches)
        pauses.append((replacements.replaced - before, time.monotonic() - begin))
        yield batch


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=200, help="kills, stops and hangs")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    chosen = random.Random(arguments.seed)
    logging.getLogger("loader").setLevel(logging.CRITICAL)
    every = 8
    with tempfile.TemporaryDirectory() as name:
        mix, hangs = write(Path(name)), Path(name) / "hangs"
        hangs.mkdir()
        with loader_of(mix) as undisturbed:
            expected = list(islice(undisturbed, (arguments.count + 1) * every))
        loader = loader_of(mix, hangs, worker_timeout_s=TIMEOUT_S, max_worker_restarts=10 * arguments.count)
        pauses: list[tuple[int, float]] = []
        kinds = {"killed": 0, "stopped": 0, "hung": 0}
        due = -1  # the place of the next fault among eight batches
        with loader:
            for number, batch in enumerate(timed(loader, pauses)):
                if batch != expected[number]:
                    print(f"batch {number} differs:\n  {batch}\n  {expected[number]}")
                    return 1
                if number + 1 == len(expected):
                    break
                if number % every == 0 and sum(kinds.values()) < arguments.count:
                    due = chosen.randrange(every)
                if number % every == due:
                    due = -1
                    kind = chosen.choices(list(kinds), [8, 1, 1])[0]
                    kinds[kind] += 1
                    source: Any = loader.run.lanes.start().source
                    pid = source.pid(chosen.randrange(loader.num_workers))
                    if kind == "hung":
                        (hangs / f"{number}.due").touch()
                    else:
                        with suppress(ProcessLookupError):  # it has ended, and the loop has not reached its batch
                            os.kill(pid, signal.SIGKILL if kind == "killed" else signal.SIGSTOP)
        state = loader.save_state_rank()
    print(f"{len(expected)} batches, all equal; {kinds}; {state.get('worker_restarts', 0)} workers replaced")
    print(f"quarantined: {len(state.get('quarantined', []))}")
    for faults in sorted({faults for faults, _ in pauses}):
        longest = max(seconds for found, seconds in pauses if found == faults)
        print(f"longest pause {longest:.2f} s while {faults} workers were replaced; the timeout is {TIMEOUT_S:g} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
