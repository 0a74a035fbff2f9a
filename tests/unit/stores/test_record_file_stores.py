"""Lines of JSONL files by number, as a store and as an auxiliary store."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from loader import BinIdxFileStore, DefaultCrudeJsonlDatasetFactory
from loader.stores import MissingFileError, open_aux_store
from loader.stores.record_file_stores import JsonlFileStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "lines.jsonl"
    path.write_text("".join(json.dumps({"number": number}) + "\n" for number in range(4)))
    DefaultCrudeJsonlDatasetFactory.prepare_dataset(path)
    return path


def test_a_line_is_read_by_its_number(path: Path) -> None:
    store = JsonlFileStore(path)
    line, source = store["3.json"]
    assert (json.loads(line), source.shard_name, source.file_names) == ({"number": 3}, "lines.jsonl", ("3.json",))
    assert store["3"][0] == store["lines.jsonl/3"][0] == store[3][0] == line
    assert len(store) == 4
    with pytest.raises(MissingFileError, match="there is no line '4'; keys are the numbers from 0 to 3"):
        _ = store["4"]


def test_it_is_the_store_of_the_path_and_of_the_dataset_class(path: Path) -> None:
    open_store: Any = JsonlFileStore  # under the parameter's name in megatron-energon
    store = open_store(jsonl_path=path)
    assert open_aux_store(path) == DefaultCrudeJsonlDatasetFactory(path).as_file_store() == store
    assert pickle.loads(pickle.dumps(store)) == store
    assert store != BinIdxFileStore(path)
    assert repr(store) == f"JsonlFileStore({str(path)!r})"


def test_a_file_needs_no_index_next_to_it(tmp_path: Path) -> None:
    (tmp_path / "new.jsonl").write_text("{}\n")
    assert JsonlFileStore(tmp_path / "new.jsonl")["0"][0] == b"{}"
