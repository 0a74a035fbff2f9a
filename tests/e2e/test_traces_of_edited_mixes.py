"""Traces of a run whose mix was edited name the samples that its ranks delivered, before and after each edit."""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from loader import DefaultTaskEncoder, WorkerConfig, get_savable_loader, get_train_dataset
from loader.errors import StateError
from loader.inspect.runs import RestoredRun, TracedSample, open_run, steps_of_key, trace_step
from loader.samples.hook_marks import stateless
from tests.cli.run_energon import RunEnergon, run_in_this_process
from tests.e2e.text_dataset import write_texts

LANES = 4
Trained = list[list[Any]]  # step → rank → micro-batch


class Dropping(DefaultTaskEncoder[Any, Any, Any, Any]):
    """Skips some samples, doubles others, and packs pairs of them."""

    @stateless
    def encode_sample(self, sample: Any) -> Iterator[Any]:
        for _ in range(sum(sample.__key__.encode()) % 3):
            yield copy.copy(sample)

    def select_samples_to_pack(self, samples: list[Any]) -> list[list[Any]]:
        return [samples[start : start + 2] for start in range(0, len(samples), 2)]

    @stateless
    def pack_selected_samples(self, samples: list[Any]) -> Any:
        first = copy.copy(samples[0])
        first.__key__ = "+".join(one.__key__ for one in samples)
        return first


class Edited:
    """A run of several starts, each with its own mix and number of ranks."""

    def __init__(self, folder: Path, encoder: type[DefaultTaskEncoder[Any, Any, Any, Any]]) -> None:
        self.folder = folder
        self.made: Trained = []
        self._encoder = encoder
        self._options: dict[str, Any] = {} if encoder is DefaultTaskEncoder else {"packing_buffer_size": 5}
        self._loaders: list[Any] = []

    def train(self, mix: Path, steps: int, *, ranks: int, workers: int = 0, by_rank: bool = False) -> None:
        """Restart with a mix on some ranks, and make some steps."""
        states = [loader.save_state_rank() for loader in self._loaders]
        self.close()
        for rank in range(ranks):
            config = WorkerConfig(rank=rank, world_size=ranks, num_workers=workers, lanes=LANES, seed_offset=3)
            dataset = get_train_dataset(
                mix,
                worker_config=config,
                batch_size=3,
                shuffle_buffer_size=20,
                max_samples_per_sequence=5,
                task_encoder=self._encoder(),
                **self._options,
            )
            loader = get_savable_loader(dataset, trace_dir=self.folder / "log")
            if by_rank:
                loader.restore_state_rank(states[rank], allow_mix_change=True)
            else:
                loader.restore_state_global(states or None, allow_mix_change=True)
            self._loaders.append(loader)
        streams = [iter(loader) for loader in self._loaders]
        self.made += [[next(stream) for stream in streams] for _ in range(steps)]

    def save(self, name: str) -> str:
        """Write a checkpoint, a file for each rank, and return its folder."""
        folder = self.folder / name
        folder.mkdir()
        for rank, loader in enumerate(self._loaders):
            (folder / f"rank{rank}.json").write_text(json.dumps(loader.save_state_rank()))
        return str(folder)

    def replayed(self, step: int) -> Any:
        """Rebuild the micro-batch of a step on rank 0 by its loader."""
        return self._loaders[0].replay(step)

    def close(self) -> None:
        for loader in self._loaders:
            loader.close()
        self._loaders = []


def write_mix(path: Path, **weights: float) -> Path:
    blend = [{"weight": weight, "path": name} for name, weight in weights.items()]
    document = {"__module__": "megatron.energon", "__class__": "MetadatasetV2", "splits": {"train": {"blend": blend}}}
    path.write_text(yaml.safe_dump(document))
    return path


