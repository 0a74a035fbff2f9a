"""Files of numbered samples as datasets."""

from __future__ import annotations

import json
from pathlib import Path

from loader.dataset import dataset_at
from tests.token_files import write_tokens


def test_the_bytes_of_a_long_sequence_hold_all_its_tokens(tmp_path: Path) -> None:
    dataset = dataset_at(write_tokens(tmp_path / "x", [list(range(5000)), [7]]))
    assert dataset.format == "binidx"
    (part,) = dataset.parts(0)
    data = dataset.read(0, part.name)
    assert len(data) == part.size_bytes
    assert json.loads(data) == list(range(5000))
    assert dataset.read(1, part.name, 1, 2) == b"7"
