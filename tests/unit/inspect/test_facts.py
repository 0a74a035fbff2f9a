"""Facts about datasets, JSONL files and metadatasets, as plain data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loader import FormatError, StorageError
from loader.format.jsonl import prepare_jsonl
from loader.inspect import facts, path_facts
from loader.storage import open_parent
from tests.cli.make_dataset import write_captions
from tests.unit.inspect.prepared import prepare_captions


def test_the_median_of_many_lines_is_taken_from_runs_spread_evenly_over_them() -> None:
    """Reading every offset would take time in proportion to the lines."""
    rows_read = 0

    class Watched(np.ndarray):
        def __array_finalize__(self, base: Any) -> None:
            nonlocal rows_read
            rows_read += len(self) if base is not None and self.ndim == 1 and len(self) < len(base) else 0

    lines = 3 << 20
    lengths = np.full(lines, 100)
    lengths[: lines // 3] = 10
    lengths[-lines // 4 :] = 1000
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.uint64)
    assert facts._median_line(offsets.view(Watched)) == 100
    assert 0 < rows_read < 4 << 18
    assert facts._median_line(offsets[:1001]) == 10
    assert facts._median_line(offsets[:1]) == 0
    assert facts._median_line(offsets[-(2**18) :]) == 1000


def test_facts_of_a_dataset_are_plain_data(tmp_path: Path) -> None:
    path = prepare_captions(tmp_path / "captions")
    found = path_facts(path)
    assert json.loads(json.dumps(found)) == found
    assert (found["type"], found["samples"], found["shards"]) == ("webdataset", 12, 4)
    assert found["sample_type"] == "CaptioningSample"
    assert [part["name"] for part in found["splits"]] == ["train", "val", "test"]


def test_facts_of_a_jsonl_file(tmp_path: Path) -> None:
    path = tmp_path / "texts.jsonl"
    path.write_text('{"text": "a"}\n{"text": "bcd"}\n')
    with pytest.raises(FormatError):
        path_facts(str(path))
    prepare_jsonl(*open_parent(path))
    found = path_facts(str(path))
    assert (found["type"], found["samples"], found["crude"]) == ("jsonl", 2, True)


def test_facts_of_a_metadataset_name_the_faults_of_its_datasets(tmp_path: Path) -> None:
    prepare_captions(tmp_path / "captions")
    mix = tmp_path / "mix.yaml"
    mix.write_text(
        "__module__: megatron.energon\n__class__: MetadatasetV2\nsplits:\n  train:\n    blend:\n"
        "      - {path: ./captions, weight: 3}\n      - {path: ./gone, weight: 1}\n"
    )
    found = path_facts(str(mix))
    assert (found["type"], found["faults"]) == ("metadataset", 1)
    known, gone = found["splits"][0]["tree"]["children"][0]["children"]
    assert (known["share"], known["samples"], known["fault"]) == (0.75, 6, None)
    assert gone["fault"] is not None


def test_facts_of_an_unprepared_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StorageError):
        path_facts(str(write_captions(tmp_path / "captions")))
