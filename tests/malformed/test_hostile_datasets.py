"""An untrusted dataset may try to run programs, read other files, hang, or fill the memory."""

from __future__ import annotations

import gzip
import io
import json
import logging
import shutil
import sqlite3
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from energon_cli import main as main_module
from loader.dataset.opening import folder_at
from loader.errors import ConfigError, FormatError, SampleError, TrustError
from loader.format.compat import foreign_index
from loader.format.dataset_ref import DatasetRef
from loader.format.documents import brace_patterns
from loader.format.documents.dataset_config import parse_dataset_config
from loader.format.documents.dataset_files import read_shard_info
from loader.format.index.dataset_index import DatasetIndex
from loader.format.index.journal import StoredScans, save_scans
from loader.format.index.shard_index import ShardIndex, decode_shard_index, encode_shard_index, index_shard
from loader.lint.report import LintPlan
from loader.lint.run import lint_dataset
from loader.prepare.plan import PreparePlan, SplitRequest
from loader.prepare.run import run_prepare
from loader.samples import PictureError, encoded_picture
from loader.samples.decoding import part_decode
from loader.samples.decoding.image_decode import IMAGE_FORMS, identify_image
from loader.samples.decoding.part_decode import decode_part
from loader.storage import LocalStorage, Storage


def prepared(folder: Path) -> Path:
    folder.mkdir()
    add_shard(folder / "s.tar", "a")
    prepare(folder)
    return folder


def add_shard(path: Path, *keys: str) -> None:
    with tarfile.open(path, "w") as tar:
        for key in keys:
            member = tarfile.TarInfo(f"{key}.txt")
            member.size = 1
            tar.addfile(member, io.BytesIO(b"x"))


def prepare(folder: Path, **options: Any) -> None:
    run_prepare(PreparePlan(path=str(folder), split=SplitRequest(ratio={"train": 1.0}), **options))


def change_column(dataset: Path, column: str, value: int) -> None:
    (path,) = dataset.glob(f".nv-meta/index/*/{column}.npy")
    values = np.load(path)
    values[0] = value
    np.save(path, values)


def postscript() -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (8, 8)).save(file, "EPS")
    return file.getvalue()


def iptc_around(picture: bytes) -> bytes:
    """Wrap an image in an IPTC container, which Pillow opens in the format of the image."""

    def field(record: int, tag: int, data: bytes) -> bytes:
        return bytes((0x1C, record, tag)) + len(data).to_bytes(2, "big") + data

    facts = [(60, b"\1\0"), (20, b"\0\x08"), (30, b"\0\x08"), (120, b"\5")]
    return b"".join(field(3, tag, data) for tag, data in facts) + field(8, 10, picture)


@pytest.mark.parametrize("data", [postscript(), iptc_around(postscript())], ids=["bare", "within IPTC"])
def test_looking_at_a_picture_runs_no_postscript(data: bytes) -> None:
    assert Image.open(io.BytesIO(data)).format in ("EPS", "IPTC")
    with pytest.raises(PictureError, match="a program that Ghostscript would run"):
        encoded_picture(data)
    with pytest.raises(TrustError):
        identify_image(data)
    assert identify_image(data, trust_code=True).size == (8, 8)


NAMES_THAT_LEAD_OUT = [
    "/etc/passwd",
    "/etc/s.tar",
    "../s.tar",
    "a/../../s.tar",
    "a//s.tar",
    "./s.tar",
    "s.txt",
    "\0.tar",
]


def change_json(path: Path, change: Callable[[Any], object]) -> None:
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


@pytest.mark.parametrize("name", NAMES_THAT_LEAD_OUT)
def test_no_shard_has_a_name_that_leads_out_of_the_dataset(tmp_path: Path, name: str) -> None:
    dataset = prepared(tmp_path / "dataset")
    storage = LocalStorage(dataset)
    (layout,) = dataset.glob(".nv-meta/index/*/layout.json")
    change_json(layout, lambda document: document["shards"][0].update(name=name))
    with pytest.raises(FormatError, match=r"expected the name of a \.tar, \.jsonl or \.parquet file"):
        DatasetIndex(storage, layout.parent.name)
    change_json(dataset / ".nv-meta/.info.json", lambda document: document["shard_counts"].update({name: 0}))
    with pytest.raises(ConfigError, match=r"expected the name of a \.tar, \.jsonl or \.parquet file"):
        read_shard_info(storage)


