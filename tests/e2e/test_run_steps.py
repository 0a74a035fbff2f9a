"""Steps of a run: skipped on all ranks and after each restart, rebuilt, and logged."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from loader import DefaultTaskEncoder, WorkerConfig, get_savable_loader, get_train_dataset, get_val_dataset
from loader.errors import ConfigError, FormatError, StateError
from loader.pipeline.contract.item_id import samples_in
from loader.pipeline.stages.batch import BatchDataset
from loader.samples.hook_marks import stateless
from loader.training.states import RunState, list_state_files, read_state_file, redistribute_files
from loader.training.workers.batch_trace import TraceFile, list_traces
from tests.e2e.text_dataset import write_texts


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("texts")
    write_texts(folder, train=(70, 50))
    return folder


class Dropping(DefaultTaskEncoder[Any, Any, Any, Any]):
    """Skips some samples, doubles others, and draws random numbers."""

    @stateless
    def encode_sample(self, sample: Any) -> Iterator[Any]:
        number = sum(sample.__key__.encode())
        for _ in range(number % 3):
            yield sample

    def batch(self, samples: list[Any]) -> dict[str, Any]:
        return {"keys": [one.__key__ for one in samples], "noise": torch.rand(3), "python": random.random()}


class Packing(Dropping):
    """Packs them, too."""

    def select_samples_to_pack(self, samples: list[Any]) -> list[list[Any]]:
        return [samples[start : start + 2] for start in range(0, len(samples), 2)]

    def pack_selected_samples(self, samples: list[Any]) -> Any:
        samples[0].__key__ = "+".join(one.__key__ for one in samples)
        return samples[0]


ENCODERS: dict[str, tuple[dict[str, Any], Any]] = {
    "plain": ({}, DefaultTaskEncoder),
    "dropping": ({}, Dropping),
    "packing": ({"packing_buffer_size": 7}, Packing),
}


def loader_of(
    path: Path,
    kind: str = "plain",
    *,
    rank: int = 0,
    ranks: int = 1,
    workers: int = 0,
    lanes: int | None = 4,
    **more: Any,
) -> Any:
    arguments, encoder = ENCODERS[kind]
    config = WorkerConfig(rank=rank, world_size=ranks, num_workers=workers, lanes=lanes, seed_offset=3)
    dataset = get_train_dataset(
        str(path),
        worker_config=config,
        batch_size=3,
        shuffle_buffer_size=20,
        max_samples_per_sequence=5,
        task_encoder=encoder(),
        **arguments,
    )
    return get_savable_loader(dataset, **more)


def plain(batch: Any) -> Any:
    if isinstance(batch, dict):
        return {name: value.tolist() if hasattr(value, "tolist") else value for name, value in batch.items()}
    return list(batch.__key__)


def take(loader: Any, count: int) -> list[Any]:
    batches = iter(loader)
    return [plain(next(batches)) for _ in range(count)]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", ENCODERS)
@pytest.mark.sampled(3)
def test_steps_are_left_out_and_the_others_stay_the_same(texts: Path, kind: str, workers: int) -> None:
    with loader_of(texts, kind, workers=workers) as loader:
        every = take(loader, 20)
    with loader_of(texts, kind, workers=workers, skip_steps=[(3, 5), (9, 10)]) as loader:
        assert take(loader, 17) == [batch for step, batch in enumerate(every) if step not in (3, 4, 9)]


def test_left_out_steps_are_part_of_the_state_on_any_number_of_ranks(texts: Path) -> None:
    """Two ranks skip steps, then one continues without the argument, and again with it."""
    loaders = [loader_of(texts, rank=rank, ranks=2) for rank in range(2)]
    every = [batch for pair in zip(*(take(loader, 20) for loader in loaders), strict=True) for batch in pair]
    loaders = [loader_of(texts, rank=rank, ranks=2, skip_steps=[(2, 3), (8, 10)]) for rank in range(2)]
    taken = [take(loader, 5) for loader in loaders]
    assert [batch for pair in zip(*taken, strict=True) for batch in pair] == [*every[:4], *every[6:12]]
    states = [json.loads(json.dumps(loader.save_state_rank())) for loader in loaders]
    kept = [*every[12:16], *every[20:]]
    for again in ((), [(2, 3), (8, 10)]):
        loader = loader_of(texts, skip_steps=again)
        loader.restore_state_global(states)
        assert take(loader, len(kept)) == kept
        state = loader.save_state_rank()
        assert state["skip_steps"] == [[2, 3, 4, 6], [8, 10, 16, 20]]
        assert state["ranks_at"] == [[0, 2], [12, 1]]
        assert RunState.from_plain(state).to_plain() == state
    more = loader_of(texts, skip_steps=[(7, 9)])  # of one rank now: micro-batches 13 and 14
    more.restore_state_global(states)
    assert take(more, 2) == [every[12], every[15]]


def test_files_for_other_ranks_keep_the_steps(texts: Path, tmp_path: Path) -> None:
    loaders = [loader_of(texts, rank=rank, ranks=2, skip_steps=[(4, 5)]) for rank in range(2)]
    for rank, loader in enumerate(loaders):
        take(loader, 3)
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(loader.save_state_rank()))
    written = redistribute_files([read_state_file(one) for one in list_state_files(tmp_path)], 1, tmp_path / "one")
    state = json.loads((tmp_path / "one" / written.files[0]).read_text())
    assert state["ranks_at"] == [[0, 2], [6, 1]]
    assert state["skip_steps"] == [[4, 5, 8, 10]]


def test_ranks_that_leave_out_different_steps_are_refused(texts: Path) -> None:
    loaders = [loader_of(texts, rank=rank, ranks=2, skip_steps=[(4 + rank, 6)]) for rank in range(2)]
    for loader in loaders:
        take(loader, 1)
    with pytest.raises(StateError, match="their 'skip_steps' differ"):
        loader_of(texts).restore_state_global([loader.save_state_rank() for loader in loaders])


def test_wrong_steps_to_leave_out_are_refused(texts: Path) -> None:
    for wrong in ([(3, 3)], [(-1, 2)]):
        with pytest.raises(ConfigError, match="skip_steps with 0 <= start < stop"):
            loader_of(texts, skip_steps=wrong)
    with pytest.raises(TypeError, match="expected pairs"):
        loader_of(texts, skip_steps=[41200])
    config = WorkerConfig(rank=0, world_size=1, num_workers=0)
    once = get_val_dataset(str(texts), split_part="train", worker_config=config, batch_size=3)
    with pytest.raises(ConfigError, match="without end"):
        get_savable_loader(once, skip_steps=[(1, 2)])


@pytest.mark.parametrize("kind", ENCODERS)
@pytest.mark.sampled(3)
def test_a_replayed_step_has_the_tensors_of_the_run(texts: Path, kind: str) -> None:
    with loader_of(texts, kind, workers=2) as loader:
        every = take(loader, 24)
        for step in (0, 5, 13, 23):
            assert plain(loader.replay(step)) == every[step]
        states = [loader.save_state_rank()]
        assert take(loader, 1)  # the position stayed
    fresh = loader_of(texts, kind)
    assert plain(fresh.replay(13)) == every[13]
    assert take(fresh, 1) == every[:1]
    fresh.restore_state_global(states)
    assert plain(fresh.replay(13)) == every[13]
    later = plain(fresh.replay(30))
    assert take(fresh, 7)[-1] == later


def test_a_replay_after_a_change_of_ranks_counts_the_steps_of_both(texts: Path) -> None:
    loaders = [loader_of(texts, rank=rank, ranks=2) for rank in range(2)]
    two = [take(loader, 6) for loader in loaders]
    loader = loader_of(texts)
    loader.restore_state_global([one.save_state_rank() for one in loaders])
    one = take(loader, 5)
    assert plain(loader.replay(4)) == two[0][4]
    assert plain(loader.replay(8)) == one[2]
    with pytest.raises(ConfigError, match="at least 0"):
        loader.replay(-1)


def test_a_replay_reads_no_samples_but_those_of_the_step(texts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loader = loader_of(texts)
    every = take(loader, 60)
    opened: list[Any] = []
    original = BatchDataset.open

    def recorded(self: Any, lane: Any, state: Any) -> Any:
        opened.append(dict(state))
        return original(self, lane, state)

    monkeypatch.setattr(BatchDataset, "open", recorded)
    assert plain(loader.replay(50)) == every[50]
    assert opened == [{"made": 12, "0 read": 36}]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", ENCODERS)
@pytest.mark.sampled(3)
def test_the_log_names_the_samples_in_few_bytes(texts: Path, tmp_path: Path, kind: str, workers: int) -> None:
    with loader_of(texts, kind, workers=workers, trace_dir=tmp_path / "log", skip_steps=[(2, 3)]) as loader:
        take(loader, 300)
    samples, found = 0, {}
    for path in list_traces(str(tmp_path / "log")):
        file = TraceFile.open(path)
        assert file.run["skip_steps"] == [[2, 3, 2, 3]]
        for number, item_id in file.records(lambda _: True):
            found[number] = item_id
            samples += samples_in(item_id)
    assert set(found) >= set(range(301))
    written = sum(Path(path).stat().st_size for path in list_traces(str(tmp_path / "log")))
    head = sum(len(Path(path).read_bytes().split(b"\n", 2)[1]) + 17 for path in list_traces(str(tmp_path / "log")))
    assert written - head <= 32 * samples


def test_a_log_that_is_cut_or_damaged_is_reported(texts: Path, tmp_path: Path) -> None:
    take(loader_of(texts, trace_dir=tmp_path), 5)
    (path,) = list_traces(str(tmp_path))
    whole = len(list(TraceFile.open(path).records(lambda _: True)))
    Path(path).write_bytes(Path(path).read_bytes()[:-3])
    assert len(list(TraceFile.open(path).records(lambda _: True))) == whole - 1
    Path(path).write_bytes(b"something else")
    with pytest.raises(FormatError, match="expected a trace"):
        TraceFile.open(path)
    with pytest.raises(ConfigError, match="local or shared folder"):
        take(loader_of(texts, trace_dir="s3://bucket/log"), 1)
