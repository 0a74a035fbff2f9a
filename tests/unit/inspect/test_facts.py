"""Facts about datasets, JSONL files and metadatasets, as plain data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from loader import StorageError
from loader.format.jsonl import prepare_jsonl
from loader.inspect import facts, path_facts
from loader.storage import open_parent
from tests.cli.make_dataset import write_captions
from tests.unit.inspect.prepared import prepare_captions


@pytest.mark.parametrize(("lines", "most"), [(3 << 20, 1 << 18), (1001, 1001), (0, 0)])
def test_the_median_of_many_lines_is_taken_from_runs_spread_evenly_over_them(lines: int, most: int) -> None:
    """Reading every offset would take time in proportion to the lines."""
    lengths = np.full(lines, 100)
    lengths[: lines // 3] = 10
    lengths[-lines // 4 :] = 1000
    asked = 0

    class Lines:
        def __len__(self) -> int:
            return lines

        def part_bytes(self) -> dict[str, int]:
            return {"json": int(lengths.sum())}

        def spans(self, numbers: Any) -> Any:
            nonlocal asked
            asked += len(numbers)
            return np.zeros(len(numbers), np.int64), lengths[numbers]

    assert facts.median_bytes(cast("Any", Lines())) == (100 if lines else 0)
    assert asked <= most


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
    unprepared = path_facts(str(path))
    prepare_jsonl(*open_parent(path))
    found = path_facts(str(path))
    assert found == unprepared
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


def test_facts_of_an_unprepared_folder_are_those_of_the_dataset_to_be(tmp_path: Path) -> None:
    found = path_facts(str(write_captions(tmp_path / "captions")))
    assert found["note"] == f"not prepared; scanned 4 shards; to prepare: energon prepare {tmp_path}/captions"
    prepared = path_facts(prepare_captions(tmp_path / "captions"))
    same = ("path", "type", "samples", "shards", "bytes", "parts", "duplicate_keys")
    assert {name: found[name] for name in same} == {name: prepared[name] for name in same}


def test_facts_of_a_folder_without_shards_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="there are no files"):
        path_facts(str(tmp_path))
