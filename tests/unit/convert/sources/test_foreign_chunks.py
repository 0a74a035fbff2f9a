"""Chunks of other libraries are read by their own readers, where these are installed."""

from __future__ import annotations

import io
import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from loader.convert.importing.plan import ImportPlan
from loader.convert.importing.run import run_import
from loader.convert.sources.detect import open_source
from loader.convert.sources.foreign_chunks import ChunkSource, chunk_kind, part_of_value
from loader.convert.sources.source import Listing
from loader.convert.tables.source_options import SourceOptions
from loader.errors import ConfigError
from tests.unit.convert.importing.test_run import samples_of


def imported(folder: Path, output: Path) -> dict[str, dict[str, bytes]]:
    source = open_source(str(folder), kind=None, options=SourceOptions())
    run_import(ImportPlan(sources=(source,), output=str(output)))
    return samples_of(output)


def test_chunks_of_mosaicml_streaming(tmp_path: Path) -> None:
    streaming = pytest.importorskip("streaming", reason="needs mosaicml-streaming")
    columns = {"image": "jpeg", "caption": "str", "label": "int", "tokens": "ndarray", "meta": "json"}
    with streaming.MDSWriter(out=str(tmp_path / "mds"), columns=columns) as writer:
        for number in range(12):
            writer.write(
                {
                    "image": Image.new("RGB", (8, 8)),
                    "caption": f"photo {number}",
                    "label": number,
                    "tokens": np.arange(number + 1),
                    "meta": {"n": number},
                }
            )
    samples = imported(tmp_path / "mds", tmp_path / "out")
    assert sorted(samples["03"]) == ["caption.txt", "image.jpg", "label.cls", "meta.json", "tokens.npy"]
    assert [parts["caption.txt"].decode() for parts in samples.values()] == [f"photo {n}" for n in range(12)]


def test_chunks_of_litdata(tmp_path: Path) -> None:
    litdata = pytest.importorskip("litdata", reason="needs litdata")
    litdata.optimize(
        fn=caption,
        inputs=[*range(12)],
        output_dir=str(tmp_path / "lit"),
        chunk_bytes="1MB",
        num_workers=1,
    )
    samples = imported(tmp_path / "lit", tmp_path / "out")
    assert [parts["caption.txt"].decode() for parts in samples.values()] == [f"photo {n}" for n in range(12)]


def caption(number: int) -> dict[str, object]:
    return {"caption": f"photo {number}", "label": number}


def noise(number: int) -> Image.Image:
    return Image.fromarray(np.random.default_rng(number).integers(0, 256, (40, 60, 3), np.uint8))


def write_pictures(folder: Path, number: int) -> dict[str, Image.Image]:
    noise(number).save(folder / f"{number}.jpg")
    return {"photo": Image.open(folder / f"{number}.jpg"), "drawing": noise(number)}


def test_pictures_in_chunks_of_litdata_keep_their_bytes_else_they_are_png(tmp_path: Path) -> None:
    litdata = pytest.importorskip("litdata", reason="needs litdata")
    litdata.optimize(
        fn=partial(write_pictures, tmp_path),
        inputs=[*range(3)],
        output_dir=str(tmp_path / "lit"),
        chunk_bytes="1MB",
        num_workers=1,
    )
    for number, sample in enumerate(imported(tmp_path / "lit", tmp_path / "out").values()):
        assert sample["photo.jpg"] == (tmp_path / f"{number}.jpg").read_bytes()
        assert np.array_equal(np.asarray(Image.open(io.BytesIO(sample["drawing.png"]))), np.asarray(noise(number)))


def test_a_picture_whose_file_is_at_hand_keeps_its_bytes() -> None:
    file = io.BytesIO()
    Image.new("RGB", (8, 8)).save(file, "JPEG")
    assert part_of_value("image", Image.open(file)) == ("image.jpg", file.getvalue())
    assert part_of_value("image", Image.open(file).rotate(90))[0] == "image.png"


def test_a_column_that_ends_in_the_extension_keeps_its_name() -> None:
    names = [part_of_value(name, "a cat")[0] for name in ("txt", "left.txt", "a.left.TXT", "caption")]
    assert names == ["txt", "left.txt", "a_left.txt", "caption.txt"]


@pytest.mark.parametrize(
    ("index", "kind"),
    [({"version": 2, "shards": []}, "mds"), ({"chunks": [], "config": {}}, "litdata"), ({}, None), ([1], None)],
)
def test_the_index_tells_the_library(tmp_path: Path, index: object, kind: str | None) -> None:
    (tmp_path / "index.json").write_text(json.dumps(index))
    assert chunk_kind(str(tmp_path)) == kind
    assert chunk_kind(str(tmp_path / "nothing")) is None


def test_a_library_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "litdata", None)
    source = ChunkSource(path=str(tmp_path), kind="litdata")
    with pytest.raises(ConfigError, match="litdata, which is not installed") as caught:
        [*source.rows(Listing(scratch=str(tmp_path)))]
    assert caught.value.hint == "pip install litdata"


@pytest.mark.parametrize(
    "index",
    [
        {"version": 2, "shards": [{"column_encodings": ["int"]}, {"column_encodings": ["jpeg", "pkl"]}]},
        {"chunks": [], "config": {"data_format": ["int", "pickle"]}},
    ],
    ids=["mds", "litdata"],
)
def test_pickles_are_refused_before_their_library_reads_them(tmp_path: Path, index: dict[str, object]) -> None:
    (tmp_path / "index.json").write_text(json.dumps(index))
    source = open_source(str(tmp_path), kind=None, options=SourceOptions())
    with pytest.raises(ConfigError, match="pickles") as caught:
        source.open_cells()
    assert "ShardWriter" in str(caught.value)
