"""Columns of vectors and texts, and masks: conditions, arrays, tables, facts, and carrying to other datasets."""

from __future__ import annotations

import io
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from rich.console import Console

from loader import open_dataset
from loader.convert.merging import MergePlan, MergeReport, run_merge
from loader.convert.resharding import ReshardPlan, ReshardReport, run_reshard
from loader.convert.rows.shard_layout import ShardLayout
from loader.convert.split_groups import find_groups
from loader.dataset.dataset import Dataset
from loader.dataset.opening import folder_at
from loader.dataset.query import SampleQuery, find_samples
from loader.errors import ConfigError
from loader.format import carry
from loader.format.columns.column import STORED, Column
from loader.format.columns.column_files import open_column, write_column, write_map_column
from loader.format.columns.column_record import column_names
from loader.format.dataset_ref import DatasetRef
from loader.format.index import publish
from loader.format.index.npy_column import ColumnReader
from loader.inspect.browse.dataset import BrowsedDataset
from loader.inspect.browse.page_document import sample_page
from loader.inspect.browse.search import statistics
from loader.inspect.facts import dataset_facts
from loader.inspect.report import show_facts
from loader.mapping import MapRequest, ToDataset, given_function, run_map, whole_dataset
from loader.storage import LocalStorage
from tests.e2e.dataset_tree import RATIO, caption_samples, prepare, shard_path, write_shard

SHARDS, SAMPLES, LENGTH = 4, 5, 6
COUNT = SHARDS * SAMPLES


def number_of(folder: Dataset, sample: int) -> int:
    return int(folder.index.key(sample))


def vector_of(number: int, dtype: str) -> npt.NDArray[Any]:
    return (np.arange(LENGTH) + number).astype(dtype)


def text_of(number: int) -> str:
    return ["", "löwe\n", "cat", "日本", "\udc80"][number % 5] + (str(number) if number % 2 else "")


def has_value(number: int) -> bool:
    return number % 4 != 1


def write_columns(path: Path, *, length: int = LENGTH, metric: str = "cosine", model: str = "tiny") -> None:
    """Write columns by the numbers in the keys: ``clip``, ``hash`` and ``full`` of vectors, texts, and numbers."""
    folder = folder_at(path)
    numbers = [number_of(folder, sample) for sample in range(len(folder.index))]
    known = np.array([has_value(number) for number in numbers], np.bool_)

    def write(name: str, dtype: Any, values: Any, mask: Any, **options: Any) -> None:
        blocks = [(values[:7], mask[:7]), (values[7:], mask[7:])]
        write_map_column(
            folder.storage, folder.index, name, None if dtype is None else np.dtype(dtype), blocks, **options
        )

    every = np.ones(len(numbers), np.bool_)
    clip = np.array([vector_of(number, "f2")[:length] for number in numbers])
    clip[~known] = np.nan
    write("clip", "f2", clip, known, length=length, metric=metric, model=model)
    write("hash", "u4", np.array([vector_of(number, "u4") for number in numbers]), known, length=LENGTH)
    write("full", "f4", np.array([vector_of(number, "f4") for number in numbers]), every, length=LENGTH)
    texts = [text_of(number) if has_value(number) else "" for number in numbers]
    write("caption", None, texts, known)
    write("lang", None, [["de", "en", "fr"][number % 3] for number in numbers], every)
    write("tokens", "i2", np.where(known, numbers, 0), known)
    scores = np.array(numbers, np.float64)
    scores[~known] = np.nan
    scores[[number == 2 for number in numbers]] = np.nan  # what the function returned
    write("score", "f8", scores, known)
    write("good", "?", known & (np.array(numbers) % 2 == 0), known)


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("vectors") / "ds"
    for shard in range(SHARDS):
        write_shard(shard_path(folder, shard), caption_samples(10 * shard, SAMPLES))
    prepare(folder, split=RATIO)
    write_columns(folder)
    return folder


@pytest.fixture
def folder(pristine: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(pristine, tmp_path / "ds"))


