"""Every sample of a mix of datasets of several kinds arrives, equal to the one that its dataset gives alone."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from pyarrow import parquet

from loader import (
    Cooker,
    DefaultTaskEncoder,
    SampleDecoder,
    SampleError,
    WorkerConfig,
    get_loader,
    get_train_dataset,
    random_access,
)
from loader.format.jsonl.index import prepare_jsonl
from loader.metadataset.joins.prepare_metadataset import prepare_metadataset
from loader.storage import open_storage
from tests.e2e.dataset_tree import prepare, write_shard
from tests.e2e.mixed_data import write_metadataset
from tests.e2e.text_dataset import exclude
from tests.elastic_runs import fingerprint
from tests.tables import CRUDE_YAML, prepare_parts, write_lines, write_rows
from tests.token_files import numbered, write_tokens

COUNT = 20
PARTS = {"txt": b"text %d", "json": b'{"n": %d}', "bin": b"bytes %d"}
TYPED = "sample_type: {__module__: megatron.energon, __class__: TextSample}\nfield_map: {text: txt}\n"
EXCLUDED = (3, 4, 17)


def some_parts(count: int) -> Callable[[int], dict[str, bytes]]:
    return lambda number: {part: text % number for part, text in [*PARTS.items()][:count]}


def uneven_parts(number: int) -> dict[str, bytes]:
    return some_parts(1 + number % 3)(number)


def compressed_part(number: int) -> dict[str, bytes]:
    return {"txt.gz": gzip.compress(b"text %d" % number, mtime=0)}


TARS: dict[str, tuple[Callable[[int], dict[str, bytes]], str]] = {
    "tar1": (some_parts(1), CRUDE_YAML),
    "tar2": (some_parts(2), CRUDE_YAML),
    "tar3": (some_parts(3), CRUDE_YAML),
    "uneven": (uneven_parts, CRUDE_YAML),
    "compressed": (compressed_part, CRUDE_YAML),
    "typed1": (some_parts(1), TYPED),
    "typed2": (some_parts(2), TYPED),
    "excluded1": (some_parts(1), CRUDE_YAML),
    "excluded3": (some_parts(3), CRUDE_YAML),
}
FILES = {
    "lines": "lines.jsonl",
    "rows": "rows.parquet",
    "rows of one column": "column.parquet",
    "tokens": "tokens.bin",
    "join": "join.yaml",
    "join with gaps": "join_with_gaps.yaml",
}
KINDS = (*TARS, *FILES, "folder of lines", "folder of rows", "excluded lines")
COUNTS = {kind: COUNT - len(EXCLUDED) if kind.startswith("excluded") else COUNT for kind in KINDS}
JOINER = {"__module__": "loader", "__function__": "join_parts"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kinds")
    for name, (parts, config) in TARS.items():
        write_shard(folder / name / "a.tar", {f"{number:03d}": parts(number) for number in range(COUNT)})
        files = {"dataset.yaml": config, "split.yaml": "split_parts: {train: [a.tar]}\n"}
        prepare(folder / name, split=None, files=files)
    # Files of samples, and folders of them.
    write_lines(folder / "lines.jsonl", range(COUNT))
    prepare_jsonl(open_storage(folder), "lines.jsonl")
    write_rows(folder / "rows.parquet", range(COUNT))
    parquet.write_table(pa.table({"text": [f"text {number}" for number in range(COUNT)]}), folder / "column.parquet")
    write_tokens(folder / "tokens", numbered(COUNT))
    for name in ("folder of lines", "excluded lines"):
        prepare_parts(write_lines(folder / name / "a.jsonl", range(COUNT)).parent, {"train": 1})
    prepare_parts(write_rows(folder / "folder of rows/a.parquet", range(COUNT)).parent, {"train": 1})
    # Exclusions and joins.
    for name in ("excluded1", "excluded3"):
        exclude(folder / name, *(f"a.tar/{number:03d}" for number in EXCLUDED))
    exclude(folder / "excluded lines", *(f"a.jsonl/{number}" for number in EXCLUDED))
    for file, members in (
        ("join.yaml", [{"path": "tar1"}, {"path": "compressed"}]),
        ("join_with_gaps.yaml", [{"path": "compressed"}, {"path": "excluded3", "nonmatch": "none"}]),
    ):
        write_metadataset(folder / file, {"train": {"join": members, "joiner": JOINER}})
        prepare_metadataset(folder / file)
    return folder


class Encoder(DefaultTaskEncoder[Any, Any, Any, Any]):
    def __init__(self, decoder: Any, cooks: bool) -> None:
        super().__init__()
        self.decoder = decoder
        self.cookers = [Cooker(dict)] if cooks else []  # type: ignore[misc] # of this encoder


def contents(samples: Any) -> list[bytes]:
    """Return the bytes of samples, sorted."""
    plain = [sample if isinstance(sample, dict) else vars(sample) for sample in samples]
    return sorted(
        fingerprint({name: value for name, value in sample.items() if name != "__restore_key__"}) for sample in plain
    )


def one_pass(path: Path, encoder: Encoder, workers: int = 0) -> list[bytes]:
    config = WorkerConfig(rank=0, world_size=1, num_workers=workers, lanes=2)
    dataset = get_train_dataset(
        path,
        batch_size=None,
        shuffle_buffer_size=20,
        max_samples_per_sequence=10,
        repeat=False,
        worker_config=config,
        task_encoder=encoder,
    )
    loader: Any = get_loader(dataset)
    try:
        return contents(loader)
    finally:
        loader.close()


@cache
def alone(folder: Path, kind: str, decodes: bool, cooks: bool) -> list[bytes]:
    """Return the samples of a dataset alone, as a loader and random access both give them."""
    path, encoder = folder / FILES.get(kind, kind), encoder_of(decodes, cooks)
    samples = random_access(path, task_encoder=encoder)
    expected = contents(samples[number] for number in range(len(samples)))
    assert one_pass(path, encoder) == expected
    assert len(expected) == COUNTS[kind]
    return expected


def encoder_of(decodes: bool, cooks: bool) -> Encoder:
    return Encoder(SampleDecoder() if decodes else None, cooks)


def check(folder: Path, kinds: list[str], *, decodes: bool, cooks: bool, workers: int = 0) -> None:
    entries = [{"path": str(folder / FILES.get(kind, kind))} for kind in kinds]
    steps = {"blend_epochized": [entry | {"repetitions": 1} for entry in entries]}
    mix = write_metadataset(folder / "mix.yaml", {"train": steps})
    expected = sorted(sample for kind in kinds for sample in alone(folder, kind, decodes, cooks))
    assert one_pass(mix, encoder_of(decodes, cooks), workers) == expected
    samples = random_access(mix, task_encoder=encoder_of(decodes, cooks))
    assert contents(samples[number] for number in range(len(samples))) == expected


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    kinds=st.lists(st.sampled_from(KINDS), min_size=2, max_size=6, unique=True),
    decodes=st.booleans(),
    cooks=st.booleans(),
)
def test_samples_of_several_kinds_arrive_as_alone(folder: Path, kinds: list[str], decodes: bool, cooks: bool) -> None:
    check(folder, kinds, decodes=decodes, cooks=cooks)


def test_samples_of_all_kinds_arrive_from_workers(folder: Path) -> None:
    check(folder, [*KINDS], decodes=True, cooks=True, workers=2)


def test_a_row_with_a_value_that_cannot_be_read_fails_by_name_in_random_access(tmp_path: Path, folder: Path) -> None:
    times = pa.array([1, 1 << 60, 3], pa.int64()).cast(pa.timestamp("ms"))
    for name, columns in (("one", {"x": times}), ("two", {"x": times, "n": [1, 2, 3]})):
        parquet.write_table(pa.table(columns), tmp_path / f"{name}.parquet")
        entries = [{"path": str(tmp_path / f"{name}.parquet")}, {"path": str(folder / "tar2")}]
        mix = write_metadataset(tmp_path / f"{name}.yaml", {"train": {"blend": entries}})
        for path in (tmp_path / f"{name}.parquet", mix):
            samples = random_access(path)
            assert samples[0]["x"] < samples[2]["x"]
            with pytest.raises(SampleError, match="column 'x' cannot be read"):
                samples[1]
