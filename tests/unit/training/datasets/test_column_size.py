"""Sizes of samples from a column."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from loader.errors import ConfigError
from loader.pipeline.reading.source import RawRow
from loader.training.datasets.chain import ColumnSize


def test_a_row_of_a_join_without_a_primary_sample_has_no_size(tmp_path: Path) -> None:
    source: Any = SimpleNamespace(request=SimpleNamespace(ref=SimpleNamespace(path=str(tmp_path))))
    size = ColumnSize([source], "tokens")
    with pytest.raises(ConfigError, match="column 'tokens' has no value for row 4 of a join") as caught:
        size(RawRow(source=0, number=4, members=(None,)))
    assert caught.value.at == str(tmp_path)