@pytest.fixture
def energon(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> RunEnergon:
    return run_in_this_process(capfd, monkeypatch)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    for name, first in (("a", 0), ("b", 1000), ("c", 2000)):
        write_texts(folder / name, train=(41, 13, 30), val=(17,), first=first)
    write_mix(folder / "first.yaml", a=3, b=1)
    write_mix(folder / "second.yaml", c=2, a=1)  # b is gone
    write_mix(folder / "third.yaml", b=1, c=1, a=2)  # b is back
    return folder


def keys_of(batch: Any) -> list[str]:
    return [key for pack in batch.__key__ for key in pack.split("+")]


def is_of(name: str, key: str) -> bool:
    return key.partition("/")[2].startswith({"a": "00", "b": "01", "c": "02"}[name])


def rows_of(run: RestoredRun, step: int) -> list[list[str]]:
    """Return the traced keys of a step, by rank; those of datasets that left the mix are empty."""
    found: dict[int, list[str]] = {}
    for one in trace_step(run, step):
        found.setdefault(one.rank, []).append(one.key)
    return [found[rank] for rank in sorted(found)]


def assert_traced(run: RestoredRun, made: Trained, *, gone: str = "") -> None:
    """Assert that each step is traced, apart from the keys of datasets that left the mix."""
    for step, batches in enumerate(made):
        expected = [["" if is_of(gone, key) else key for key in keys_of(one)] for one in batches] if gone else None
        assert rows_of(run, step) == (expected or [keys_of(one) for one in batches]), f"step {step}"


def uses(made: Trained, key: str) -> Counter[tuple[int, int]]:
    return Counter(
        (step, rank)
        for step, batches in enumerate(made)
        for rank, one in enumerate(batches)
        for name in keys_of(one)
        if name == key
    )


def found_uses(samples: Iterator[TracedSample]) -> Counter[tuple[int, int]]:
    return Counter((one.step, one.rank) for one in samples)


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.sampled(2)
def test_each_step_of_a_run_that_is_edited_twice_is_traced_from_each_checkpoint(
    data: Path, tmp_path: Path, workers: int, energon: RunEnergon
) -> None:
    run = Edited(tmp_path, DefaultTaskEncoder)
    first, second, third = (data / f"{name}.yaml" for name in ("first", "second", "third"))
    run.train(first, 9, ranks=2, workers=workers)
    assert_traced(open_run(run.save("first"), dataset=str(first)), run.made)
    run.train(second, 8, ranks=2, workers=workers, by_rank=True)  # each rank knows its own lanes alone
    states = run.save("second")
    known = open_run(states, dataset=str(second))
    assert known.steps == 17
    assert_traced(known, run.made, gone="b")
    assert_traced(open_run(str(tmp_path / "log"), dataset=str(second)), run.made, gone="b")

    # Steps after the checkpoint, on other ranks.
    run.train(second, 6, ranks=1)
    four = run.save("four")
    assert_traced(open_run(four, dataset=str(second)), run.made, gone="b")
    later = [rows_of(known, step) for step in range(17, 20)]
    assert [key for step in later for rank in step for key in rank] == [
        key for batches in run.made[17:] for one in batches for key in keys_of(one)
    ]

    run.train(third, 7, ranks=4, workers=workers)
    states = run.save("third")
    known = open_run(states, dataset=str(third))
    assert_traced(known, run.made)  # b is in the mix again, so its earlier samples have names
    assert_traced(open_run(str(tmp_path / "log"), dataset=str(third)), run.made)
    for key in {keys_of(batches[0])[0] for batches in run.made}:
        assert found_uses(steps_of_key(known, key, steps=known.steps)) == uses(run.made, key)

    step, keys, used = next(
        (step, keys_of(batches[1]), key)
        for step, batches in enumerate(run.made[:9])
        for key in keys_of(batches[1])
        if is_of("b", key)
    )
    done = energon("trace", states, "--dataset", third, "--step", step, "--rank", 1, "--json")
    assert [json.loads(line)["key"] for line in done.out.splitlines()] == keys
    done = energon("trace", states, "--dataset", third, "--key", used)
    assert f"step {step}  rank 1  {keys.index(used)}  {used}" in done.out
    done = energon("trace", tmp_path / "second", "--dataset", second, "--step", step, "--rank", 1)
    assert "of a dataset that left the mix" in done.out
    run.close()


def test_micro_batches_around_an_edit_are_replayed_or_refused(data: Path, tmp_path: Path) -> None:
    run = Edited(tmp_path, DefaultTaskEncoder)
    run.train(data / "first.yaml", 9, ranks=1)
    run.train(data / "second.yaml", 12, ranks=1)
    known = open_run(run.save("states"), dataset=str(data / "second.yaml"))
    refused = 0
    for step, [batch] in enumerate(run.made):
        if any(is_of("b", key) for key in keys_of(batch)):
            refused += 1
            for replay in (lambda at=step: run.replayed(at), lambda at=step: known.replay(at)):
                with pytest.raises(StateError, match="a dataset that has left the mix"):
                    replay()
            continue
        assert keys_of(run.replayed(step)) == keys_of(batch)
        assert keys_of(known.replay(step)[0]) == keys_of(batch)
    assert 2 < refused < 9
    run.close()


def test_packs_around_edits_are_traced_by_the_log_and_rebuilt_with_the_hooks(data: Path, tmp_path: Path) -> None:
    run = Edited(tmp_path, Dropping)
    first, third = data / "first.yaml", data / "third.yaml"
    run.train(first, 8, ranks=2)
    run.train(third, 9, ranks=1, workers=2)
    run.train(first, 6, ranks=2)
    states = run.save("states")
    log = open_run(str(tmp_path / "log"), dataset=str(first), task_encoder=Dropping())
    assert_traced(log, run.made, gone="c")
    for key in {keys_of(run.made[step][0])[0] for step in (0, 5, 9, 20)}:
        if not is_of("c", key):
            assert found_uses(steps_of_key(log, key, steps=23)) == uses(run.made, key)
    # Rebuilt from the last checkpoint: the steps before the edits, none of whose datasets is gone.
    rebuilt = open_run(states, dataset=str(first), task_encoder=Dropping())
    for step in range(8):
        assert rows_of(rebuilt, step) == [keys_of(one) for one in run.made[step]]
    numbers = [number for step in range(17, 23) for number in log.run.steps.batches(step)]
    assert [keys_of(log.replay(number)[0]) for number in numbers] == [
        keys_of(one) for batches in run.made[17:] for one in batches
    ]
    run.close()


def test_packs_before_an_edit_are_rebuilt_unless_a_dataset_of_them_is_gone(data: Path, tmp_path: Path) -> None:
    run = Edited(tmp_path, Dropping)
    run.train(data / "first.yaml", 12, ranks=1)
    run.train(data / "second.yaml", 3, ranks=1)
    rebuilt = open_run(run.save("states"), dataset=str(data / "second.yaml"), task_encoder=Dropping())
    refused = 0
    for step, [batch] in enumerate(run.made[:12]):
        try:
            assert keys_of(rebuilt.replay(step)[0]) == keys_of(batch)
        except StateError as error:
            assert "a dataset that has left the mix" in str(error)  # noqa: PT017 - of some steps
            refused += 1
    assert refused
    run.close()


def test_an_edited_state_is_refused_before_a_step_is_rebuilt(data: Path, tmp_path: Path) -> None:
    run = Edited(tmp_path, Dropping)
    run.train(data / "first.yaml", 9, ranks=1)
    folder = Path(run.save("states"))
    run.close()
    state = json.loads((folder / "rank0.json").read_text())
    state["lane"]["1"]["0 read"] = -1
    (folder / "rank0.json").write_text(json.dumps(state))
    with pytest.raises(StateError, match="this state is damaged or was edited"):
        open_run(str(folder), dataset=str(data / "first.yaml"), task_encoder=Dropping())
