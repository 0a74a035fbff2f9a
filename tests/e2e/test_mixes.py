"""Metadatasets, JSONL files and auxiliary stores in training: frequencies, contents and exact resume."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from loader import (
    BlendDataset,
    ConfigError,
    Cooker,
    EnergonError,
    EPath,
    SampleDecoder,
    SavableDataset,
    TaskEncoder,
    TextSample,
    WorkerConfig,
    basic_sample_keys,
    cooker,
    get_loader,
    get_train_dataset,
    get_val_dataset,
    get_val_datasets,
)
from loader.stores.file_store_cache_pool import FileStoreCachePool
from tests.e2e.drawing_encoders import Augmented, Grouping, Packing, Restorable
from tests.e2e.mixed_data import MixedData, write_mixed_data
from tests.elastic_runs import Pipeline, Spread, check_every_save

ONE = WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=4)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> MixedData:
    return write_mixed_data(tmp_path_factory.mktemp("mixes"))


def numbers(samples: Sequence[TextSample]) -> list[int]:
    return [int(sample.text.split()[-1]) for sample in samples]


class Plain(TaskEncoder[Any, Any, Any, Any]):
    """Encoder that keeps samples unchanged."""


def train(path: Path, config: WorkerConfig = ONE, **options: Any) -> SavableDataset[Any]:
    defaults = {"batch_size": None, "shuffle_buffer_size": 20, "max_samples_per_sequence": 5, "task_encoder": Plain()}
    return get_train_dataset(path, worker_config=config, **defaults | options)


def read(path: Path, count: int | None = None, **options: Any) -> list[TextSample]:
    return list(islice(get_loader(train(path, **options)), count))


def of(found: Sequence[int], low: int, high: int) -> int:
    return sum(low <= number < high for number in found)


# ----------------------------------------------------------------------------------------------- what comes how often


def test_leaves_come_by_their_weights_also_through_nested_blends(data: MixedData) -> None:
    data.write("inner.yaml", {"train": {"blend": [{"weight": 1, "path": "texts"}, {"weight": 3, "path": "more"}]}})
    path = data.write(
        "outer.yaml",
        {
            "train": {
                "blend": [{"weight": 4, "path": "inner.yaml"}, {"weight": 1, "path": "texts", "split_part": "val"}]
            }
        },
    )
    found = numbers(read(path, 2000))
    assert of(found, 0, 157) == pytest.approx(400, abs=12)
    assert of(found, 5000, 5040) == pytest.approx(1200, abs=12)
    assert of(found, 157, 218) == pytest.approx(400, abs=12)


def test_repetitions_are_exact_in_a_pass_and_fractions_take_a_part_of_the_samples(data: MixedData) -> None:
    path = data.write(
        "epochized.yaml",
        {"train": {"blend_epochized": [{"repetitions": 2, "path": "more"}, {"repetitions": 0.5, "path": "texts"}]}},
    )
    counts = Counter(numbers(read(path, repeat=False)))
    assert all(counts[number] == 2 for number in range(5000, 5040))
    once = [number for number in range(157) if counts[number]]
    assert len(once) == int(157 * 0.5)
    assert counts.total() == 80 + len(once)


def test_repetitions_without_end_come_in_proportion(data: MixedData) -> None:
    path = data.folder / "epochized.yaml"
    test_repetitions_are_exact_in_a_pass_and_fractions_take_a_part_of_the_samples(data)
    found = numbers(read(path, 1585))
    assert of(found, 5000, 5040) == pytest.approx(800, abs=16)


def test_a_blend_by_weight_has_no_pass(data: MixedData) -> None:
    path = data.write("weights.yaml", {"train": {"blend": [{"path": "texts"}, {"path": "more"}]}})
    with pytest.raises(ConfigError, match="a blend by weight has no end, and repeat=False requires one") as caught:
        train(path, repeat=False)
    assert "blend_epochized" in str(caught.value)


def test_a_pass_without_a_sample_is_refused(data: MixedData) -> None:
    path = data.write("little.yaml", {"train": {"blend_epochized": [{"repetitions": 0.001, "path": "more"}]}})
    with pytest.raises(ConfigError, match=r"repetitions \[0\.001\] select no samples"):
        train(path, repeat=False)
    assert len(read(path, 3)) == 3


def test_datasets_of_different_runs_are_not_blended(data: MixedData) -> None:
    parts = [train(data.texts, replace(ONE, lanes=lanes)) for lanes in (4, 8)]
    with pytest.raises(ConfigError, match="worker configs with lanes=4 and lanes=8"):
        BlendDataset((parts[0], 1), (parts[1], 1))


def test_what_is_no_dataset_or_no_pool_is_told(data: MixedData) -> None:
    with pytest.raises(TypeError, match="found DataLoader"):
        get_loader(get_loader(train(data.texts)))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="expected a CachePool such as FileStoreCachePool"):
        get_loader(train(data.texts), cache_pool="/tmp")  # type: ignore[arg-type]


def test_subsets_of_a_leaf_share_no_sample_and_leave_none_out(data: MixedData) -> None:
    found = []
    for name, some in (("low", ["0%", "40%"]), ("high", ["40%", "100%"])):
        path = data.write(f"{name}.yaml", {"train": {"path": "texts", "subset": {"range": some}}})
        found += numbers(read(path, repeat=False))
    assert sorted(found) == list(range(157))
    path = data.write("some.yaml", {"train": {"path": "texts", "subset": {"range": [50, "end"]}}})
    assert sorted(numbers(read(path, repeat=False))) == list(range(50, 157))


def test_a_leaf_that_is_reached_twice_comes_in_two_orders_and_is_warned_of(data: MixedData) -> None:
    path = data.write("twice.yaml", {"train": {"blend": [{"path": "texts"}, {"path": "texts"}]}})
    with pytest.warns(UserWarning, match=r"splits.train.blend\[0\]"):
        dataset = train(path)
    found = numbers(list(islice(get_loader(dataset), 314)))
    pairs = list(zip(found[::2], found[1::2], strict=True))
    assert sum(one == other for one, other in pairs) < 10
    assert max(Counter(found).values()) <= 4


# -------------------------------------------------------------------------------------------------------- validation


def test_validation_takes_the_leaves_one_after_another(data: MixedData) -> None:
    path = data.write("val.yaml", {"val": {"blend": [{"weight": 9, "path": "more"}, {"weight": 1, "path": "texts"}]}})
    loader = get_loader(get_val_dataset(path, worker_config=ONE, batch_size=None, task_encoder=Plain()))
    for _ in range(2):
        assert numbers(list(loader)) == [*range(5040, 5045), *range(157, 218)]


def test_validation_datasets_come_one_by_one_with_their_sources(data: MixedData) -> None:
    path = data.write(
        "vals.yaml", {"val": {"blend": [{"path": "more", "subflavors": {"kind": "m"}}, {"path": "texts"}]}}
    )
    found = get_val_datasets(path, worker_config=ONE, batch_size=None, task_encoder=Plain())
    assert [source.path for _, source in found] == [EPath(data.more), EPath(data.texts)]
    assert [source.paths for _, source in found] == [[EPath(data.more)], [EPath(data.texts)]]
    assert [source.name for _, source in found] == ["more", "texts"]
    assert [source.place for _, source in found] == ["splits.val.blend[0]", "splits.val.blend[1]"]
    assert not any(source.training for _, source in found)
    assert [source.subflavors for _, source in found] == [{"kind": "m"}, {}]
    assert [len(list(get_loader(dataset))) for dataset, _ in found] == [5, 61]


# -------------------------------------------------------------------------------- crude samples and what they need


def cook_line(sample: dict[str, Any]) -> TextSample:
    return TextSample(**basic_sample_keys(sample), text=f"{sample['json']['text']}")


@cooker(need_primary=True, need_cache=True)
def cook_all(sample: dict[str, Any], primary: Any, cache: Any, pictures: Any, notes: Any) -> TextSample:
    name = sample["__key__"].rsplit("/")[-1]
    lazy = cache.get_lazy(notes, f"{name}.txt")
    found = (primary.get(".txt"), pictures.get(f"{name}.raw", sample).decode(), lazy.get(sample))
    return TextSample(**basic_sample_keys(sample), text=" and ".join(found))


class Cooking(Restorable):
    """Encoder that cooks JSONL lines, and crude samples with their auxiliary stores."""

    decoder = SampleDecoder()
    cookers = (
        Cooker(cook_all, has_subflavors={"kind": "crude"}),
        Cooker(cook_line, has_subflavors={"kind": "lines"}),
    )


class CookingOnly(TaskEncoder[Any, Any, Any, Any]):
    """Encoder that returns cooked samples."""

    cookers = Cooking.cookers


def crude_mix(data: MixedData) -> Path:
    crude = {
        "path": "crude",
        "subflavors": {"kind": "crude"},
        "aux": {"pictures": "pictures", "notes": "filesystem://notes"},
    }
    lines = {"path": "lines.jsonl", "subflavors": {"kind": "lines"}}
    return data.write("crude.yaml", {"train": {"blend_epochized": [crude, lines]}, "val": {"path": "lines.jsonl"}})


def test_cookers_get_what_lies_beside_the_samples_and_sources_say_so(data: MixedData) -> None:
    samples = read(crude_mix(data), repeat=False, task_encoder=CookingOnly())
    by_kind = {kind: [one for one in samples if one.__subflavors__ == {"kind": kind}] for kind in ("crude", "lines")}
    assert sorted(numbers(by_kind["lines"])) == list(range(9000, 9023))
    assert sorted(numbers(by_kind["crude"])) == list(range(7000, 7030))
    for sample in by_kind["crude"]:
        (number,) = numbers([sample])
        assert sample.text == f"text {number} and picture {number} and note {number}"
        assert sample.__sources__ is not None
        assert [str(source.dataset_path) for source in sample.__sources__] == [
            str(data.crude),
            str(data.pictures),
            str(data.notes),
        ]
    line = by_kind["lines"][0]
    assert line.__key__ == f"lines.jsonl/{numbers([line])[0] - 9000}"
    assert line.__sources__ is not None
    assert str(line.__sources__[0].dataset_path) == str(data.lines)


@pytest.mark.parametrize("start_method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_worker_processes_open_stores_and_pools_of_their_own(
    data: MixedData, tmp_path: Path, start_method: str
) -> None:
    config = replace(ONE, num_workers=2)
    dataset = train(crude_mix(data), config, repeat=False, task_encoder=CookingOnly())
    pool = FileStoreCachePool(parent_cache_dir=tmp_path, num_workers=2)
    loader = get_loader(dataset, cache_pool=pool, multiprocessing_context=start_method)
    found = sorted(numbers(list(loader)))
    loader.close()
    assert found == [*range(7000, 7030), *range(9000, 9023)]


def test_a_store_that_is_not_there_is_an_error_and_no_failed_sample(data: MixedData) -> None:
    path = data.write("gone.yaml", {"train": {"path": "crude", "aux": {"pictures": "more/train_0.tar"}}})
    with pytest.raises(EnergonError, match=r"train_0\.tar"):
        read(path, 3, task_encoder=CookingOnly())


@pytest.mark.parametrize(
    ("wrong", "found"),
    [
        ({"dataset_config": "gone.yaml"}, "there is no such file"),
        ({"split_part": "gone"}, "there is no split part 'gone'"),
        ({"subset": {"range": [0, 99_999]}}, "does not fit into 40 samples"),
    ],
    ids=["dataset file", "split part", "subset"],
)
def test_what_a_dataset_of_a_mix_lacks_is_said_before_the_first_batch_and_with_its_place(
    data: MixedData, wrong: dict[str, Any], found: str
) -> None:
    path = data.write("lacking.yaml", {"train": {"blend": [{"path": "texts"}, {"path": "more"} | wrong]}})
    with pytest.raises(ConfigError, match=found) as caught:
        train(path)
    assert str(data.more) in str(caught.value)
    assert "named by splits.train.blend[1]" in str(caught.value)


@cooker(need_primary=True)
def cook_line_before(sample: dict[str, Any], primary: Any) -> TextSample:
    number = int(sample["__key__"].rpartition("/")[2])
    before = primary.get(f"{max(number - 1, 0)}.json", sample)
    return TextSample(**basic_sample_keys(sample), text=f"{before['text']}; {primary.get('.json')['text']}")


class CookingPairs(TaskEncoder[Any, Any, Any, Any]):
    cookers = (Cooker(cook_line_before),)


def test_the_primary_store_of_lines_is_the_file_itself(data: MixedData) -> None:
    samples = get_loader(get_val_dataset(data.lines, batch_size=None, task_encoder=CookingPairs()))
    texts = [sample.text for sample in islice(samples, 3)]
    assert texts == ["text 9000; text 9000", "text 9000; text 9001", "text 9001; text 9002"]


# ---------------------------------------------------------------------------------------- exactly where it stopped


class PackingCooked(Packing):
    decoder = SampleDecoder()
    cookers = Cooking.cookers


def mixed_chain(path: Path, config: WorkerConfig, *, encoder: Any = Augmented, **options: Any) -> SavableDataset[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # one case reaches a leaf twice, on purpose
        return train(path, config, **{"batch_size": 3, "task_encoder": encoder(), **options})


def blend_of_blends(data: MixedData) -> Path:
    data.write("part.yaml", {"train": {"blend": [{"weight": 1, "path": "texts"}, {"weight": 2, "path": "more"}]}})
    halves = [{"path": "texts", "weight": 2, "subset": {"range": [some, "100%"]}} for some in ("50%", "75%")]
    return data.write("blends.yaml", {"train": {"blend": [{"weight": 1, "path": "part.yaml"}, *halves]}})


def epochized(data: MixedData) -> Path:
    sources = [{"repetitions": 0.3, "path": "texts"}, {"repetitions": 2, "path": "more"}]
    return data.write("passes.yaml", {"train": {"blend_epochized": sources}})


CASES: dict[str, tuple[Callable[[MixedData], Path], dict[str, Any], int | None, bool]] = {
    "blend of blends": (blend_of_blends, {}, 36, True),
    "crude, auxiliary stores and lines": (crude_mix, {"encoder": Cooking}, 30, True),
    "packing over a blend": (blend_of_blends, {"encoder": Packing, "packing_buffer_size": 9}, 24, True),
    "packing of cooked samples": (crude_mix, {"encoder": PackingCooked, "packing_buffer_size": 8}, 20, True),
    "grouping over a blend": (blend_of_blends, {"encoder": Grouping}, 30, True),
    "one pass of repetitions": (epochized, {"repeat": False}, None, True),
    "repetitions without end": (epochized, {}, 36, True),
}


@pytest.mark.parametrize("every", [5, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.sampled(6)
def test_a_mix_goes_on_exactly_where_it_stopped(name: str, every: int, data: MixedData) -> None:
    write, options, batches, known_ahead = CASES[name]
    build = partial(mixed_chain, write(data), **options)
    pipeline = Pipeline(build=build, batches=batches, known_ahead=known_ahead, lanes=12)
    check_every_save(pipeline, Spread(2), every=every)


@pytest.mark.slow
def test_a_mix_goes_on_under_other_worker_processes(data: MixedData) -> None:
    pipeline = Pipeline(build=partial(mixed_chain, crude_mix(data), encoder=Cooking), batches=20, lanes=12)
    check_every_save(pipeline, Spread(1, 2), [Spread(2, 1), Spread(3, 2)], every=9)


def cook_never(sample: dict[str, Any], **aux: Any) -> TextSample:
    raise ValueError("a cooker with a fault")


class OneBroken(TaskEncoder[Any, Any, Any, Any]):
    """Encoder that cooks lines, and fails for every sample of the other dataset."""

    cookers = (
        Cooker(cook_never, has_subflavors={"kind": "crude"}),
        Cooker(cook_line, has_subflavors={"kind": "lines"}),
    )


def test_a_cooker_that_works_does_not_hide_one_that_never_does(data: MixedData) -> None:
    kinds = [
        {"path": "crude", "subflavors": {"kind": "crude"}},
        {"path": "lines.jsonl", "subflavors": {"kind": "lines"}},
    ]
    path = data.write("broken.yaml", {"train": {"blend": kinds}})
    with pytest.raises(EnergonError, match="cook_never failed 100 times in a row"):
        read(path, 1000, task_encoder=OneBroken())
