"""Traces of runs whose weights are shares of volumes are those of the real runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loader import (
    ConfigError,
    SkipSample,
    StateError,
    TaskEncoder,
    TextSample,
    WorkerConfig,
    get_savable_loader,
    get_train_dataset,
    sample_size_metric,
)
from loader.dataset.opening import folder_at
from loader.format.columns.column_files import write_column
from loader.inspect.runs import PlannedRun, RunRequest, explain_run, open_run, steps_of_key, trace_step
from tests.e2e.mixed_data import MixedData, write_mixed_data

LANES = 4


def size_of(number: int) -> int:
    return 90 if number % 9 == 2 else 1 + number % 7


class Counting(TaskEncoder[Any, Any, Any, Any]):
    """Skips some samples and repeats others, and counts tokens."""

    def encode_sample(self, sample: TextSample) -> Iterator[TextSample]:
        if number_of(sample) % 6 == 1:
            raise SkipSample
        yield sample
        if number_of(sample) % 5 == 0:
            yield sample

    @sample_size_metric
    def tokens(self, sample: TextSample) -> int:
        return size_of(number_of(sample))

    @sample_size_metric
    def words(self, sample: TextSample) -> int:
        return size_of(number_of(sample))


def number_of(sample: TextSample) -> int:
    return int(sample.text.split()[-1])


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> MixedData:
    data = write_mixed_data(tmp_path_factory.mktemp("traced"))
    for path in (data.texts, data.more):
        opened = folder_at(str(path))
        sizes = [size_of(int(opened.index.key(row))) for row in range(len(opened.index))]
        write_column(opened.storage, opened.index, "tokens", np.array(sizes))
    opened = folder_at(str(data.texts))
    write_column(opened.storage, opened.index, "words", np.full(len(opened.index), 3))
    inner = [{"weight": 1, "path": "more", "split_part": "val"}, {"weight": 2, "path": "texts", "split_part": "val"}]
    data.write("inner.yaml", {"train": {"blend": inner}})
    for unit in ("tokens", "words"):
        entries = [{"weight": 3, "path": "texts"}, {"weight": 1, "path": "more"}, {"weight": 1, "path": "inner.yaml"}]
        data.write(f"{unit}.yaml", {"train": {"blend": entries, "blend_weight_unit": unit}})
    data.write(
        "edited.yaml", {"train": {"blend": [{"path": "texts"}, {"path": "more"}], "blend_weight_unit": "tokens"}}
    )
    for name, times in (("steps", 1), ("samples", 4)):
        weights = [{0: 3, 10 * times: 0, 15 * times: 1}, {0: 0, 20 * times: 1}]
        scheduled: list[Any] = [
            {"weight": {"unit": name, "at": at}, "path": path}
            for at, path in zip(weights, ("texts", "inner.yaml"), strict=True)
        ]
        entries = [scheduled[0], {"weight": 1, "path": "more"}, scheduled[1]]
        data.write(f"{name}.yaml", {"train": {"blend": entries, "blend_weight_unit": "tokens"}})
    return data


def run_of(data: MixedData, unit: str, encoder: Any, *, rank: int = 0, ranks: int = 1, **options: Any) -> Any:
    config = WorkerConfig(rank=rank, world_size=ranks, num_workers=0, lanes=LANES)
    dataset = get_train_dataset(
        data.folder / f"{unit}.yaml",
        worker_config=config,
        task_encoder=encoder,
        batch_size=2,
        shuffle_buffer_size=20,
        max_samples_per_sequence=5,
    )
    return get_savable_loader(dataset, **options)


def delivered(data: MixedData, unit: str, encoder: Any, steps: int, **options: Any) -> tuple[list[Any], list[Any]]:
    """Return the numbers of samples of each step and rank, and the states of two ranks."""
    loaders = [run_of(data, unit, encoder, rank=rank, ranks=2, **options) for rank in range(2)]
    iterators = [iter(loader) for loader in loaders]
    found = [[[int(text.split()[-1]) for text in next(one).text] for one in iterators] for _ in range(steps)]
    states = [loader.save_state_rank() for loader in loaders]
    for loader in loaders:
        loader.close()
    return found, states


def traced(run: Any, step: int) -> list[list[int]]:
    numbers: list[list[int]] = [[], []]
    for sample in trace_step(run, step):
        numbers[sample.rank].append(int(sample.key.rpartition("/")[2]))
    return numbers


def planned(data: MixedData, unit: str, **options: Any) -> PlannedRun:
    defaults: dict[str, Any] = {"batch_size": 2, "world_size": 2, "lanes": LANES}
    request = RunRequest(
        path=str(data.folder / f"{unit}.yaml"), shuffle_buffer_size=20, max_samples_per_sequence=5, **defaults
    )
    return PlannedRun(replace(request, **options))


def write_states(path: Path, states: list[Any]) -> str:
    path.write_text(json.dumps(states))
    return str(path)


class Nothing(TaskEncoder[Any, Any, Any, Any]):
    pass


@pytest.mark.parametrize("name", ["tokens", "steps", "samples"])
@pytest.mark.sampled(3)
def test_a_run_by_columns_is_traced_by_its_arguments_and_by_a_checkpoint(
    data: MixedData, tmp_path: Path, name: str
) -> None:
    found, states = delivered(data, name, Nothing(), 30)
    run = planned(data, name)
    checkpoint = open_run(write_states(tmp_path / "state.json", states), dataset=str(data.folder / f"{name}.yaml"))
    for step in (0, 3, 17, 29):
        assert traced(run, step) == found[step]
        assert traced(checkpoint, step) == found[step]
    later = delivered(data, name, Nothing(), 36)[0]
    assert traced(checkpoint, 35) == later[35]
    key = next(trace_step(run, 5)).key
    expected = [
        (step, rank)
        for step, ranks in enumerate(found)
        for rank, numbers in enumerate(ranks)
        for number in numbers
        if number == int(key.rpartition("/")[2])
    ]
    assert sorted((use.step, use.rank) for use in steps_of_key(run, key, steps=30)) == expected


@pytest.mark.parametrize("name", ["tokens", "steps", "samples"])
def test_a_run_by_a_metric_is_traced_with_its_hooks_or_its_log(data: MixedData, tmp_path: Path, name: str) -> None:
    log = tmp_path / "log"
    found, states = delivered(data, name, Counting(), 30, trace_dir=log)
    path, dataset = write_states(tmp_path / "state.json", states), str(data.folder / f"{name}.yaml")
    for run in (
        open_run(path, dataset=dataset, task_encoder=Counting()),
        open_run(str(log), dataset=dataset),
    ):
        for step in (0, 3, 17, 29):
            assert traced(run, step) == found[step]
    with pytest.raises(StateError, match="depends on sizes that a metric of its task encoder counted"):
        open_run(path, dataset=dataset)
    by_arguments = planned(data, name, task_encoder=Counting())
    assert traced(by_arguments, 11) == found[11]
    key = next(iter(trace_step(by_arguments, 5))).key
    number = int(key.rpartition("/")[2])
    expected = [
        (step, rank)
        for step, ranks in enumerate(found)
        for rank, numbers in enumerate(ranks)
        for one in numbers
        if one == number
    ]
    logged = open_run(str(log), dataset=dataset)
    assert sorted((use.step, use.rank) for use in steps_of_key(logged, key, steps=30)) == expected


def test_a_run_whose_sizes_are_not_known_is_not_traced(data: MixedData) -> None:
    with pytest.raises(ConfigError, match="depends on the sizes of its samples in 'words', which are not known"):
        traced(planned(data, "words"), 3)


def test_explain_gives_the_expected_shares(data: MixedData) -> None:
    facts = explain_run(planned(data, "tokens"), 2000)
    loader = run_of(data, "tokens", Nothing())
    counts = dict.fromkeys(("texts", "more"), 0)
    for step, batch in enumerate(loader):
        for text in batch.text:
            counts["more" if int(text.split()[-1]) >= 5000 else "texts"] += 1
        if step == 999:
            break
    loader.close()
    shares = [one.share_got for one in facts.sources]
    assert sum(one.share_asked for one in facts.sources) == pytest.approx(1)
    assert [one.share_asked for one in facts.sources[:2]] == pytest.approx([0.6, 0.2])
    assert shares[0] + shares[3] == pytest.approx(counts["texts"] / 2000, abs=0.02)
    assert facts.notes == (
        "weights are shares of 'tokens': asked is a share of the volume, got an expected share of the samples",
    )


def test_explain_gives_the_expected_shares_of_each_stretch(data: MixedData) -> None:
    facts = explain_run(planned(data, "steps", batch_size=16), 40)
    assert [one.steps for one in facts.stretches] == [(0, 10), (10, 15), (15, 20), (20, 40)]
    first, second, *_, last = facts.stretches
    assert first.shares_asked == pytest.approx((0.75, 0.25, 0, 0))
    assert second.shares_asked == pytest.approx((0, 1, 0, 0))
    assert last.shares_asked == pytest.approx((1 / 3, 1 / 3, 1 / 9, 2 / 9))
    texts, more = (float(np.mean([size_of(one) for one in numbers])) for numbers in (range(157), range(5000, 5040)))
    amounts = 3 / texts, 1 / more
    assert first.shares_got == pytest.approx((amounts[0] / sum(amounts), amounts[1] / sum(amounts), 0, 0), abs=0.01)
    assert second.shares_got == pytest.approx((0, 1, 0, 0))
    assert facts.sources[0].share_asked == pytest.approx((10 * 0.75 + 5 * 0.5 + 20 / 3) / 40)
    assert "weights are shares of 'tokens'" in facts.notes[0]


def test_explain_says_what_it_cannot_know(data: MixedData) -> None:
    facts = explain_run(planned(data, "words"), 100)
    assert len(facts.notes) == 2
    assert f"the sizes of samples in 'words' are not known for {data.more}" in facts.notes[1]
    assert f"energon stats {data.more} --write words" in facts.notes[1]


def test_explain_names_the_unit_that_is_probably_meant(data: MixedData) -> None:
    path = data.folder / "misspelt.yaml"
    path.write_text((data.folder / "tokens.yaml").read_text().replace("tokens", "tokesn"))
    facts = explain_run(planned(data, "misspelt"), 100)
    assert facts.notes[1].endswith("count as the mean of the others; did you mean 'tokens'?")


def test_steps_before_an_edit_are_not_made_again_by_another_mix(data: MixedData, tmp_path: Path) -> None:
    _, states = delivered(data, "tokens", Nothing(), 10)
    loaders = [run_of(data, "edited", Nothing(), rank=rank, ranks=2) for rank in range(2)]
    for loader in loaders:
        loader.restore_state_global(states, allow_mix_change=True)
    iterators = [iter(loader) for loader in loaders]
    for _ in range(6):
        for one in iterators:
            next(one)
    states = [loader.save_state_rank() for loader in loaders]
    dataset = str(data.folder / "edited.yaml")
    checkpoint = open_run(write_states(tmp_path / "state.json", states), dataset=dataset)
    for step in (3, 12):
        with pytest.raises(StateError, match="micro-batches between that change and the state"):
            traced(checkpoint, step)
    later = [[[int(text.split()[-1]) for text in next(one).text] for one in iterators] for _ in range(4)]
    assert [traced(checkpoint, 16 + step) for step in range(4)] == later
    with pytest.raises(StateError, match="micro-batches between that change and the state"):
        loaders[0].replay(3)