def column_of(path: Path, name: str) -> Column:
    opened = folder_at(path)
    return open_column(opened.storage, opened.index, name)


def check_values(path: Path) -> int:
    """Compare every value of every column with the number in the key; return the number of samples."""
    folder = folder_at(path)
    for name in ("clip", "hash", "full", "caption", "lang", "tokens", "score", "good"):
        column = open_column(folder.storage, folder.index, name)
        column.check()
        for sample in range(len(folder.index)):
            number, value = number_of(folder, sample), column.value(sample)
            if name == "full":
                assert value.tolist() == vector_of(number, "f4").tolist()
            elif name == "lang":
                assert value == ["de", "en", "fr"][number % 3]
            elif not has_value(number):
                assert value is None
            elif name in ("clip", "hash"):
                assert value.tolist() == vector_of(number, "u4").tolist()
            elif name == "caption":
                assert value == text_of(number)
            elif name == "tokens":
                assert value == number
            elif name == "good":
                assert value is (number % 2 == 0)
            else:
                assert number in (value, 2)
    return len(folder.index)


def chosen(path: Path, where: str) -> list[int]:
    folder = folder_at(path)
    return [number_of(folder, sample) for sample in find_samples(folder, SampleQuery(where=where)).tolist()]


NUMBERS = [10 * shard + sample for shard in range(SHARDS) for sample in range(SAMPLES)]


def test_values_are_read_as_they_were_written(pristine: Path) -> None:
    assert check_values(pristine) == COUNT
    clip, full = column_of(pristine, "clip"), column_of(pristine, "full")
    assert (clip.values.shape, clip.values.dtype.name) == ((COUNT, LENGTH), "float16")
    assert (clip.record.metric, clip.record.model) == ("cosine", "tiny")
    assert clip.count_missing() == sum(not has_value(number) for number in NUMBERS)
    assert (full.count_missing(), full.record.has_mask) == (0, False)
    assert not (pristine / ".nv-meta/columns/full.valid.npy").exists()
    loaded = np.load(pristine / ".nv-meta/columns/clip.npy")
    assert np.array_equal(loaded, clip.values, equal_nan=True)


def test_the_bytes_are_those_of_the_page_of_the_format(pristine: Path) -> None:
    columns = pristine / ".nv-meta/columns"
    data = (columns / "full.npy").read_bytes()
    assert (data[:8], int.from_bytes(data[8:10], "little")) == (b"\x93NUMPY\x01\x00", 118)
    assert data[10:128].rstrip() == b"{'descr': '<f4', 'fortran_order': False, 'shape': (20, 6), }"
    assert len(data) == 128 + COUNT * LENGTH * 4
    for row, number in enumerate(NUMBERS):
        start = 128 + row * LENGTH * 4
        assert data[start : start + LENGTH * 4] == vector_of(number, "<f4").tobytes()
    mask = (columns / "clip.valid.npy").read_bytes()
    assert [byte == 1 for byte in mask[128:]] == [has_value(number) for number in NUMBERS]
    ends = [0, *np.frombuffer((columns / "caption.npy").read_bytes()[128:], "<i8").tolist()]
    texts = (columns / "caption.utf8").read_bytes()
    assert [texts[start:end].decode("utf-8", "surrogatepass") for start, end in pairwise(ends)] == [
        text_of(number) if has_value(number) else "" for number in NUMBERS
    ]


def test_vectors_need_not_be_read(pristine: Path) -> None:
    opened = folder_at(pristine)
    whole, header = (open_column(opened.storage, opened.index, "clip", reads_vectors=each) for each in (True, False))
    assert (header.values.shape, header.values.dtype) == (whole.values.shape, whole.values.dtype)
    assert header.values.strides == (0, 0)
    assert header.is_known().tolist() == whole.is_known().tolist()
    with ColumnReader(opened.storage, ".nv-meta/columns/clip.npy", accepted=STORED, length=LENGTH) as reader:
        assert np.array_equal(reader[3:9], whole.values[3:9], equal_nan=True)
        assert len(reader) == COUNT