def test_prepare_removes_nothing_beside_files_that_a_planted_index_names(tmp_path: Path) -> None:
    dataset = prepared(tmp_path / "dataset")
    (tmp_path / "pack.idx").write_text("precious")
    (layout,) = dataset.glob(".nv-meta/index/*/layout.json")
    gone = str(tmp_path / "pack")
    change_json(
        layout,
        lambda document: document["shards"].append(
            document["shards"][-1] | {"name": gone, "samples": 0, "first_sample": document["samples"]}
        ),
    )
    change_json(dataset / ".nv-meta/.info.json", lambda document: document["shard_counts"].update({gone: 0}))
    prepare(dataset, force=True)
    assert (tmp_path / "pack.idx").read_text() == "precious"
    assert folder_at(dataset).read_parts(0) == {"txt": b"x"}


@pytest.mark.parametrize(
    ("column", "value"),
    [("part_size", 2**63), ("part_size", 2**40), ("part_name", 77), ("part_offset", 2**32 - 1), ("part_offset", 0)],
)
def test_columns_that_lead_out_of_a_shard_are_refused(tmp_path: Path, column: str, value: int) -> None:
    dataset = prepared(tmp_path / "dataset")
    change_column(dataset, column, value)
    with pytest.raises(FormatError, match="the columns of the index contradict each other"):
        folder_at(dataset).read_parts(0)


def test_a_key_of_a_sample_that_is_not_there_is_refused(tmp_path: Path) -> None:
    dataset = prepared(tmp_path / "dataset")
    change_column(dataset, "key_sample", 2**60)
    with pytest.raises(FormatError, match="a key belongs to sample"):
        folder_at(dataset).index.find("a")


def run_sql(dataset: Path, script: str) -> None:
    with closing(sqlite3.connect(dataset / ".nv-meta/index.sqlite")) as database:
        database.executescript(script)


TABLE = "CREATE TABLE samples (tar_file_id, sample_key, sample_index, byte_offset, byte_size"
PROGRAMS = {
    "view": "DROP TABLE samples; CREATE VIEW samples AS SELECT 0 tar_file_id, 'a' sample_key, 0 sample_index, "
    "0 byte_offset, 1024 byte_size",
    "computed column": f"DROP TABLE samples; {TABLE}, huge AS (hex(zeroblob(100000000))))",
    "trigger": "CREATE TRIGGER t BEFORE DELETE ON samples BEGIN DELETE FROM sample_parts; END",
    "virtual table": "DROP TABLE samples; CREATE VIRTUAL TABLE samples USING fts5("
    "tar_file_id, sample_key, sample_index, byte_offset, byte_size)",
}


@pytest.mark.parametrize("script", PROGRAMS.values(), ids=PROGRAMS)
def test_an_index_sqlite_that_is_a_program_is_not_read(
    tmp_path: Path, script: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = prepared(tmp_path / "dataset")
    run_sql(dataset, script)
    report = lint_dataset(LintPlan(ref=DatasetRef(str(dataset)), level="headers", workers=1))
    found = [finding for finding in report.findings if finding.code != "W004"]
    assert {finding.code for finding in found} == {"E006"}
    assert "which may compute without end" in found[0].message
    shutil.rmtree(dataset / ".nv-meta/index")
    scanned: list[str] = []

    def record(storage: Storage, name: str) -> ShardIndex:
        scanned.append(name)
        return index_shard(storage, name)

    monkeypatch.setattr(foreign_index, "index_shard", record)
    assert folder_at(dataset).read_parts(0) == {"txt": b"x"}
    assert scanned == ["s.tar"]


def test_a_trigger_in_our_own_index_sqlite_does_not_run_when_prepare_changes_it(tmp_path: Path) -> None:
    dataset = prepared(tmp_path / "dataset")
    for number in range(4):
        add_shard(dataset / f"t{number}.tar", f"t{number}")
    prepare(dataset)
    run_sql(dataset, "CREATE TRIGGER t BEFORE DELETE ON samples BEGIN INSERT INTO sample_parts VALUES (9,9,9,9,9); END")
    add_shard(dataset / "t3.tar", "t3", "t4")
    prepare(dataset)
    with closing(sqlite3.connect(dataset / ".nv-meta/index.sqlite")) as database:
        assert database.execute("SELECT 1 FROM sqlite_master WHERE type = 'trigger'").fetchall() == []
        assert database.execute("SELECT tar_file_id FROM sample_parts").fetchall() == [
            (0,),
            (1,),
            (2,),
            (3,),
            (4,),
            (4,),
        ]


def test_rows_of_an_index_sqlite_beyond_those_of_the_dataset_are_not_fetched(tmp_path: Path) -> None:
    dataset = prepared(tmp_path / "dataset")
    rows = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r LIMIT 500)"
    run_sql(dataset, f"{rows} INSERT INTO sample_parts SELECT 0, n, 'txt', 512, 1 FROM r")
    run_sql(dataset, f"{rows} INSERT INTO samples SELECT 0, 'k' || n, n, 0, 1024 FROM r")
    shutil.rmtree(dataset / ".nv-meta/index")
    assert folder_at(dataset).read_parts(0) == {"txt": b"x"}


