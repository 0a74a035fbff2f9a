"""Workers that die or hang are replaced, and the same batches follow."""

from __future__ import annotations

import ctypes
import hashlib
import json
import logging
import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import get_worker_info

from loader import (
    BlendDataset,
    ConfigError,
    DefaultTaskEncoder,
    SavableDataLoader,
    TextSample,
    WorkerConfig,
    WorkerError,
    get_savable_loader,
    get_train_dataset,
)
from loader.prepare.plan import SplitRequest
from tests.e2e.dataset_tree import prepare, write_shard

CONFIG = "sample_type: {__module__: megatron.energon, __class__: TextSample}\nfield_map: {text: txt}\n"


@pytest.fixture(scope="module")
def mix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a blend of two datasets of 120 samples each."""
    folder = tmp_path_factory.mktemp("replacement")
    for name in ("one", "two"):
        for first in range(0, 120, 40):
            samples = {f"{number:05d}": {"txt": f"{name} {number}".encode()} for number in range(first, first + 40)}
            write_shard(folder / name / f"{first}.tar", samples)
        prepare(folder / name, split=SplitRequest(ratio={"train": 1.0}), files={"dataset.yaml": CONFIG})
    document = "__module__: megatron.energon\n__class__: MetadatasetV2\nsplits:\n  train:\n    blend:\n"
    (folder / "mix.yaml").write_text(document + "    - {weight: 2, path: one}\n    - {weight: 1, path: two}\n")
    return folder


class Packing(DefaultTaskEncoder[Any, Any, Any, Any]):
    """Pack three samples each, and draw a random number for each of them."""

    def select_samples_to_pack(self, samples: list[TextSample]) -> list[list[TextSample]]:
        return [samples[start : start + 3] for start in range(0, len(samples), 3)]

    def pack_selected_samples(self, samples: list[TextSample]) -> str:
        return " + ".join(f"{sample.text} {random.random():.6f}" for sample in samples)

    def batch(self, samples: list[str]) -> list[str]:
        return samples


class Troubled(Packing):
    """Do something to the process that encodes a sample; once, if a file is to be made.

    Args:
        text: The text of the sample.
        trouble: What is done.
        once: A file that is made before; None: each time.
    """

    def __init__(self, text: str, trouble: Callable[[], Any], once: Path | None = None) -> None:
        super().__init__()
        self.text, self.trouble, self.once = text, trouble, once

    def encode_sample(self, sample: TextSample) -> TextSample:
        if sample.text == self.text and get_worker_info() is not None and not (self.once and self.once.exists()):
            if self.once:
                self.once.touch()
            self.trouble()
        return sample


def crash() -> None:
    ctypes.string_at(0)


def hang_in_c() -> None:
    hashlib.pbkdf2_hmac("sha256", b"password", b"salt", 10**9)  # for minutes; signals do not end it


def stop() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def leave() -> None:
    os._exit(3)


def loader_of(
    path: Path, *, workers: int = 2, encoder: Any = None, repeat: bool = True, **options: Any
) -> SavableDataLoader[Any]:
    dataset = get_train_dataset(
        path / "mix.yaml" if repeat else path / "one",
        worker_config=WorkerConfig(rank=0, world_size=1, num_workers=workers, lanes=4),
        task_encoder=encoder or Packing(),
        batch_size=2,
        packing_buffer_size=8,
        shuffle_buffer_size=20,
        max_samples_per_sequence=10,
        repeat=repeat,
    )
    return get_savable_loader(dataset, **options)


def batches_of(loader: SavableDataLoader[Any], count: int | None = None) -> list[Any]:
    with loader:
        return list(islice(loader, count))


def pids_of(loader: SavableDataLoader[Any]) -> list[int]:
    stream: Any = loader.run.lanes.start()
    return [stream.source.pid(worker) for worker in range(loader.num_workers)]


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_killed_workers_change_no_batch(mix: Path, method: str) -> None:
    expected = batches_of(loader_of(mix), 60)
    loader = loader_of(mix, multiprocessing_context=method)
    chosen = random.Random(method)
    found = []
    for number, batch in enumerate(islice(loader, 60)):
        found.append(batch)
        if number % 12 == 5:
            os.kill(chosen.choice(pids_of(loader)), signal.SIGKILL)
    assert found == expected
    assert loader.save_state_rank()["worker_restarts"] >= 1
    assert "quarantined" not in loader.save_state_rank()
    loader.close()


@pytest.mark.parametrize("trouble", [crash, leave, hang_in_c, stop])
@pytest.mark.sampled(2)
def test_a_worker_that_fails_once_is_replaced(mix: Path, tmp_path: Path, trouble: Callable[[], None]) -> None:
    expected = batches_of(loader_of(mix, encoder=Packing()), 40)
    encoder = Troubled("two 17", trouble, tmp_path / "once")
    loader = loader_of(mix, encoder=encoder, worker_timeout_s=2)
    assert batches_of(loader, 40) == expected
    assert loader.save_state_rank()["worker_restarts"] == 1


def test_a_pass_that_ends_is_the_same_with_a_killed_worker(mix: Path, tmp_path: Path) -> None:
    expected = batches_of(loader_of(mix, encoder=Packing(), repeat=False))
    for text in ("one 3", "one 77", "one 119"):
        encoder = Troubled(text, crash, tmp_path / text)
        assert batches_of(loader_of(mix, encoder=encoder, repeat=False)) == expected


def texts_of(batches: list[list[str]]) -> set[str]:
    return {" ".join(text.split()[:2]) for batch in batches for pack in batch for text in pack.split(" + ")}


def test_a_sample_that_kills_twice_is_quarantined(mix: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    report = tmp_path / "quarantine.jsonl"
    loader = loader_of(mix, encoder=Troubled("one 31", crash), quarantine=report)
    batches = batches_of(loader, 60)
    assert {f"one {number}" for number in range(120)} - texts_of(batches) == {"one 31"}
    assert "quarantined sample '0.tar/00031' of" in caplog.text
    line = json.loads(report.read_text())
    assert line["key"] == "0.tar/00031"
    assert "was killed by SIGSEGV" in line["cause"]
    assert "in crash" in line["stack"]

    state = loader.save_state_rank()
    assert [entry["key"] for entry in state["quarantined"]] == ["0.tar/00031"]
    following = loader_of(mix, encoder=Troubled("one 31", crash), max_worker_restarts=0)
    following.restore_state_rank(state)
    assert "one 31" not in texts_of(batches_of(following, 60))

    again = loader_of(mix, encoder=Troubled("one 31", crash), max_worker_restarts=0, quarantine=report)
    assert "one 31" not in texts_of(batches_of(again, 60))


def test_the_sample_is_found_in_a_blend_composed_by_hand(mix: Path) -> None:
    config = WorkerConfig(rank=0, world_size=1, num_workers=2, lanes=4)
    options: dict[str, Any] = {"batch_size": None, "shuffle_buffer_size": 20, "max_samples_per_sequence": 10}
    encoder = Troubled("two 31", crash)
    one, two = (
        get_train_dataset(mix / name, worker_config=config, task_encoder=encoder, **options) for name in ("one", "two")
    )
    loader = get_savable_loader(BlendDataset((one, 1), (two, 1)))
    with loader:
        texts = {sample.text for sample in islice(loader, 300)}
    assert {f"two {number}" for number in range(120)} - texts == {"two 31"}
    (quarantined,) = loader.save_state_rank()["quarantined"]
    assert (quarantined["dataset"], quarantined["key"]) == (str(mix / "two"), "0.tar/00031")


def test_the_run_ends_if_no_more_samples_may_be_quarantined(mix: Path) -> None:
    loader = loader_of(mix, encoder=Troubled("one 31", crash), max_quarantined=0)
    with pytest.raises(WorkerError, match="was killed by SIGSEGV") as caught:
        batches_of(loader, 60)
    assert any("'0.tar/00031'" in note for note in caught.value.__notes__)


def test_the_run_ends_after_the_last_replacement(mix: Path) -> None:
    loader = loader_of(mix, max_worker_restarts=1)
    batches = iter(loader)
    with pytest.raises(WorkerError, match="was killed by SIGKILL"):  # noqa: PT012 - the kill may be noticed later
        for _ in range(60):
            next(batches)
            for pid in pids_of(loader):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


class Slow(Packing):
    def encode_sample(self, sample: TextSample) -> TextSample:
        time.sleep(0.3)
        return sample


def test_a_worker_that_is_slow_is_not_replaced(mix: Path) -> None:
    loader = loader_of(mix, encoder=Slow(), worker_timeout_s=1.5)
    assert len(batches_of(loader, 2)) == 2
    assert "worker_restarts" not in loader.save_state_rank()


class TroubledBatch(Packing):
    """Do something to the worker that joins samples to a batch or a pack; the samples are not to blame."""

    def __init__(self, hook: str, trouble: Callable[[], Any]) -> None:
        super().__init__()
        self.hook, self.trouble = hook, trouble

    def batch(self, samples: list[str]) -> list[str]:
        return self._joined("batch", samples)

    def pack_selected_samples(self, samples: list[TextSample]) -> str:
        super().pack_selected_samples(samples)
        return self._joined("pack", [sample.text for sample in samples])[0]

    def _joined(self, hook: str, texts: list[str]) -> list[str]:
        if hook in self.hook and get_worker_info() is not None and "one 31" in " ".join(texts):
            self.trouble()
        return texts


@pytest.mark.parametrize("hook", ["batch", "pack"])
@pytest.mark.sampled(2)
def test_a_hook_of_several_samples_that_always_crashes_ends_the_run_and_blames_no_sample(mix: Path, hook: str) -> None:
    loader = loader_of(mix, encoder=TroubledBatch(hook, crash))
    with pytest.raises(WorkerError, match="was killed by SIGSEGV") as caught:
        batches_of(loader, 60)
    assert caught.value.at == "it was between samples, or in a hook for a batch"
    notes = "\n".join(caught.value.__notes__)
    assert "in _joined" in notes
    assert "Several workers have ended at this micro-batch" in notes
    assert "quarantined" not in loader.save_state_rank()


def test_a_hook_of_several_samples_has_its_own_time(mix: Path) -> None:
    loader = loader_of(mix, encoder=TroubledBatch("pack batch", partial(time.sleep, 1.2)), worker_timeout_s=2)
    assert len(batches_of(loader, 60)) == 60  # the batch is joined right after its last pack
    assert "worker_restarts" not in loader.save_state_rank()


def test_a_report_that_cannot_be_used_is_refused_before_the_first_step(mix: Path, tmp_path: Path) -> None:
    missing = tmp_path / "missing" / "quarantine.jsonl"
    with pytest.raises(ConfigError, match="there is no folder for the quarantine file") as caught:
        next(iter(loader_of(mix, quarantine=missing)))
    assert caught.value.at == str(missing)
    other = tmp_path / "other.jsonl"
    for line in ('{"foo": 1}', "words"):
        other.write_text(f"\n{line}\n")
        with pytest.raises(ConfigError, match=r"expected a JSON object .* in line 2 of") as caught:
            next(iter(loader_of(mix, quarantine=other)))
        assert caught.value.message.endswith(f"found {line!r}")


def test_a_report_that_cannot_be_written_ends_no_run(
    mix: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    report = tmp_path / "removed" / "quarantine.jsonl"
    report.parent.mkdir()
    loader = loader_of(mix, encoder=Troubled("one 31", crash), quarantine=report)
    loader.start()
    report.parent.rmdir()
    with caplog.at_level(logging.ERROR):
        assert len(batches_of(loader, 60)) == 60
    assert f"cannot write the quarantine file {report}" in caplog.text