def test_replacing_a_column_removes_the_files_of_the_old_one(folder: Path) -> None:
    opened = folder_at(folder)
    write_column(opened.storage, opened.index, "caption", np.arange(COUNT))
    write_column(opened.storage, opened.index, "clip", np.arange(COUNT))
    names = {path.name for path in (folder / ".nv-meta/columns").iterdir()}
    assert not {"caption.utf8", "caption.valid.npy", "clip.valid.npy"} & names
    assert column_of(folder, "caption").value(3) == 3


# -------------------------------------------------------------------------------------------------------- conditions


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("tokens >= 0", [number for number in NUMBERS if has_value(number)]),
        ("tokens == 0", [0]),
        ("not tokens > 5", [number for number in NUMBERS if has_value(number) and number <= 5]),
        ("score >= 0", [number for number in NUMBERS if has_value(number) and number != 2]),
        ("not good", [number for number in NUMBERS if has_value(number) and number % 2]),
        ("known(clip)", [number for number in NUMBERS if has_value(number)]),
        ("not known(caption)", [number for number in NUMBERS if not has_value(number)]),
        ("known(full) and known(hash)", [number for number in NUMBERS if has_value(number)]),
        ("caption == 'cat'", [number for number in NUMBERS if has_value(number) and text_of(number) == "cat"]),
        ("caption != 'cat'", [number for number in NUMBERS if has_value(number) and text_of(number) != "cat"]),
        ("caption == ''", [number for number in NUMBERS if has_value(number) and not text_of(number)]),
        ("caption < 'cat'", [number for number in NUMBERS if has_value(number) and text_of(number) < "cat"]),
        ("lang in ['de', 'xx']", [number for number in NUMBERS if number % 3 == 0]),
        ("lang not in ['de', 'fr']", [number for number in NUMBERS if number % 3 == 1]),
        ("lang == caption", []),
        ("lang != caption", [number for number in NUMBERS if has_value(number)]),
    ],
)
def test_samples_without_a_value_make_a_condition_false(pristine: Path, where: str, expected: list[int]) -> None:
    assert chosen(pristine, where) == expected


@pytest.mark.parametrize(
    "where", ["clip > 0", "clip", "not clip", "clip == 'a'", "clip + 1 > 2", "clip in [1]", "-clip"]
)
def test_vectors_in_a_condition_are_one_error(pristine: Path, where: str) -> None:
    with pytest.raises(ConfigError, match="invalid condition: 'clip' is a column of vectors"):
        chosen(pristine, where)


@pytest.mark.parametrize("where", ["caption > 3", "caption + 1 > 0", "caption"])
def test_texts_are_no_numbers(pristine: Path, where: str) -> None:
    with pytest.raises(ConfigError, match="invalid condition"):
        chosen(pristine, where)


def test_vectors_are_no_groups_and_texts_are(pristine: Path) -> None:
    folder = folder_at(pristine)
    with pytest.raises(ConfigError, match="expected a column of numbers or texts, found vectors in column 'clip'"):
        find_groups(folder, "clip")
    assert find_groups(folder, "lang").names == ["de", "en", "fr"]
    assert find_groups(folder, "caption").alone == sum(not has_value(number) for number in NUMBERS)


# ---------------------------------------------------------------------------------------------------- arrays, tables


def test_whole_columns_are_memory_mapped(pristine: Path) -> None:
    columns = open_dataset(pristine).columns
    clip, full = columns["clip"], columns["full"]
    assert (clip.shape, clip.dtype.name) == ((COUNT, LENGTH), "float16")
    assert not isinstance(clip, np.ma.MaskedArray)
    assert np.isnan(clip).all(axis=1).tolist() == [not has_value(number) for number in NUMBERS]
    for mapped in (clip, full):
        assert not mapped.flags.writeable
        assert not mapped.flags.owndata
    hashes: Any = columns["hash"]
    assert (hashes.dtype, hashes.data.flags.owndata) == (np.uint32, False)
    assert hashes.mask.all(axis=1).tolist() == [not has_value(number) for number in NUMBERS]
    assert hashes[0].tolist() == vector_of(0, "u4").tolist()
    tokens: Any = columns["tokens"]
    assert tokens.tolist() == [number if has_value(number) else None for number in NUMBERS]


