"""Datasets of the library ``datasets`` become samples; pictures and sounds keep their bytes."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from loader.convert.rows.shard_layout import ShardLayout
from loader.convert.sources.detect import open_source
from loader.convert.sources.hugging_face import HuggingFaceSource
from loader.convert.sources.source import Listing
from loader.convert.tables.source_options import SourceOptions
from loader.errors import ConfigError, FormatError
from tests.imports import imported, picture

WAV = b"RIFF\x24\0\0\0WAVEfmt " + bytes(28)


def library() -> Any:
    """The library, which takes a second to import: not for runs that only collect these tests."""
    datasets: Any = pytest.importorskip("datasets")
    datasets.disable_progress_bars()
    return datasets


def make(numbers: range) -> Any:
    datasets = library()
    values = {
        "image": [{"bytes": picture(number), "path": None} for number in numbers],
        "label": [number % 2 for number in numbers],
        "sound": [{"bytes": WAV + bytes([number]), "path": "a.wav"} for number in numbers],
    }
    features = {"image": datasets.Image(), "label": datasets.ClassLabel(names=["cat", "dog"])}
    sound = {"bytes": datasets.Value("binary"), "path": datasets.Value("string")}
    table = datasets.Dataset.from_dict(values, features=datasets.Features(features | {"sound": sound}))
    return table.cast_column("sound", datasets.Audio(decode=False))


def sample(number: int) -> dict[str, bytes]:
    name = b'{"label":"dog"}' if number % 2 else b'{"label":"cat"}'
    label = b"%d" % (number % 2)
    return {"cls": label, "image.jpg": picture(number), "json": name, "sound.wav": WAV + bytes([number])}


def test_a_dataset_with_rows_chosen_and_shuffled_is_read_as_it_stands(tmp_path: Path) -> None:
    chosen = make(range(30)).select([5, 3, 29, 7])
    chosen.save_to_disk(tmp_path / "saved")
    source = open_source(str(tmp_path / "saved"), kind=None, options=SourceOptions())
    assert source.kind == "hf"
    samples, report = imported(source, tmp_path / "out")
    assert samples == {f"{row:09d}": sample(number) for row, number in enumerate([5, 3, 29, 7])}
    assert report.failed == 0


@pytest.mark.parametrize("seed", [pytest.param(None, marks=pytest.mark.slow), 2])
def test_splits_become_split_parts(seed: int | None, tmp_path: Path) -> None:
    both = library().DatasetDict({"train": make(range(40)), "validation": make(range(40, 45))})
    both.save_to_disk(tmp_path / "saved")
    source = HuggingFaceSource(path=str(tmp_path / "saved"))
    layout = ShardLayout(samples_per_shard=11, shuffle_seed=seed)
    samples, _ = imported(source, tmp_path / "out", layout=layout, workers=2)
    assert samples == {f"train/{number:09d}": sample(number) for number in range(40)} | {
        f"validation/{number - 40:09d}": sample(number) for number in range(40, 45)
    }
    split = (tmp_path / "out/.nv-meta/split.yaml").read_text()
    assert "val" in split
    assert "train" in split


def test_files_of_the_hub_are_read_in_place(tmp_path: Path) -> None:
    (tmp_path / "in/data").mkdir(parents=True)
    make(range(10)).to_parquet(tmp_path / "in/data/train-00000-of-00001.parquet")
    make(range(10, 12)).to_parquet(tmp_path / "in/data/test-00000-of-00001.parquet")
    (tmp_path / "in/README.md").write_text("about it")
    source = open_source(str(tmp_path / "in"), kind=None, options=SourceOptions())
    assert source.kind == "hf"
    assert [row.split for row in source.rows(Listing())] == ["test"] * 2 + ["train"] * 10
    samples, _ = imported(source, tmp_path / "out")
    assert samples["data/train-00000-of-00001/000000003"] == sample(3)


def test_paths_of_pictures_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(picture(1))
    datasets = library()
    table = datasets.Dataset.from_dict({"image": [str(tmp_path / "a.jpg")]}).cast_column("image", datasets.Image())
    table.save_to_disk(tmp_path / "saved")
    samples, _ = imported(HuggingFaceSource(path=str(tmp_path / "saved")), tmp_path / "out")
    assert samples == {"000000000": {"jpg": picture(1)}}


def test_a_damaged_dataset_and_a_folder_that_is_none_are_errors(tmp_path: Path) -> None:
    make(range(3)).save_to_disk(tmp_path / "saved")
    shutil.copytree(tmp_path / "saved", tmp_path / "copy")
    next((tmp_path / "copy").glob("*.arrow")).unlink()
    with pytest.raises(FormatError, match="cannot be loaded"):
        list(HuggingFaceSource(path=str(tmp_path / "copy")).rows(Listing()))
    (tmp_path / "none").mkdir()
    with pytest.raises(ConfigError, match="no Hugging Face dataset"):
        list(HuggingFaceSource(path=str(tmp_path / "none")).rows(Listing()))


def test_a_split_with_splits_of_its_own_is_an_error(tmp_path: Path) -> None:
    library().DatasetDict({"outside": make(range(2))}).save_to_disk(tmp_path / "saved/train")
    (tmp_path / "saved/dataset_dict.json").write_text('{"splits": ["train"]}')
    with pytest.raises(FormatError, match="cannot be loaded"):
        list(HuggingFaceSource(path=str(tmp_path / "saved")).rows(Listing()))


def test_without_the_library_the_error_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(range(1)).save_to_disk(tmp_path / "saved")
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ConfigError) as caught:
        list(HuggingFaceSource(path=str(tmp_path / "saved")).rows(Listing()))
    assert caught.value.hint == "run: pip install 'energon-toolkit[hf]'"
