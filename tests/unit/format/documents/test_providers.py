"""The formats of datasets, detected by path."""

from __future__ import annotations

from pathlib import Path

import pytest

from loader.format.data_kind import KINDS, data_kind, data_path
from loader.format.dataset_ref import DatasetRef
from loader.format.documents.next_command import fault_of_file
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
    assert data_kind(path).format == expected


def test_no_path_is_of_two_kinds() -> None:
    endings = [ending for kind in KINDS for ending in kind.suffixes]
    assert not [each for each in endings for other in endings if each != other and each.endswith(other)]
    assert [kind.format for kind in KINDS if not kind.suffixes] == ["folder"]


def test_a_reference_knows_its_kind(tmp_path: Path) -> None:
    data = write_tokens(tmp_path / "tokens", [[1]])
    assert DatasetRef("mix.yaml").kind.is_mix
    assert DatasetRef.of(tmp_path / "tokens").kind.is_file
    assert DatasetRef.of(DatasetRef(str(tmp_path / "tokens"), trust_code=True)) == DatasetRef(
        str(data), trust_code=True
    )
    assert not DatasetRef(str(tmp_path)).kind.is_file


def test_a_prefix_names_a_pair_of_token_files(tmp_path: Path) -> None:
    prefix = tmp_path / "my#text_document"
    assert data_path(str(prefix)) == str(prefix)
    data = write_tokens(prefix, [[1]])
    assert data_path(str(prefix)) == str(data)
    assert data_path(str(data)) == str(data)
    assert data_path(f"s3:/{prefix}") == f"s3:/{prefix}"


@pytest.mark.parametrize("suffix", [".bin", ".idx"])
def test_one_file_of_a_pair_is_enough_for_the_prefix(tmp_path: Path, suffix: str) -> None:
    write_tokens(tmp_path / "half", [[1]])
    (tmp_path / f"half{suffix}").unlink()
    assert data_path(str(tmp_path / "half")) == str(tmp_path / "half.bin")


def test_a_shard_with_an_index_is_no_prefix(tmp_path: Path) -> None:
    (tmp_path / "shard.tar.idx").touch()  # an index of megatron-energon, whose shard is missing
    assert data_path(str(tmp_path / "shard.tar")) == str(tmp_path / "shard.tar")


def test_a_file_of_another_format_is_no_dataset(tmp_path: Path) -> None:
    for name in ("data.csv", "shard.tar", "tokens.bin"):
        (tmp_path / name).touch()
    fault = fault_of_file(str(tmp_path / "data.csv"))
    assert fault is not None
    assert fault[0].endswith("or a file that ends in .yaml, .yml, .jsonl, .bin or .parquet")
    assert fault_of_file(str(tmp_path / "shard.tar")) == (
        "a single tar file is not a dataset", f"give its folder: {tmp_path}",
    )  # fmt: skip
    assert fault_of_file(str(tmp_path / "tokens.bin")) is None
    assert fault_of_file(str(tmp_path)) is None


def test_a_folder_has_precedence_over_a_prefix(tmp_path: Path) -> None:
    write_tokens(tmp_path / "both", [[1]])
    (tmp_path / "both").mkdir()
    assert data_path(str(tmp_path / "both")) == str(tmp_path / "both")