FORGERIES: dict[str, Callable[[ShardIndex], dict[str, Any]]] = {
    "ends that descend": lambda index: {"part_ends": -index.part_ends},
    "columns of other lengths": lambda index: {"part_size": index.part_size[:0]},
    "no such part name": lambda index: {"part_name": index.part_name + 9},
    "a part before the shard": lambda index: {"part_offset": index.part_offset * 0},
    "a part between blocks": lambda index: {"part_offset": index.part_offset + 1},
    "a part after the end of the shard": lambda index: {
        "part_size": index.part_size + (1 << 40),
        "end_offset": 1 << 41,
    },
    "a sample after the end of the shard": lambda index: {"sample_offsets": index.sample_offsets + (1 << 40)},
    "an order of no samples": lambda index: {"key_order": index.key_order + 1},
    "names that are not texts": lambda index: {"part_names": (1, None)},
    "warnings that are not texts": lambda index: {"warnings": ({"a": 1},)},
    "a count that is not a number": lambda index: {"scattered": "x"},
    "a negative end": lambda index: {"end_offset": -1},
}


@pytest.mark.parametrize("forgery", FORGERIES.values(), ids=FORGERIES)
def test_a_planted_scan_that_no_shard_could_have_is_not_used(
    tmp_path: Path, forgery: Callable[[ShardIndex], dict[str, Any]]
) -> None:
    add_shard(tmp_path / "s.tar", "a", "b")
    storage = LocalStorage(tmp_path)
    shard, index = storage.stat("s.tar"), index_shard(storage, "s.tar")
    save_scans(storage, [(shard, index)])
    assert StoredScans(storage).load(shard) is not None
    save_scans(storage, [(shard, replace(index, **forgery(index)))])
    assert StoredScans(storage).load(shard) is None


def test_a_planted_scan_takes_no_memory_for_rows_that_it_does_not_hold(tmp_path: Path) -> None:
    add_shard(tmp_path / "s.tar", "a")
    index = index_shard(LocalStorage(tmp_path), "s.tar")
    header, _, columns = encode_shard_index(index).partition(b"\n")
    planted = {**json.loads(header), "rows": [1 << 50, *json.loads(header)["rows"][1:]]}
    with pytest.raises(FormatError, match=r"expected 450359962737\d+ bytes of columns, found"):
        decode_shard_index(json.dumps(planted).encode() + b"\n" + columns, name="s.tar")


HUGE = "0x" + "f" * 6000


@pytest.mark.parametrize(
    "text",
    [
        f"field_map: {HUGE}",
        f"__class__: {HUGE}",
        f"? {HUGE}\n: 1",
        f"{{__module__: megatron.energon, __class__: CrudeWebdataset, subflavors: {{a: {HUGE}}}}}",
    ],
)
def test_integers_that_python_will_not_write_are_refused_with_their_place(text: str) -> None:
    with pytest.raises(ConfigError, match=r"line 1, column .*an integer has more than 1024 bits"):
        parse_dataset_config(text, file="dataset.yaml")


def test_references_to_a_long_text_count_by_its_length() -> None:
    names = ",".join
    text = f"a: &a {'x' * 100_000}\nb: &b [{names(['*a'] * 100)}]\nsample_type: [{names(['*b'] * 400)}]"
    with pytest.raises(ConfigError, match="its references expand to too many values"):
        parse_dataset_config(text, file="dataset.yaml")


LONG = "x" * 50_000


