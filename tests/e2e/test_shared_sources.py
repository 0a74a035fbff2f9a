"""Ranks of which one reads the metadata, for every kind of source: the same batches, and no document is read twice."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import pytest

from loader import (
    Cooker,
    DefaultTaskEncoder,
    Sample,
    WorkerConfig,
    basic_sample_keys,
    build_filter_index,
    edataclass,
    get_savable_loader,
    get_train_dataset,
    prepare_recipe,
)
from loader.dataset.opening import folder_at
from loader.format.columns.column_files import write_column
from loader.pipeline.reading.quarantined_sample import QuarantinedSample
from tests.e2e.mixed_data import MixedData, write_mixed_data
from tests.e2e.rank_processes import RankProcesses, rank_processes
from tests.e2e.text_dataset import exclude, write_texts
from tests.tables import prepare_parts, write_lines, write_rows

RANKS = 2
DOCUMENTS = (".json", ".yaml", ".uuid", ".lock")
INDEXES = (".idx", ".npy", ".parquet", ".jsonl", ".tar", ".bin")
"""Columns, files with their own index, and shards, which each rank reads when it needs them."""


@edataclass
class Pair(Sample):
    """Sample of a join."""

    text: str

    @classmethod
    def from_joined(cls, sample: dict[str, Any], other: dict[str, Any] | None) -> Self:
        return cls(__key__=sample["__key__"], __restore_key__=(), text=f"{sample['txt']!r} {other and other['raw']!r}")


def cook(sample: dict[str, Any]) -> dict[str, Any]:
    parts = {name: str(value) for name, value in sample.items() if not name.startswith("_")}
    return {**basic_sample_keys(sample), **parts}


class Encoder(DefaultTaskEncoder[Any, Any, Any, Any]):
    """Encoder of all kinds of samples; a batch has their keys and contents as text."""

    decoder = None
    cookers = [Cooker(cook)]

    def batch(self, samples: list[Any]) -> Any:
        return [str(sample if isinstance(sample, dict) else (sample.__key__, sample.text)) for sample in samples]


class Kind(NamedTuple):
    """A kind of source.

    Attributes:
        split: The training part of a metadataset, or the name of a path.
        loader: Arguments of the loader.
    """

    split: dict[str, Any] | str
    loader: tuple[str, ...] = ()


def weighted(weight: Any, path: str, **more: Any) -> dict[str, Any]:
    return {"weight": weight, "path": path, **more}


JOIN = {
    "join": [{"path": "crude"}, {"path": "pictures", "nonmatch": "none"}],
    "joiner": {"__module__": "tests.e2e.test_shared_sources", "__class__": "Pair"},
}
KINDS = {
    "a dataset": Kind("texts"),
    "a join": Kind(JOIN),
    "a blend with a join": Kind({"blend": [weighted(1, "join.yaml"), weighted(2, "texts")]}),
    "a JSONL file": Kind({"blend": [weighted(1, "lines.jsonl"), weighted(1, "more")]}),
    "a Parquet file": Kind({"blend": [weighted(1, "rows.parquet"), weighted(1, "more")]}),
    "folders of JSONL and Parquet files": Kind({"blend": [weighted(1, "line_files"), weighted(1, "row_files")]}),
    "shares of a column": Kind(
        {"blend_weight_unit": "tokens", "blend": [weighted(2, "texts"), weighted(1, "more", split_part="val")]}
    ),
    "a schedule": Kind({"blend": [weighted({0: 1, 3: 0}, "texts"), weighted(1, "more")]}),
    "nested metadatasets": Kind(
        {"blend": [weighted(1, "shares of a column.yaml"), weighted(1, "a schedule.yaml", split_part="train")]}
    ),
    "filters": Kind({"blend": [weighted(1, "texts", filter="third"), weighted(1, "lines.jsonl", filter="even")]}),
    "excluded samples": Kind("excluding"),
    "quarantined samples": Kind("texts", loader=("quarantine",)),
}


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RankProcesses]:
    with rank_processes(RANKS, tmp_path_factory.mktemp("group")) as processes:
        yield processes


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> MixedData:
    data = write_mixed_data(tmp_path_factory.mktemp("shared") / "d")
    for path in (data.texts, data.more):
        opened = folder_at(str(path))
        tokens = np.array([1 + row % 9 for row in range(len(opened.index))])
        write_column(opened.storage, opened.index, "tokens", tokens)
    build_filter_index(data.texts, "third", list(range(0, 218, 3)))
    build_filter_index(data.lines, "even", list(range(0, 23, 2)))
    write_rows(data.folder / "rows.parquet", range(300, 330))
    for number in range(2):
        write_lines(data.folder / f"line_files/{number}.jsonl", range(40 * number, 40 * number + 25))
        write_rows(data.folder / f"row_files/{number}.parquet", range(400 + 40 * number, 425 + 40 * number))
    prepare_parts(data.folder / "line_files", {"train": 2})
    prepare_parts(data.folder / "row_files", {"train": 2})
    exclude(write_texts(data.folder / "excluding"), "train_0.tar/00003", "train_0.tar/00004", "train_4.tar")
    data.write("join.yaml", {"train": JOIN})
    for name, kind in KINDS.items():
        if isinstance(kind.split, dict):
            data.write(f"{name}.yaml", {"train": kind.split})
    prepare_recipe(data.folder / "join.yaml")
    prepare_recipe(data.folder / "a join.yaml")
    return data


# ------------------------------------------------------------------------------------------------- functions of ranks


class _Opened:
    """The files that this process opens in a folder."""

    folder = ""
    found: set[str] = set()
    is_hooked = False


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and _Opened.folder and str(arguments[0]).startswith(_Opened.folder):
        _Opened.found.add(os.path.relpath(arguments[0], _Opened.folder))


def files_and_batches(rank: int, path: str, folder: str, shares: bool, options: dict[str, Any]) -> tuple[Any, ...]:
    """Return the files that this rank opens until it has some batches, and the batches."""
    if not _Opened.is_hooked:
        _Opened.is_hooked = True
        sys.addaudithook(_note)  # a hook cannot be removed
    _Opened.found, _Opened.folder = set(), folder
    try:
        dataset = get_train_dataset(
            path,
            worker_config=WorkerConfig(rank=rank, world_size=RANKS, num_workers=0, share_metadata=shares),
            batch_size=3,
            shuffle_buffer_size=10,
            max_samples_per_sequence=4,
            task_encoder=Encoder(),
        )
        batches = [batch for _, batch in zip(range(20), get_savable_loader(dataset, **options), strict=False)]
    finally:
        _Opened.folder = ""
    return sorted(_Opened.found), batches


# --------------------------------------------------------------------------------------------------------------- tests


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.sampled(6)
def test_a_kind_of_source_has_the_same_batches_and_one_reader_of_documents(
    name: str, data: MixedData, ranks: RankProcesses, tmp_path: Path
) -> None:
    kind = KINDS[name]
    path = data.folder / (kind.split if isinstance(kind.split, str) else f"{name}.yaml")
    options = {one: str(tmp_path / one) for one in kind.loader}
    if "quarantine" in options:
        uuid = folder_at(str(path)).index.uuid
        samples = [QuarantinedSample(dataset=str(path), uuid=uuid, number=n, key="") for n in range(100)]
        lines = [json.dumps(asdict(sample)) for sample in samples]
        Path(options["quarantine"]).write_text("\n".join(lines))
    alone = ranks.run(files_and_batches, str(path), str(data.folder), False, options)
    together = ranks.run(files_and_batches, str(path), str(data.folder), True, options)
    assert [batches for _, batches in together] == [batches for _, batches in alone]
    assert len({str(batch) for batch in alone[0][1]}) > 10
    assert not options or not any(f"text {number}'" in str(alone) for number in range(100))
    documents = [[file for file in files if file.endswith(DOCUMENTS)] for files, _ in together]
    assert documents[0]
    assert documents[0] == [file for file in alone[1][0] if file.endswith(DOCUMENTS)]
    assert not documents[1]
    assert all(file.endswith(INDEXES) for file in together[1][0])
