"""Exports are read back by the real libraries with the same values."""

from __future__ import annotations

import io
import json
import os
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from loader.convert.exporting import ExportReport, ExportRequest, export_samples
from loader.convert.importing.plan import ImportPlan
from loader.convert.importing.run import run_import
from loader.convert.sources.detect import open_source
from loader.convert.tables.source_options import SourceOptions
from loader.dataset.opening import folder_at
from loader.dataset.query import SampleQuery
from loader.errors import ConfigError, SampleError, StorageError
from loader.format.dataset_ref import DatasetRef
from loader.format.tar.header import BLOCK
from tests.cli.make_dataset import picture
from tests.e2e.dataset_tree import RATIO, copy_of, prepare, shard_path, write_shard
from tests.unit.convert.importing.test_run import samples_of


def parts(number: int) -> dict[str, bytes]:
    found = {"jpg": picture(number), "txt": f"nümber {number}".encode(), "cls": b"%d" % number}
    return found | {"json": json.dumps({"n": number}).encode(), **({"npy": b"\x93NUMPY"} if number % 2 else {})}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for shard in range(4):
        write_shard(shard_path(tmp_path / "ds", shard), {f"{n:04d}": parts(n) for n in range(shard * 3, shard * 3 + 3)})
    prepare(tmp_path / "ds", split=RATIO)
    return tmp_path / "ds"


def export(folder: Path, output: Path, **options: Any) -> ExportReport:
    return export_samples(ExportRequest(refs=[DatasetRef(str(folder))], output=str(output), **options))


def full_keys(folder: Path) -> list[str]:
    opened = folder_at(folder)
    return [opened.index.full_key(sample) for sample in range(len(opened.index))]


