"""Large Parquet tables are shuffled by blocks of row groups: each sample once, and each group decoded about once."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from loader import WorkerConfig, get_loader, get_train_dataset
from loader.dataset.opening import folder_at
from loader.errors import FormatError
from loader.format.records import row_file
from loader.inspect.runs import PlannedRun, RunRequest, explain_run
from loader.order import row_blocks
from tests.e2e.golden_states import Described
from tests.elastic_runs import Pipeline, Spread, check_every_save
from tests.tables import prepare_parts, write_rows

FILES, ROWS, GROUP = 6, 205, 20
SAMPLES = FILES * ROWS


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("blocks") / "rows"
    for file in range(FILES):
        write_rows(folder / f"{file}.parquet", range(file * ROWS, (file + 1) * ROWS), group=GROUP)
    return prepare_parts(folder, {"train": FILES})


@pytest.fixture
def table(written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table that counts as large, and a cache that holds about five of its 66 row groups."""
    folder = Path(shutil.copytree(written, tmp_path / "rows"))
    mean = int(folder_at(folder).index.row_groups[:, 1].mean())  # type: ignore[attr-defined]
    monkeypatch.setattr(row_blocks, "MIN_TABLE_BYTES", 0)
    monkeypatch.setattr(row_blocks, "_BLOCK_BYTES", 3 * mean)
    monkeypatch.setattr(row_file, "CACHED_BYTES", 12 * mean)  # Arrow's buffers are larger than the file's
    monkeypatch.setattr(row_file, "row_cache", row_file.RowCache())
    return folder


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> Counter[tuple[str, int]]:
    counts, original = Counter[tuple[str, int]](), row_file.RowGroups.decode

    def decode(self: Any, group: int, names: Any = None) -> Any:
        counts[self.path, group] += 1
        return original(self, group, names)

    monkeypatch.setattr(row_file.RowGroups, "decode", decode)
    return counts


def ids(path: Path, config: WorkerConfig, **options: Any) -> Iterator[int]:
    defaults = {"batch_size": None, "shuffle_buffer_size": 100, "max_samples_per_sequence": 10, "repeat": False}
    dataset = get_train_dataset(path, worker_config=config, **defaults | options)
    return (sample["id"] for sample in get_loader(dataset))


def config(rank: int = 0, ranks: int = 1, **options: Any) -> WorkerConfig:
    return WorkerConfig(rank=rank, world_size=ranks, num_workers=0, **options)


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_each_row_group_is_decoded_about_once_an_epoch(
    table: Path, decoded: Counter[tuple[str, int]], monkeypatch: pytest.MonkeyPatch, ranks: int
) -> None:
    found: list[int] = []
    for rank in range(ranks):
        monkeypatch.setattr(row_file, "row_cache", row_file.RowCache())
        found += ids(table, config(rank, ranks))
    assert sorted(found) == list(range(SAMPLES))
    assert len(decoded) == FILES * -(-ROWS // GROUP)
    assert decoded.total() <= 1.2 * len(decoded)


def test_a_dataset_that_was_prepared_before_keeps_its_order(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = list(ids(table, config(lanes=4)))
    (file,) = table.glob(".nv-meta/index/*/row_groups.npy")
    file.unlink()
    before = list(ids(table, config(lanes=4)))
    assert sorted(blocks) == sorted(before)
    assert blocks != before


def test_a_table_that_fits_into_the_cache_keeps_its_order(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_blocks, "MIN_TABLE_BYTES", 1 << 30)
    small = list(ids(table, config()))
    (file,) = table.glob(".nv-meta/index/*/row_groups.npy")
    file.unlink()
    assert list(ids(table, config())) == small


def test_excluded_samples_subsets_and_endless_epochs(table: Path, tmp_path: Path) -> None:
    split = table / ".nv-meta/split.yaml"
    gone = [0, 19, 20, 21, 204, 333]
    document = yaml.safe_load(split.read_text())
    document["exclude"] = [f"{number // ROWS}.parquet/{number % ROWS}" for number in gone]
    split.write_text(yaml.safe_dump(document))
    kept = set(range(SAMPLES)) - {*gone}
    assert sorted(ids(table, config())) == sorted(kept)
    endless = list(islice(ids(table, config(), repeat=True), 3 * len(kept)))
    epochs = [endless[start : start + len(kept)] for start in range(0, len(endless), len(kept))]
    assert all({*epoch} == kept for epoch in epochs)
    assert epochs[0] != epochs[1]
    mix = {"__module__": "megatron.energon", "__class__": "MetadatasetV2"}
    mix["splits"] = {"train": {"path": str(table), "subset": {"range": [100, 900]}}}  # type: ignore[assignment]
    (tmp_path / "mix.yaml").write_text(yaml.safe_dump(mix))
    assert len(list(ids(tmp_path / "mix.yaml", config()))) == 798  # two of them are excluded


@pytest.mark.parametrize("together", [None, -1, 3])
def test_other_orders_of_epochs(table: Path, together: int | None) -> None:
    found = list(islice(ids(table, config(), repeat=True, shuffle_over_epochs_multiplier=together), 3 * SAMPLES))
    if together == 3:
        assert Counter(found) == dict.fromkeys(range(SAMPLES), 3)
    if together is None:
        assert {*found[: SAMPLES + 48]} == {*range(SAMPLES)}  # lanes differ by a sample


def test_without_a_buffer_row_groups_follow_one_another(table: Path) -> None:
    found = np.array(list(ids(table, config(), shuffle_buffer_size=0)))
    steps = np.diff(found)
    assert SAMPLES - (steps == 1).sum() <= FILES * -(-ROWS // GROUP)


def build(folder: Path, config: WorkerConfig) -> Any:
    return get_train_dataset(
        folder, worker_config=config, batch_size=3, shuffle_buffer_size=30, task_encoder=Described()
    )


def test_a_run_resumes_on_other_ranks(table: Path) -> None:
    pipeline = Pipeline(build=partial(build, table), batches=36, known_ahead=True, lanes=12)
    check_every_save(pipeline, Spread(2), (Spread(3), Spread(1), Spread(4)), every=7)


def test_lanes_are_those_of_the_workers_since_each_holds_a_block(table: Path) -> None:
    run = PlannedRun(RunRequest(path=str(table), batch_size=8, world_size=2, num_workers=3))
    assert run.lanes == 6
    (note,) = explain_run(run, 10).notes
    assert "is shuffled by blocks of 2 row groups of 66, about 37 samples" in note


@pytest.mark.parametrize(
    "groups",
    [
        b"no array",
        np.zeros((3, 2)),
        np.zeros((0, 2), np.int64),
        np.array([SAMPLES, 1]),
        np.array([[SAMPLES, 1]]),
        np.array([[-1, 1], [SAMPLES + 1, 1]]),
        np.full((FILES, 2), ROWS + 1),
    ],
    ids=["bytes", "floats", "empty", "row", "one group", "negative", "more"],
)
def test_a_table_of_row_groups_of_other_files_is_refused(table: Path, groups: Any) -> None:
    (file,) = table.glob(".nv-meta/index/*/row_groups.npy")
    file.write_bytes(groups) if isinstance(groups, bytes) else np.save(file, groups)
    with pytest.raises(FormatError, match="row groups") as caught:
        next(ids(table, config()))
    assert "row_groups.npy" in str(caught.value)