def test_texts_are_objects(pristine: Path) -> None:
    columns = open_dataset(pristine).columns
    expected = [text_of(number) if has_value(number) else None for number in NUMBERS]
    assert (columns["caption"].dtype, columns["caption"].tolist()) == (np.dtype(object), expected)
    selected = open_dataset(pristine).select(where="tokens > 20").columns
    kept = [number for number in NUMBERS if has_value(number) and number > 20]
    assert selected["caption"].tolist() == [text_of(number) for number in kept]
    assert selected["full"].tolist() == [vector_of(number, "f4").tolist() for number in kept]
    assert selected["hash"].tolist() == [vector_of(number, "u4").tolist() for number in kept]


def test_float_vectors_that_lack_nan_are_masked(folder: Path) -> None:
    path = folder / ".nv-meta/columns/clip.npy"
    np.save(path, np.nan_to_num(np.load(path)))
    clip: Any = open_dataset(folder).columns["clip"]
    assert clip.mask.all(axis=1).tolist() == [not has_value(number) for number in NUMBERS]


def test_tables_have_lists_of_fixed_size_texts_and_nulls(pristine: Path) -> None:
    dataset = open_dataset(pristine).select(where="not caption == '\\udc80'")  # which no table holds
    table = dataset.to_arrow(["clip", "hash", "full", "lang", "tokens", "good"])
    types = {name: str(table.schema.field(name).type) for name in table.column_names}
    assert types["clip"] == f"fixed_size_list<item: halffloat>[{LENGTH}]"
    assert types["hash"] == f"fixed_size_list<item: uint32>[{LENGTH}]"
    assert (types["lang"], types["tokens"], types["good"]) == ("string", "int16", "bool")
    rows = open_dataset(pristine).to_arrow(["clip", "full", "lang", "tokens"]).to_pylist()
    for row, number in zip(rows, NUMBERS, strict=True):
        assert row["clip"] == (vector_of(number, "f2").tolist() if has_value(number) else None)
        assert row["full"] == vector_of(number, "f4").tolist()
        assert row["lang"] == ["de", "en", "fr"][number % 3]
        assert row["tokens"] == (number if has_value(number) else None)
    texts = dataset.to_arrow(["caption"])["caption"]
    assert str(texts.type) == "string"
    assert open_dataset(pristine).select(split_part="val").to_arrow(["hash"]).num_rows > 0


def test_tables_of_all_texts_have_nulls(folder: Path) -> None:
    opened = folder_at(folder)
    texts, known = ["é"] * COUNT, np.arange(COUNT) > 2
    write_map_column(opened.storage, opened.index, "caption", None, [(texts, known)])
    assert open_dataset(folder).to_arrow(["caption"])["caption"].to_pylist() == [None] * 3 + ["é"] * (COUNT - 3)


# ------------------------------------------------------------------------------------------------------------- facts


def test_facts_describe_columns_in_one_line(folder: Path) -> None:
    facts, screen = dataset_facts(folder_at(folder)), io.StringIO()
    show_facts(Console(file=screen, width=200, highlight=False), facts)
    texts = [line.partition("column")[2].strip() for line in screen.getvalue().splitlines() if "column" in line]
    lines = {text.partition(":")[0]: text for text in texts}
    missing = sum(not has_value(number) for number in NUMBERS)
    assert lines["clip"] == f"clip: {LENGTH} float16, cosine, model tiny, {missing} samples without a value"
    assert lines["full"] == f"full: {LENGTH} float32"
    assert lines["caption"] == f"caption: texts, {missing} samples without a value"
    assert lines["lang"] == "lang: texts"
    assert lines["score"] == f"score: float64, {missing + 1} samples without a value"
    (folder / ".nv-meta/columns/clip.valid.npy").unlink()
    facts = dataset_facts(folder_at(folder))
    [fault] = [entry["fault"] for entry in facts["sample_columns"] if entry["fault"]]
    assert "column 'clip' is damaged or stale" in fault