def test_a_parquet_file_has_a_column_for_each_part(folder: Path, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    report = export(folder, tmp_path / "out.parquet", format="parquet")
    table = parquet.read_table(tmp_path / "out.parquet")
    types = {field.name: str(field.type) for field in table.schema}
    expected = {
        "__key__": "string",
        "__split__": "string",
        "cls": "int64",
        "jpg": "struct<bytes: binary, path: string>",
    }
    assert types == {**expected, "json": "string", "npy": "binary", "txt": "string"}
    rows = table.to_pylist()
    assert [row["__key__"] for row in rows] == full_keys(folder)
    assert {row["__split__"] for row in rows} == {"train", "val"}
    for number, row in enumerate(rows):
        assert (row["cls"], row["txt"], json.loads(row["json"])) == (number, f"nümber {number}", {"n": number})
        assert row["jpg"] == {"bytes": picture(number), "path": f"{number:04d}.jpg"}
        assert (row["npy"] is None) == (number % 2 == 0)
    assert report.samples == 12


def test_datasets_reads_the_pictures_of_a_parquet_file_as_pictures(folder: Path, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    export(folder, tmp_path / "out.parquet", format="parquet")
    export(folder, tmp_path / "raw.parquet", format="parquet", raw=True)
    table = datasets.Dataset.from_parquet(str(tmp_path / "out.parquet"), cache_dir=str(tmp_path / "cache"))
    assert isinstance(table.features["jpg"], datasets.Image)
    assert np.array_equal(np.asarray(table[3]["jpg"]), np.asarray(Image.open(io.BytesIO(picture(3)))))
    assert (table[3]["txt"], table[3]["cls"], table[3]["npy"]) == ("nümber 3", 3, b"\x93NUMPY")
    raw = datasets.Dataset.from_parquet(str(tmp_path / "raw.parquet"), cache_dir=str(tmp_path / "cache"))
    assert raw[3]["jpg"] == picture(3)


def test_a_byte_order_mark_is_no_part_of_an_exported_text(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    write_shard(shard_path(tmp_path / "ds", 0), {"1": {"txt": b"\xef\xbb\xbfhello", "json": b"\xef\xbb\xbf[1]"}})
    prepare(tmp_path / "ds", split=RATIO)
    export(tmp_path / "ds", tmp_path / "out.parquet", format="parquet")
    export(tmp_path / "ds", tmp_path / "out.jsonl", format="jsonl")
    [row] = parquet.read_table(tmp_path / "out.parquet").to_pylist()
    assert (row["txt"], row["json"]) == ("hello", "[1]")
    line = json.loads((tmp_path / "out.jsonl").read_text())
    assert (line["txt"], line["json"]) == ("hello", [1])


def test_a_hugging_face_dataset_decodes_pictures_and_keeps_splits(folder: Path, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    export(folder, tmp_path / "hf", format="hf")
    loaded = datasets.load_from_disk(str(tmp_path / "hf"))
    assert {*loaded} == {"train", "val"}
    rows = sorted((row for part in loaded.values() for row in part), key=lambda row: row["__key__"])
    assert [row["__key__"] for row in rows] == full_keys(folder)
    opened = folder_at(folder)
    assert opened.documents.split is not None
    assert {row["__key__"].partition("/")[0] for row in loaded["val"]} == {*opened.documents.split.split_parts["val"]}
    for number, row in enumerate(rows):
        assert (row["cls"], row["txt"], json.loads(row["json"])) == (number, f"nümber {number}", {"n": number})
        (tmp_path / "x.jpg").write_bytes(picture(number))
        assert np.array_equal(np.asarray(row["jpg"]), np.asarray(Image.open(tmp_path / "x.jpg")))
    assert sorted(os.listdir(tmp_path / "hf")) == ["dataset_dict.json", "train", "val"]


def test_a_split_named_after_a_folder_above_stays_in_the_output(folder: Path, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    split = folder / ".nv-meta/split.yaml"
    split.write_text(split.read_text().replace("train:", "'../../evil':"))
    export(folder, tmp_path / "a/b/hf", format="hf")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "ds"]
    assert [*(tmp_path / "a").iterdir()] == [tmp_path / "a/b"]
    assert sorted(os.listdir(tmp_path / "a/b/hf")) == ["..%2F..%2Fevil", "dataset_dict.json", "val"]
    loaded = datasets.load_from_disk(str(tmp_path / "a/b/hf"))
    assert sum(map(len, loaded.values())) == 12


def test_samples_without_a_split_stay_next_to_a_part_called_unsplit(folder: Path, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    first = min(folder_at(folder).shard_counts)
    (folder / ".nv-meta/split.yaml").write_text(f"split_parts: {{unsplit: [{first}]}}")
    export(folder, tmp_path / "hf", format="hf")
    loaded = datasets.load_from_disk(str(tmp_path / "hf"))
    assert {*loaded} == {"unsplit", "unsplit_"}
    assert {row["__key__"].partition("/")[0] for row in loaded["unsplit"]} == {first}
    assert sum(map(len, loaded.values())) == 12


def test_a_hugging_face_dataset_without_splits_is_one(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    write_shard(shard_path(tmp_path / "ds", 0), {"a": {"txt": b"x", "wav": b"RIFF"}})
    prepare(tmp_path / "ds")
    (tmp_path / "ds/.nv-meta/split.yaml").unlink()
    export(tmp_path / "ds", tmp_path / "hf", format="hf")
    loaded = datasets.load_from_disk(str(tmp_path / "hf"))
    assert loaded.cast_column("wav", datasets.Audio(decode=False))[0]["wav"]["bytes"] == b"RIFF"
    assert loaded.num_rows == 1


@pytest.mark.parametrize("form", ["parquet", "hf"])
def test_values_that_do_not_fit_are_refused_or_kept_as_bytes(tmp_path: Path, form: str) -> None:
    pytest.importorskip("pyarrow")
    pytest.importorskip("datasets")
    write_shard(shard_path(tmp_path / "ds", 0), {"a": {"cls": b"1"}, "b": {"cls": b"cat"}})
    prepare(tmp_path / "ds")
    with pytest.raises(SampleError, match="expected an integer, found b'cat'") as failed:
        export(tmp_path / "ds", tmp_path / "out", format=form)
    assert "shard_000.tar/b" in str(failed.value)
    assert "export all parts as bytes: --raw" in str(failed.value)
    assert os.listdir(tmp_path) == ["ds"]
    export(tmp_path / "ds", tmp_path / "out", format=form, raw=True)


@pytest.mark.parametrize("link", [False, True])
def test_whole_shards_are_copied_or_linked_without_metadata(folder: Path, tmp_path: Path, link: bool) -> None:
    report = export(folder, tmp_path / "plain", format="webdataset", link=link)
    names = [f"shard_{number:03d}.tar" for number in range(4)]
    assert sorted(os.listdir(tmp_path / "plain")) == names
    for name in names:
        assert (tmp_path / "plain" / name).read_bytes() == (folder / name).read_bytes()
        assert (tmp_path / "plain" / name).samefile(folder / name) == link
    assert report.size_bytes == sum((folder / name).stat().st_size for name in names)


def test_a_selection_is_written_to_other_shards(folder: Path, tmp_path: Path) -> None:
    query = SampleQuery(split_parts=["train"])
    export(folder, tmp_path / "plain", format="webdataset", query=query, drop_parts=("jpg", "np*"))
    prepare(copy_of(tmp_path / "plain", tmp_path / "again"))
    opened = folder_at(tmp_path / "again")
    assert 0 < len(opened.index) < 12
    assert {*opened.read_parts(0)} == {"cls", "json", "txt"}
    with pytest.raises(ConfigError, match="links are made of whole shards"):
        export(folder, tmp_path / "other", format="webdataset", query=query, link=True)


def test_no_tar_shard_exceeds_its_size(folder: Path, tmp_path: Path) -> None:
    export(folder, tmp_path / "out", format="tar", shard_bytes=10_000)
    shards = sorted((tmp_path / "out").glob("*.tar"))
    contents = []
    for path in shards:
        with tarfile.open(path) as tar:
            contents.append(sum(BLOCK + -(-member.size // BLOCK) * BLOCK for member in tar))
    assert len(contents) > 2
    assert max(contents) <= 10_000 < contents[0] + contents[1]


@pytest.mark.parametrize("form", ["files", "jsonl", "parquet", "hf", "tar", "webdataset"])
def test_exports_are_written_to_new_local_places(folder: Path, tmp_path: Path, form: str) -> None:
    pytest.importorskip("datasets")
    (tmp_path / "full").mkdir()
    (tmp_path / "full/mine").write_text("x")
    with pytest.raises(StorageError, match="nothing is overwritten"):
        export(folder, tmp_path / "full", format=form)
    assert os.listdir(tmp_path / "full") == ["mine"]
    with pytest.raises(ConfigError, match="this is written to a folder of this machine"):
        export_samples(ExportRequest(refs=[DatasetRef(str(folder))], output="s3://bucket/out", format=form))


@pytest.mark.parametrize("form", ["parquet", "hf", "webdataset"])
def test_an_error_half_way_leaves_nothing(folder: Path, tmp_path: Path, form: str) -> None:
    pytest.importorskip("datasets")
    shard_path(folder, 2).write_bytes(b"cut")
    with pytest.raises(Exception, match="has changed since it was indexed"):
        export(folder, tmp_path / "out", format=form)
    assert os.listdir(tmp_path) == ["ds"]


def test_class_folders_have_the_pictures_of_each_label(folder: Path, tmp_path: Path) -> None:
    export(folder, tmp_path / "out", format="class-folders")
    # Numbers have leading zeros, so that the order of names is the order of classes.
    assert sorted(os.listdir(tmp_path / "out")) == [f"{number:02}" for number in range(12)]
    assert os.listdir(tmp_path / "out/07") == ["0007.jpg"]
    assert (tmp_path / "out/07/0007.jpg").read_bytes() == picture(7)


def test_class_folders_come_back_by_import(tmp_path: Path) -> None:
    samples = {
        f"{n}": {"jpg": picture(n), "json": json.dumps({"kind": "a/b" if n % 3 else "ox"}).encode()} for n in range(9)
    }
    write_shard(shard_path(tmp_path / "ds", 0), samples)
    prepare(tmp_path / "ds", split=RATIO)
    export(tmp_path / "ds", tmp_path / "out", format="class-folders", label="json[kind]")
    assert sorted(os.listdir(tmp_path / "out")) == ["a%2Fb", "ox"]
    run_import(
        ImportPlan(
            sources=(open_source(str(tmp_path / "out"), kind=None, options=SourceOptions()),),
            output=str(tmp_path / "back"),
        )
    )
    back = samples_of(tmp_path / "back").values()
    assert sorted((parts["cls"], parts["jpg"]) for parts in back) == sorted(
        (b"0" if n % 3 else b"1", picture(n)) for n in range(9)
    )


def test_class_folders_take_the_labels_of_the_chosen_samples(folder: Path, tmp_path: Path) -> None:
    twice = [DatasetRef(str(folder)), DatasetRef(str(copy_of(folder, tmp_path / "copy")))]
    query = SampleQuery(keys=["0005", "0010"])
    request = ExportRequest(
        refs=twice, output=str(tmp_path / "out"), format="class-folders", query=query, by_shard=True
    )
    export_samples(request)
    files = sorted(str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*.jpg"))
    assert [(name.split("/")[0], name.split("/")[-1]) for name in files] == [
        ("05", "0005.jpg"), ("05", "0005.jpg"), ("10", "0010.jpg"), ("10", "0010.jpg"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("labels", "folders"),
    [((b"1", b"01", b"12"), ["01", "1", "12"]), ((b"caf\xe9", b"caf\xe8"), ["caf\\xe8", "caf\\xe9"])],
    ids=["zeros", "bytes that are no text"],
)
def test_labels_that_differ_have_folders_that_differ(tmp_path: Path, labels: Any, folders: list[str]) -> None:
    samples = {f"{n}": {"jpg": picture(n), "txt": label} for n, label in enumerate(labels)}
    write_shard(shard_path(tmp_path / "ds", 0), samples)
    prepare(tmp_path / "ds", split=RATIO)
    export(tmp_path / "ds", tmp_path / "out", format="class-folders", label="txt", keep_parts=("jpg",))
    assert sorted(os.listdir(tmp_path / "out")) == folders


def test_names_of_classes_do_not_depend_on_the_chosen_samples(folder: Path, tmp_path: Path) -> None:
    export(folder, tmp_path / "out", format="class-folders", query=SampleQuery(keys=["0005"]))
    assert os.listdir(tmp_path / "out") == ["05"]


@pytest.mark.parametrize("form", ["jsonl", "parquet", "hf", "mds", "litdata"])
def test_a_part_with_the_name_of_a_column_is_refused(tmp_path: Path, form: str) -> None:
    write_shard(shard_path(tmp_path / "ds", 0), {"a": {"__key__": b"x", "txt": b"a"}})
    prepare(tmp_path / "ds", split=RATIO)
    with pytest.raises(ConfigError, match="rows of this format have a column of this name"):
        export(tmp_path / "ds", tmp_path / "out", format=form)
    export(tmp_path / "ds", tmp_path / "out", format=form, keep_parts=("txt",))


@pytest.mark.parametrize(
    ("parts_of_samples", "fault"),
    [
        ([{"jpg": b"1", "cls": b"1"}, {"jpg": b"2"}], "this sample has no value 'cls'"),
        ([{"jpg": b"1", "seg.png": b"2", "cls": b"1"}], "several pictures, jpg, seg.png"),
    ],
)
def test_class_folders_refuse_samples_that_would_be_several_or_none(
    tmp_path: Path, parts_of_samples: list[dict[str, bytes]], fault: str
) -> None:
    write_shard(shard_path(tmp_path / "ds", 0), {f"{n}": parts for n, parts in enumerate(parts_of_samples)})
    prepare(tmp_path / "ds", split=RATIO)
    with pytest.raises(SampleError, match=fault):
        export(tmp_path / "ds", tmp_path / "out", format="class-folders")
    assert not (tmp_path / "out").exists()


def test_class_folders_need_pictures(tmp_path: Path) -> None:
    write_shard(shard_path(tmp_path / "ds", 0), {"a": {"txt": b"a", "cls": b"1"}})
    prepare(tmp_path / "ds", split=RATIO)
    with pytest.raises(ConfigError, match="no part is a picture, but cls, txt"):
        export(tmp_path / "ds", tmp_path / "out", format="class-folders")
    export(tmp_path / "ds", tmp_path / "texts", format="class-folders", keep_parts=("txt",))
    assert (tmp_path / "texts/1/a.txt").read_bytes() == b"a"


def test_classes_of_a_table_come_back_with_their_names(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    names = ["ox", "cat", "dog"]
    features = {"image": datasets.Image(), "label": datasets.ClassLabel(names=names)}
    rows = {"image": [{"bytes": picture(n), "path": None} for n in range(9)], "label": [n % 3 for n in range(9)]}
    table = datasets.Dataset.from_dict(rows, features=datasets.Features(features))
    table.save_to_disk(str(tmp_path / "table"))
    source = open_source(str(tmp_path / "table"), kind=None, options=SourceOptions())
    run_import(ImportPlan(sources=(source,), output=str(tmp_path / "ds")))
    export(tmp_path / "ds", tmp_path / "hf", format="hf", label="json[label]")
    export(tmp_path / "ds", tmp_path / "t.parquet", format="parquet", label="json[label]")
    saved = datasets.concatenate_datasets([*datasets.load_from_disk(str(tmp_path / "hf")).values()])
    read = datasets.Dataset.from_parquet(str(tmp_path / "t.parquet"), cache_dir=str(tmp_path / "cache"))
    for back in (saved, read):
        assert back.features["cls"] == datasets.ClassLabel(names=names)
        assert back.features["jpg"] == datasets.Image()
        undecoded = back.cast_column("jpg", datasets.Image(decode=False))
        by_number = sorted((row["cls"], row["jpg"]["bytes"]) for row in undecoded)
        assert by_number == sorted((n % 3, picture(n)) for n in range(9))


@pytest.mark.parametrize("kinds", [["a", "b", "c"], ["a", "a", "a"], ["a", "a", None]])
def test_a_number_of_a_class_needs_a_name_of_its_own(tmp_path: Path, kinds: list[str | None]) -> None:
    pytest.importorskip("pyarrow")
    samples = {
        f"{n}": {"cls": b"01"[n % 2 : n % 2 + 1], "json": json.dumps({"kind": kind} if kind else {}).encode()}
        for n, kind in enumerate(kinds)
    }
    write_shard(shard_path(tmp_path / "ds", 0), samples)
    prepare(tmp_path / "ds", split=RATIO)
    with pytest.raises(ConfigError, match="does not give each number in 'cls' a name of its own"):
        export(tmp_path / "ds", tmp_path / "t.parquet", format="parquet", label="json[kind]")
    with pytest.raises(ConfigError, match="belong to one part with numbers of classes, found 0"):
        export(tmp_path / "ds", tmp_path / "t.parquet", format="parquet", label="json[kind]", keep_parts=("json",))


@pytest.mark.parametrize("output", ["t.parquet", "hf", "mds"])
def test_a_name_of_a_part_that_is_no_name_of_a_column_is_refused(tmp_path: Path, output: str) -> None:
    pytest.importorskip("pyarrow")
    name = os.fsdecode(b"caf\xe9")
    with tarfile.open(tmp_path / "s.tar", "w") as tar:
        for member in (f"a.{name}", "a.txt"):
            tar.addfile(tarfile.TarInfo(member), io.BytesIO())
    (tmp_path / "ds").mkdir()
    (tmp_path / "s.tar").rename(tmp_path / "ds/s.tar")
    prepare(tmp_path / "ds", split=RATIO)
    form = output.rpartition(".")[2]
    with pytest.raises(ConfigError, match=r"the part 'caf\\udce9' is not UTF-8") as caught:
        export(tmp_path / "ds", tmp_path / output, format=form)
    assert "--drop-parts" in (caught.value.hint or "")
    assert not (tmp_path / output).exists()
