"""The formats of datasets, detected by path."""

from __future__ import annotations

from pathlib import Path

import pytest

from loader.format.documents.providers import PROVIDERS, data_path, format_of
from tests.token_files import write_tokens


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("mix.yaml", "metadataset"),
        ("mix.yml", "metadataset"),
        ("a.jsonl", "jsonl"),
        ("a#b.bin", "binidx"),
        ("part-0.parquet", "parquet"),
        ("s3://bucket/tokens.bin", "binidx"),
        ("/data/coco", "folder"),
        ("/data/shard.tar", "folder"),
    ],
)
def test_the_name_decides(path: str, expected: str) -> None:
    assert format_of(path) == expected


def test_providers_are_tried_in_the_order_of_their_priorities() -> None:
    priorities = [provider.priority for provider in PROVIDERS]
    assert priorities == sorted(priorities)
    assert set(priorities) == {0, 100, 200}


def test_a_prefix_names_a_pair_of_token_files(tmp_path: Path) -> None:
    prefix = tmp_path / "my#text_document"
    assert data_path(str(prefix)) == str(prefix)
    data = write_tokens(prefix, [[1]])
    assert data_path(str(prefix)) == str(data)
    assert data_path(str(data)) == str(data)
    assert data_path(f"s3:/{prefix}") == f"s3:/{prefix}"


def test_a_folder_has_precedence_over_a_prefix(tmp_path: Path) -> None:
    write_tokens(tmp_path / "both", [[1]])
    (tmp_path / "both").mkdir()
    assert data_path(str(tmp_path / "both")) == str(tmp_path / "both")
