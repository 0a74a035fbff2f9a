"""Runs with blends by counted volumes: after packing, from columns, nested; on other ranks, with killed workers."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch.utils.data import get_worker_info

from loader import (
    BlendDataset,
    ConfigError,
    EnergonError,
    SkipSample,
    TaskEncoder,
    TextSample,
    WorkerConfig,
    get_loader,
    get_savable_loader,
    get_train_dataset,
    sample_size_metric,
)
from loader.dataset.opening import folder_at
from loader.format.columns.column_files import write_column, write_map_column
from loader.pipeline.reading import read_together
from tests.e2e.drawing_encoders import Augmented, Cooking, PackingTwice, number_in
from tests.e2e.drawing_pipelines import ignore
from tests.e2e.mixed_data import MixedData, write_mixed_data
from tests.e2e.test_worker_replacement import pids_of
from tests.elastic_runs import Pipeline, Spread, check_every_save

pytestmark = pytest.mark.filterwarnings("ignore:samples of .* are reached twice")

ONE = WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=4)


def tokens_of(number: int) -> int:
    """Return a size of a heavy tail: 1 to 20, and for one in ten 200."""
    return 200 if number % 10 == 3 else 1 + number * 7 % 20


class Sized(Augmented):
    """Encoder that draws random numbers, skips and repeats samples, and has metrics."""

    def encode_sample(self, sample: TextSample) -> Iterator[Any]:
        if number_in(sample) % 7 == 3:
            raise SkipSample
        yield super().encode_sample(sample)
        if number_in(sample) % 5 == 0:
            yield super().encode_sample(sample)

    @sample_size_metric
    def tokens(self, sample: TextSample) -> int:
        return tokens_of(number_in(sample))

    @sample_size_metric("pages")
    def count_pages(self, sample: TextSample) -> float:
        return 0.25 + number_in(sample) % 3


class SizedCooking(Cooking):
    @sample_size_metric
    def tokens(self, sample: TextSample) -> int:
        return tokens_of(number_in(sample))


class SizedPacks(PackingTwice):
    """Packs samples; the metric counts the letters of a pack."""

    @sample_size_metric(after="packing")
    def letters(self, pack: TextSample) -> int:
        return len(pack.text)

    @sample_size_metric
    def tokens(self, sample: TextSample) -> int:
        return tokens_of(number_in(sample))


class Plain(TaskEncoder[Any, Any, Any, Any]):
    pass


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> MixedData:
    data = write_mixed_data(tmp_path_factory.mktemp("volumes"))
    for path in (data.texts, data.more, data.crude):
        opened = folder_at(str(path))
        numbers = [int(opened.index.key(row)) for row in range(len(opened.index))]
        write_column(opened.storage, opened.index, "tokens", np.array([tokens_of(number) for number in numbers]))
    entries = [{"weight": 2, "path": "texts"}, {"weight": 1, "path": "more"}]
    for unit in ("tokens", "pages", "letters"):
        data.write(f"{unit}.yaml", {"train": {"blend": entries, "blend_weight_unit": unit}})
    crude = [*entries, {"weight": 1, "path": "crude"}]
    data.write("crude.yaml", {"train": {"blend": crude, "blend_weight_unit": "tokens"}})
    samples = [{"weight": 1, "path": "texts"}, {"weight": 1, "path": "more", "split_part": "val"}]
    data.write("samples.yaml", {"train": {"blend": samples}})
    nested = [{"weight": 3, "path": "pages.yaml"}, {"weight": 1, "path": "samples.yaml"}]
    data.write("nested.yaml", {"train": {"blend": nested, "blend_weight_unit": "tokens"}})
    outer = [{"weight": 1, "path": "tokens.yaml"}, {"weight": 1, "path": "more"}]
    data.write("outer.yaml", {"train": {"blend": outer}})
    data.write("early.yaml", {"train": {"blend": [{"path": "letters.yaml"}, {"path": "more"}]}})
    below = [{"path": "letters.yaml"}, {"path": "more"}]
    data.write("below.yaml", {"train": {"blend": below, "blend_weight_unit": "tokens"}})
    data.write("lines.yaml", {"train": {"blend": [*entries, {"path": "lines.jsonl"}], "blend_weight_unit": "tokens"}})
    return data


def train(data: MixedData, name: str, encoder: type[Any], config: WorkerConfig = ONE, **options: Any) -> Any:
    defaults = {"batch_size": 3, "shuffle_buffer_size": 20, "max_samples_per_sequence": 5}
    return get_train_dataset(
        data.folder / name,
        worker_config=replace(config, global_error_handler=ignore),
        task_encoder=encoder(),
        **defaults | options,
    )


CASES: dict[str, tuple[str, type[Any], dict[str, Any]]] = {
    "metric": ("tokens.yaml", Sized, {}),
    "nested units": ("nested.yaml", Sized, {}),
    "samples above tokens": ("outer.yaml", Sized, {}),
    "packing after the metric": ("tokens.yaml", SizedPacks, {"packing_buffer_size": 7}),
    "packing before the metric": ("letters.yaml", SizedPacks, {"packing_buffer_size": 7}),
    "column": ("crude.yaml", Cooking, {}),
    "column, packing": ("tokens.yaml", PackingTwice, {"packing_buffer_size": 7}),
    "crude": ("crude.yaml", SizedCooking, {}),
}


@pytest.mark.parametrize("every", [7, pytest.param(4, marks=pytest.mark.slow)])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.sampled(6)
def test_a_run_continues_exactly_on_other_ranks_and_workers(data: MixedData, case: str, every: int) -> None:
    name, encoder, options = CASES[case]
    if encoder is Cooking or encoder is SizedCooking:
        options = {**options, "batch_size": 2}
    pipeline = Pipeline(build=partial(train, data, name, encoder, **options), batches=20, lanes=4)
    check_every_save(pipeline, Spread(2), [Spread(1), Spread(4), Spread(1, 2), Spread(2, 1)], every=every)


def numbers(dataset: Any, count: int) -> list[int]:
    """Return the numbers of the first samples of a run with one lane."""
    return [number_in(sample) for sample in islice(get_loader(dataset), count)]


def check_shares(found: list[int], size: Any) -> None:
    """Check the volumes of samples below 5000, and of others, for the weights 2 and 1, at every step."""
    small = large = 0.0
    largest = max(map(size, found))
    for one in found:
        small, large = (small + size(one), large) if one < 5000 else (small, large + size(one))
        assert abs(small - 2 / 3 * (small + large)) <= largest


def test_a_column_is_counted_before_decoding(data: MixedData) -> None:
    alone = WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=1)
    dataset = train(data, "tokens.yaml", Plain, alone, batch_size=None)
    assert str(dataset).startswith("decode(")
    check_shares(numbers(dataset, 1000), tokens_of)


def test_packs_are_counted_after_packing(data: MixedData) -> None:
    alone = WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=1)
    dataset = train(data, "letters.yaml", SizedPacks, alone, batch_size=None, packing_buffer_size=7)
    assert str(dataset).startswith("blend(weights=[2.0, 1.0], unit=letters)")
    packs = [pack.text for pack in islice(get_loader(dataset), 300)]
    parts = [[int(part) >= 5000 for part in pack_numbers(text)] for text in packs]
    assert all(len({*part}) == 1 for part in parts)  # a pack is of one dataset
    small = sum(len(text) for text, part in zip(packs, parts, strict=True) if not part[0])
    assert small / sum(map(len, packs)) == pytest.approx(2 / 3, abs=0.01)


def pack_numbers(text: str) -> list[str]:
    return [piece.split("'")[0].split()[0] for piece in text.split("text ")[1:]]


def test_a_metric_after_packing_takes_samples_in_a_run_without(data: MixedData) -> None:
    alone = WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=1)
    dataset = train(data, "letters.yaml", SizedPacks, alone, batch_size=None)
    texts = [sample.text for sample in islice(get_loader(dataset), 600)]
    small = sum(len(text) for text in texts if int(pack_numbers(text)[0]) < 5000)
    assert small / sum(map(len, texts)) == pytest.approx(2 / 3, abs=0.01)


def test_nested_blends_count_in_their_own_units(data: MixedData) -> None:
    alone = WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=1)

    class Sizes(Plain):
        tokens, count_pages = Sized.tokens, Sized.count_pages

    dataset = train(data, "nested.yaml", Sizes, alone, batch_size=None)
    tokens, pages = [0.0, 0.0], [0.0, 0.0]
    for sample in islice(get_loader(dataset), 3000):
        _, outer, inner = sample.__restore_key__[3]
        number = number_in(sample)
        tokens[outer] += tokens_of(number)
        if outer == 0:
            pages[inner[1]] += 0.25 + number % 3
    assert tokens[0] / sum(tokens) == pytest.approx(0.75, abs=0.01)
    assert pages[0] / sum(pages) == pytest.approx(2 / 3, abs=0.01)


def test_a_blend_must_not_count_samples_above_one_that_counts_packs(data: MixedData) -> None:
    expected = "a blend counts 'tokens' in encoded samples, and a blend below it counts packs"
    with pytest.raises(ConfigError, match=expected):
        train(data, "below.yaml", SizedPacks, packing_buffer_size=7)
    assert train(data, "early.yaml", SizedPacks, packing_buffer_size=7)


def test_datasets_without_the_column_are_named(data: MixedData) -> None:
    with pytest.raises(ConfigError, match=r"missing in 1 of 3: .*lines.jsonl") as caught:
        train(data, "lines.yaml", Plain)
    assert "energon stats" in str(caught.value)
    assert "--write tokens --tokenizer tokenizer.json" in str(caught.value)


def test_a_unit_that_is_written_like_a_value_of_stats_is_told_its_column(data: MixedData) -> None:
    mix = data.folder / "chars.yaml"
    mix.write_text(
        "__module__: megatron.energon\n__class__: MetadatasetV2\nsplits: {train: {blend_weight_unit: txt.chars, "
        "blend: [{path: ./texts, weight: 1}, {path: ./more, weight: 1}]}}\n"
    )
    with pytest.raises(ConfigError, match=r"the unit 'txt\.chars', which can be no metric and no column") as caught:
        train(data, mix.name, Plain)
    assert caught.value.hint is not None
    assert f"energon stats {data.texts} --write txt.chars" in caught.value.hint
    assert caught.value.hint.endswith("blend_weight_unit: txt_chars")


def test_a_sample_without_a_value_is_named(data: MixedData, tmp_path: Path) -> None:
    other = write_mixed_data(tmp_path)
    opened = folder_at(str(other.more))
    values = np.arange(len(opened.index), dtype=np.float64)
    values[3] = np.nan
    write_column(opened.storage, opened.index, "words", values)
    entries = [{"path": "more"}, {"path": "more", "subset": {"range": [0, 10]}}]
    other.write("words.yaml", {"train": {"blend": entries, "blend_weight_unit": "words"}})
    with pytest.raises(ConfigError, match=r"column 'words' has no value for sample 'train_0.tar/05003'"):
        list(islice(get_loader(train(other, "words.yaml", Plain, batch_size=None)), 100))


def test_a_mask_marks_samples_without_a_value_and_vectors_are_no_sizes(tmp_path: Path) -> None:
    other = write_mixed_data(tmp_path)
    opened = folder_at(str(other.more))
    count = len(opened.index)
    sizes, known = np.arange(1, count + 1), np.arange(count) != 3
    write_map_column(opened.storage, opened.index, "words", np.dtype("i4"), [(sizes, known)])
    vectors, every = np.ones((count, 2)), np.ones(count, np.bool_)
    write_map_column(opened.storage, opened.index, "clip", np.dtype("f4"), [(vectors, every)], length=2)
    entries = [{"path": "more"}, {"path": "more", "subset": {"range": [0, 10]}}]
    for unit, message in (
        ("words", r"column 'words' has no value for sample 'train_0.tar/05003'"),
        ("clip", r"expected a column of numbers for a blend, found vectors in column 'clip'"),
    ):
        other.write(f"{unit}.yaml", {"train": {"blend": entries, "blend_weight_unit": unit}})
        with pytest.raises(ConfigError, match=message):
            list(islice(get_loader(train(other, f"{unit}.yaml", Plain, batch_size=None)), 100))


@pytest.mark.parametrize("located", [None, 40])
@pytest.mark.parametrize("name", ["tokens.yaml", "nested.yaml", "outer.yaml"])
@pytest.mark.sampled(4)
def test_readers_that_read_together_have_the_samples_of_each(
    data: MixedData, monkeypatch: pytest.MonkeyPatch, name: str, located: int | None
) -> None:
    if located is not None:
        for constant, value in (("_MIN_READERS", 1), ("_FIRST_SAMPLES", 2), ("_MIN_SAMPLES", 3)):
            monkeypatch.setattr(read_together, constant, value)
        monkeypatch.setattr(read_together, "_MAX_SAMPLES", located)
    together, alone = (train(data, name, Sized) for _ in range(2))
    assert blend_of(together).begin is not None
    blend_of(alone).begin = None
    loaders = [get_savable_loader(dataset) for dataset in (together, alone)]
    found = [[batch.text for batch in islice(loader, 150)] for loader in loaders]
    assert found[0] == found[1]
    assert loaders[0].save_state_rank() == loaders[1].save_state_rank()
    counts = [[replace(source, sizes={}) for source in loader.stats().sources] for loader in loaders]
    assert counts[0] == counts[1], "sizes are estimates, from the micro-batches that are timed"
    restored = get_savable_loader(train(data, name, Sized))
    restored.restore_state_rank(loaders[1].save_state_rank())
    expected = [batch.text for batch in islice(loaders[1], 30)]
    assert [batch.text for batch in islice(restored, 30)] == expected


def test_a_reader_that_cannot_read_together_finds_its_own_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for constant, value in (("_MIN_READERS", 1), ("_FIRST_SAMPLES", 2), ("_MAX_SAMPLES", 40)):
        monkeypatch.setattr(read_together, constant, value)
    other = write_mixed_data(tmp_path)
    entries = [{"path": "texts"}, {"path": "more"}]
    other.write("cut.yaml", {"train": {"blend": entries, "blend_weight_unit": "tokens"}})
    errors = []
    for is_together in (True, False):
        dataset = train(other, "cut.yaml", Sized)
        if not is_together:
            blend_of(dataset).begin = None
        with (other.more / "train_1.tar").open("r+b") as shard:
            shard.truncate(1024)
        with pytest.raises(EnergonError) as caught:
            list(islice(get_loader(dataset), 400))
        errors.append(str(caught.value))
    assert errors[0] == errors[1]
    assert "train_1.tar" in errors[0]


def blend_of(dataset: Any) -> BlendDataset[Any]:
    while not isinstance(dataset, BlendDataset):
        dataset = dataset.inputs[0]
    return dataset


class Crashing(TaskEncoder[Any, Any, Any, Any]):
    """Ends the worker at one sample."""

    def encode_sample(self, sample: TextSample) -> TextSample:
        if number_in(sample) == 5003 and get_worker_info() is not None:
            os.kill(os.getpid(), signal.SIGKILL)
        return sample

    @sample_size_metric
    def tokens(self, sample: TextSample) -> int:
        return tokens_of(number_in(sample))


def test_a_sample_that_ends_workers_is_quarantined(data: MixedData) -> None:
    config = WorkerConfig(rank=0, world_size=1, num_workers=2, lanes=4)
    with get_savable_loader(train(data, "tokens.yaml", Crashing, config, batch_size=None)) as loader:
        found = {number_in(sample) for sample in islice(loader, 1500)}
    assert set(range(5000, 5040)) - found == {5003}
    (quarantined,) = loader.save_state_rank()["quarantined"]
    assert (quarantined["dataset"], quarantined["key"]) == (str(data.more), "train_0.tar/05003")


@pytest.mark.slow
def test_killed_workers_change_no_batch(data: MixedData) -> None:
    config = WorkerConfig(rank=0, world_size=1, num_workers=2, lanes=4)

    def loader_of() -> Any:
        return get_savable_loader(train(data, "nested.yaml", Sized, config), max_worker_restarts=20)

    with loader_of() as loader:
        expected = [batch.text for batch in islice(loader, 60)]
    chosen, found = random.Random(1), []
    with loader_of() as loader:
        for number, batch in enumerate(islice(loader, 60)):
            found.append(batch.text)
            if number % 15 == 7:
                os.kill(chosen.choice(pids_of(loader)), signal.SIGKILL)
    assert found == expected