def test_the_page_of_a_sample_shows_columns_in_short(folder: Path) -> None:
    opened = folder_at(folder)
    write_map_column(opened.storage, opened.index, "caption", None, [(["é" * 5000] * COUNT, np.ones(COUNT, np.bool_))])
    (folder / ".nv-meta/columns/lang.utf8").unlink()
    dataset = BrowsedDataset("ds", DatasetRef(str(folder)))
    first, second = ({entry["name"]: entry for entry in sample_page(dataset, sample)["columns"]} for sample in (0, 1))
    assert first["clip"]["text"] == "0 1 2 3 … (6 float16)"
    assert first["hash"]["text"] == "0 1 2 3 … (6 uint32)"
    assert (second["clip"]["text"], second["tokens"]["text"], first["tokens"]["text"]) == (None, None, "0")
    assert first["caption"]["text"] == "é" * 1000 + "…"
    assert "column 'lang' is damaged or stale" in first["lang"]["fault"]
    (folder / ".nv-meta/columns/lang.json").unlink()
    numbers = statistics(DatasetRef(str(folder)), None, 5)["numbers"]
    assert {"clip", "hash", "full", "caption"}.isdisjoint(numbers)
    assert numbers["tokens"]["count"] == sum(map(has_value, NUMBERS))


# ---------------------------------------------------------------------------------------------------------- carrying


@pytest.fixture(params=[1 << 26, 20], ids=["large blocks", "small blocks"])
def block_bytes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(carry, "_BYTES_AT_ONCE", request.param)
    return int(request.param)


@pytest.mark.usefixtures("block_bytes")
def test_values_move_with_their_shards(folder: Path) -> None:
    shard_path(folder, 1).unlink()
    assert not [warning for warning in prepare(folder).warnings if "column" in warning]
    assert check_values(folder) == COUNT - SAMPLES


def test_a_mask_goes_with_the_last_sample_that_it_marks(folder: Path) -> None:
    opened = folder_at(folder)
    known = np.array([number >= 10 for number in NUMBERS])
    write_map_column(opened.storage, opened.index, "late", None, [(["a"] * COUNT, known)])
    shard_path(folder, 0).unlink()
    prepare(folder)
    assert not (folder / ".nv-meta/columns/late.valid.npy").exists()
    assert column_of(folder, "late").array(np.arange(COUNT - SAMPLES)).tolist() == ["a"] * (COUNT - SAMPLES)
    assert (folder / ".nv-meta/columns/clip.valid.npy").exists()


