"""Tags that two clients of ``energon browse --edit`` set at once, and columns that others write meanwhile."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from loader.dataset.opening import folder_at
from loader.format.columns.column_files import open_column
from tests.cli.make_dataset import write_captions
from tests.cli.run_energon import RunEnergon
from tests.cli.test_browse import Site, serve

SHARDS, SAMPLES = 5, 6


@pytest.fixture
def folder(tmp_path: Path, energon: RunEnergon) -> Path:
    folder = write_captions(tmp_path / "captions", shards=SHARDS, samples=SAMPLES)
    assert energon("prepare", folder, "--non-interactive", "--split-ratio", "3,1,1").code == 0
    return folder


@pytest.fixture
def sites(folder: Path) -> Iterator[list[Site]]:
    """Two servers of one dataset, as two users start them."""
    for first in serve(folder, "--edit"):
        for second in serve(folder, "--edit"):
            yield [first, second]


def test_no_tag_is_lost_when_several_clients_tag_at_once(sites: list[Site], folder: Path, energon: RunEnergon) -> None:
    index = folder_at(folder).index
    keys = [index.full_key(sample) for sample in range(len(index))]

    def tag(sample: int) -> int:
        body = json.dumps({"keys": [keys[sample]], "tag": f"tag {sample % 7}"})
        return sites[sample % 2].get("/api/d/0/tag", method="POST", body=body, X_Energon="1")[0]

    with ThreadPoolExecutor(4) as clients:
        answers = clients.map(tag, range(len(keys)))
        wrote = energon("stats", folder, "--write", "txt.chars")  # another writer of the dataset
        assert [*answers] == [200] * len(keys)
    assert wrote.code == 0, wrote.err
    opened = folder_at(folder)
    column = open_column(opened.storage, opened.index, "tag")
    assert [column.value(sample) for sample in range(len(keys))] == [f"tag {sample % 7}" for sample in range(len(keys))]