@pytest.mark.parametrize(
    "text",
    [
        f"sample_type: {LONG}",
        f"__class__: {LONG}",
        f"__class__: [{LONG}, {LONG}]",
        f"sample_type: {{__class__: {LONG}}}",
        f"sample_type: {{{LONG}: 1}}",
        f"? {LONG}\n: 1",
        f"? [{LONG}, {LONG}]\n: 1",
        f"field_map: {LONG}",
        f"sample_loader: {LONG}",
        f"part_filter: [1, {LONG}]",
        f"subflavors: {LONG}",
        f"sample_type: {{__class__: CaptioningSample}}\nfield_map: {{image: jpg, caption: txt, {LONG[:100]}: txt}}",
    ],
)
def test_messages_about_a_dataset_yaml_are_short_whatever_it_holds(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_dataset_config(text, file="dataset.yaml")
    assert all(len(str(fault)) < 1000 for fault in caught.value.faults)


def test_what_the_library_logs_commands_no_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def warn(*_: object) -> int:
        logging.getLogger("loader.format").warning("shard %s changed", "\x1b[2J\x1b]0;owned\x07\n.tar")
        return 0

    monkeypatch.setattr(main_module, "_run", warn)
    assert main_module.main(["info"]) == 0
    assert capsys.readouterr().err == "shard \\x1b[2J\\x1b]0;owned\\x07\\n.tar changed\n"


def numpy_archive(values: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, a=values, b=values)
    return file.getvalue()


def torch_archive(size_bytes: int) -> bytes:
    """Return a file of torch.save, whose members are compressed; torch itself stores them as they are."""
    plain, packed = io.BytesIO(), io.BytesIO()
    torch.save(torch.zeros(size_bytes, dtype=torch.uint8), plain)
    with zipfile.ZipFile(plain) as source, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as target:
        for member in source.infolist():
            target.writestr(member.filename, source.read(member))
    return packed.getvalue()


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("txt.gz", gzip.compress(bytes(2000), mtime=0)),
        ("npz", numpy_archive(np.zeros(900, np.uint8))),
        ("pth", torch_archive(9000)),
    ],
    ids=["gz", "npz", "pth"],  # test names must not contain bytes that change with the date
)
def test_a_part_that_decompresses_to_too_much_is_refused(
    name: str, data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert decode_part(name, data, form=IMAGE_FORMS["rgb8"]) is not None
    monkeypatch.setattr(part_decode, "MAX_DECOMPRESSED_BYTES", 1999)
    with pytest.raises(SampleError, match="it holds more than 1,999 bytes, the limit of loader"):
        decode_part(name, data, form=IMAGE_FORMS["rgb8"])


@pytest.mark.parametrize("pattern", ["{0..999999999999999999}" * 2500, "{a,b}" * 13_000, "{a,b}" * 1_000_000])
def test_patterns_that_stand_for_very_many_names_are_not_counted_to_the_end(
    pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = []
    tokens_of = brace_patterns._TOKEN.finditer

    class Counting:
        @staticmethod
        def finditer(text: str) -> Iterator[Any]:
            for token in tokens_of(text):
                counted.append(token)
                yield token

    monkeypatch.setattr(brace_patterns, "_TOKEN", Counting)
    with pytest.raises(ConfigError, match="expected at most"):
        brace_patterns.expand_pattern(pattern)
    assert len(counted) < 300


def test_info_shows_the_largest_of_very_many_parts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "d").mkdir()
    with tarfile.open(tmp_path / "d/s.tar", "w") as tar:
        for number in range(60):
            member = tarfile.TarInfo(f"a.p{number:02}")
            member.size = 1000 + number
            tar.addfile(member, io.BytesIO(bytes(member.size)))
    prepare(tmp_path / "d")
    assert main_module.main(["info", str(tmp_path / "d")]) == 0
    text = capsys.readouterr().out.partition("part set ")[0]
    assert [number for number in range(60) if f"p{number:02} " in text] == list(range(10, 60))
    assert "… and 10 more (--json lists all)" in text
    assert main_module.main(["info", str(tmp_path / "d"), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["parts"]) == 60


def test_a_dataset_yaml_of_megabytes_is_not_parsed(tmp_path: Path) -> None:
    folder = prepared(tmp_path / "ds")
    (folder / ".nv-meta" / "dataset.yaml").write_bytes(b"a: b\n" * 300_000)
    with pytest.raises(ConfigError, match="has 1,500,000 bytes, more than the limit of 1,048,576"):
        _ = folder_at(str(folder)).documents.config


def test_a_metadataset_of_too_many_values_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from loader.metadataset.documents.parse import parse_metadataset

    monkeypatch.setenv("ENERGON_MAX_DOCUMENT_BYTES", "2560")
    _, faults = parse_metadataset("splits: [" + "a, " * 20 + "b]", file="mix.yaml")
    assert [fault.message for fault in faults] == ["this document has more than 10 values"]