@pytest.mark.parametrize("step", [1, 2, 5, 9, 14, 20])
def test_an_interrupted_commit_is_finished_by_the_next_prepare(
    folder: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    shard_path(folder, 1).unlink()
    steps = 0
    with monkeypatch.context() as patch:
        for owner, name in ((publish, "rename_file"), (LocalStorage, "remove")):
            real = getattr(owner, name)

            def stop(storage: LocalStorage, *names: str, real: Any = real) -> None:
                nonlocal steps
                steps += publish.is_commit_pending(storage)
                if steps == step and publish.is_commit_pending(storage):
                    raise KeyboardInterrupt
                real(storage, *names)

            patch.setattr(owner, name, stop)
        with pytest.raises(KeyboardInterrupt):
            prepare(folder)
    prepare(folder)
    assert check_values(folder) == COUNT - SAMPLES


def test_a_changed_shard_drops_all_files_of_columns(folder: Path) -> None:
    write_shard(shard_path(folder, 2), caption_samples(90, 3))
    warnings = [warning for warning in prepare(folder).warnings if "column" in warning]
    assert len(warnings) == 8
    assert list((folder / ".nv-meta/columns").iterdir()) == []


def reshard(folder: Path, output: Path, **options: Any) -> ReshardReport:
    layout = ShardLayout(samples_per_shard=3, shuffle_seed=options.pop("shuffle_seed", None), split_ratio={"all": 1})
    return run_reshard(ReshardPlan(ref=DatasetRef(str(folder)), output=str(output), layout=layout, **options))


@pytest.mark.usefixtures("block_bytes")
@pytest.mark.parametrize("options", [{}, {"shuffle_seed": 5}, {"sort_by": "lang"}, {"sort_by": "caption"}])
def test_reshard_carries_vectors_texts_and_masks(folder: Path, tmp_path: Path, options: dict[str, Any]) -> None:
    report = reshard(folder, tmp_path / "new", **options)
    assert (len(report.columns), report.warnings) == (8, ())
    assert check_values(tmp_path / "new") == COUNT
    if "sort_by" in options:
        new = column_of(tmp_path / "new", options["sort_by"])
        texts = new.array(np.arange(COUNT)).tolist()
        known = [text for text in texts if text is not None]
        assert known == sorted(known)
        assert texts == known + [None] * (COUNT - len(known))


def test_the_blocks_of_a_carried_column_do_not_change_its_bytes(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = []
    for size in (1 << 26, 20):
        monkeypatch.setattr(carry, "_BYTES_AT_ONCE", size)
        reshard(folder, tmp_path / str(size), shuffle_seed=2)
        columns = sorted((tmp_path / str(size) / ".nv-meta/columns").iterdir())
        files.append({path.name: path.read_bytes() for path in columns})
    assert files[0] == files[1]
    assert "caption.utf8" in files[0]


def test_samples_cannot_be_sorted_by_vectors(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="expected a column of numbers or texts, found vectors in column 'clip'"):
        reshard(folder, tmp_path / "new", sort_by="clip")
    assert not (tmp_path / "new").exists()


def merge(tmp_path: Path, folder: Path, **options: Any) -> MergeReport:
    """Merge a dataset with another one, whose columns are written with other options."""
    other = tmp_path / "other"
    for shard in range(2):
        write_shard(shard_path(other, shard), caption_samples(100 + 10 * shard, SAMPLES))
    prepare(other, split=RATIO)
    write_columns(other, **options)
    return run_merge(MergePlan(inputs=(str(folder), str(other)), output=str(tmp_path / "all")))


@pytest.mark.usefixtures("block_bytes")
def test_merge_joins_vectors_texts_and_masks(folder: Path, tmp_path: Path) -> None:
    report = merge(tmp_path, folder)
    assert len(report.columns) == 8
    assert check_values(tmp_path / "all") == COUNT + 2 * SAMPLES


def test_one_dataset_without_a_mask_has_all_values(folder: Path, tmp_path: Path) -> None:
    opened = folder_at(folder)
    known = np.array([number % 2 == 0 for number in NUMBERS])
    write_map_column(opened.storage, opened.index, "lang", None, [(["it"] * COUNT, known)])
    merge(tmp_path, folder)
    merged = folder_at(tmp_path / "all")
    langs = column_of(tmp_path / "all", "lang")
    for sample in range(len(merged.index)):
        number = number_of(merged, sample)
        expected = ["de", "en", "fr"][number % 3] if number >= 100 else "it" if number % 2 == 0 else None
        assert langs.value(sample) == expected
    assert np.load(tmp_path / "all/.nv-meta/columns/lang.valid.npy").sum() == COUNT // 2 + 2 + 2 * SAMPLES


def test_a_dropped_column_names_the_program_that_made_it(folder: Path) -> None:
    opened = folder_at(folder)
    write_map_column(
        opened.storage, opened.index, "lang", None, [(["it"] * COUNT, np.ones(COUNT, np.bool_))], made_by="a program"
    )
    write_shard(shard_path(folder, 2), caption_samples(90, 3))
    [warning] = [warning for warning in prepare(folder).warnings if "column 'lang'" in warning]
    assert warning.endswith("1 of 4 shards are new or changed; write it again; it was made by a program")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"length": 4}, "the length of vectors differs: 6 in"),
        ({"metric": "hamming"}, "the metric differs: 'cosine' in"),
        ({"model": "large"}, "the model differs: 'tiny' in"),
    ],
)
def test_other_vectors_are_dropped_with_the_reason(
    folder: Path, tmp_path: Path, options: dict[str, Any], reason: str
) -> None:
    report = merge(tmp_path, folder, **options)
    [warning] = [text for text in report.warnings if "column" in text]
    assert f"column 'clip' was dropped: {reason}" in warning
    assert column_names(folder_at(tmp_path / "all").storage) == sorted(report.columns)
    assert "clip" not in report.columns
    assert not list((tmp_path / "all/.nv-meta/columns").glob("clip*"))


def test_other_kinds_are_dropped_with_the_reason(folder: Path, tmp_path: Path) -> None:
    opened = folder_at(folder)
    every = np.ones(COUNT, np.bool_)
    write_column(opened.storage, opened.index, "caption", np.zeros(COUNT, np.int8), categories=["a"])
    write_map_column(opened.storage, opened.index, "lang", np.dtype("f4"), [(np.zeros(COUNT), every)])
    write_map_column(opened.storage, opened.index, "hash", np.dtype("u1"), [(np.zeros((COUNT, 6)), every)], length=6)
    report = merge(tmp_path, folder)
    warnings = "\n".join(report.warnings)
    assert "'caption' was dropped: the kind of values differs: 'categories' in" in warnings
    assert "'lang' was dropped: the kind of values differs: 'numbers' in" in warnings
    assert "'hash' was dropped: the type of vectors differs: 'uint8' in" in warnings
    assert "clip" in report.columns


def test_float16_and_float32_become_float32(folder: Path, tmp_path: Path) -> None:
    opened = folder_at(folder)
    vectors = np.array([vector_of(number, "f2") for number in NUMBERS])
    every = np.ones(COUNT, np.bool_)
    write_map_column(opened.storage, opened.index, "full", np.dtype("f2"), [(vectors, every)], length=LENGTH)
    merge(tmp_path, folder)
    assert column_of(tmp_path / "all", "full").values.dtype == np.float32
    assert check_values(tmp_path / "all") == COUNT + 2 * SAMPLES


def test_datasets_with_other_lengths_have_no_common_array(folder: Path, tmp_path: Path) -> None:
    merge(tmp_path, folder, length=4)
    mix = tmp_path / "mix.yaml"
    mix.write_text(
        "__module__: megatron.energon\n__class__: MetadatasetV2\nsplits:\n  train:\n    blend:\n"
        + "".join(f"      - {{weight: 1, path: {path}}}\n" for path in (folder, tmp_path / "other"))
    )
    columns = open_dataset(mix).columns
    assert columns["hash"].shape[1] == LENGTH
    with pytest.raises(ConfigError, match=r"column 'clip' has vectors of 6 numbers in .*, but vectors of 4 numbers"):
        _ = columns["clip"]


def halves(sample: dict[str, Any]) -> list[dict[str, Any]]:
    """Return two samples, none for every third."""
    number = int(sample["__key__"].rpartition("/")[2])
    return [] if number % 3 == 0 else [{"__key__": f"{number + 50 * half}", "txt": b"x"} for half in range(2)]


def test_a_mapped_dataset_has_the_values_of_the_old_samples(folder: Path, tmp_path: Path) -> None:
    output = tmp_path / "mapped"
    ref = DatasetRef(str(folder))
    function = given_function(halves)
    target = ToDataset(ref=ref, output=str(output))
    run_map(MapRequest(source=whole_dataset(ref), function=function, output=target, target="to-mapped", raw=True))
    opened = folder_at(output)
    old = {number_of(folder_at(folder), sample): sample for sample in range(COUNT)}
    assert len(opened.index) == 2 * sum(number % 3 > 0 for number in NUMBERS)
    for name in ("clip", "caption", "tokens"):
        before, after = column_of(folder, name), column_of(output, name)
        for sample in range(len(opened.index)):
            value, expected = after.value(sample), before.value(old[number_of(opened, sample) % 50])
            assert np.array_equal(value, expected) if name == "clip" and expected is not None else value == expected
