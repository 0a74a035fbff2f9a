"""Extracted samples have the bytes of the shards, whatever their keys; an error leaves nothing."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from loader.convert.exporting import ExportReport, ExportRequest, export_samples
from loader.dataset.opening import folder_at
from loader.dataset.query import SampleQuery
from loader.errors import ConfigError, FormatError, StorageError
from loader.format.dataset_ref import DatasetRef
from loader.inspect.extract import open_sample, write_parts
from loader.prepare.plan import PreparePlan
from loader.prepare.run import run_prepare
from tests.e2e.dataset_tree import RATIO, caption_samples, shard_path, write_shard
from tests.small_disks import mounted_disk
from tests.tables import write_lines
from tests.unit.inspect.conftest import prepared

KEYS = ("plain", "in/a/folder", "50%", "../../escape", "/absolute", "ünïcode", "with space", "a\nb", "nul%00")


def extract(folder: Path, output: Path, **options: Any) -> ExportReport:
    query = {name: options.pop(name) for name in ("where", "keys", "split_parts", "excluded") if name in options}
    return export_samples(
        ExportRequest(refs=[DatasetRef(str(folder))], output=str(output), query=SampleQuery(**query), **options)
    )


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def samples_of(folder: Path) -> dict[str, dict[str, bytes]]:
    opened = folder_at(folder)
    return {opened.index.key(number): opened.read_parts(number) for number in range(len(opened.index))}


def test_files_have_the_bytes_of_the_parts(folder: Path, tmp_path: Path) -> None:
    report = extract(folder, tmp_path / "out")
    expected = {f"{key}.{part}": data for key, parts in samples_of(folder).items() for part, data in parts.items()}
    assert files(tmp_path / "out") == expected
    assert (report.samples, report.size_bytes) == (20, sum(map(len, expected.values())))
    extract(folder, tmp_path / "by_shard", by_shard=True)
    assert {name.partition("/")[2]: data for name, data in files(tmp_path / "by_shard").items()} == expected


@pytest.mark.parametrize("limit", [None, 7])
def test_tar_shards_are_a_dataset_of_the_same_samples(folder: Path, tmp_path: Path, limit: int | None) -> None:
    extract(folder, tmp_path / "out", format="tar", shard_bytes=5000, limit=limit)
    assert len([*(tmp_path / "out").glob("shard_*.tar")]) > 1
    found = samples_of(prepared(tmp_path / "out"))
    assert [*found.items()] == [*samples_of(folder).items()][:limit]


def test_lines_hold_json_texts_and_other_bytes(tmp_path: Path) -> None:
    picture = bytes(range(256))
    parts = {"json": b'{"a": [1]}', "txt": "ä".encode(), "jpg": picture, "bad.json": b"{", "bad.txt": b"\xff"}
    write_shard(shard_path(tmp_path / "ds", 0), {"x": parts, "y": {"txt": b"2"}})
    extract(prepared(tmp_path / "ds"), tmp_path / "out.jsonl", format="jsonl")
    first, second = map(json.loads, (tmp_path / "out.jsonl").read_text().splitlines())
    assert first.pop("jpg") == {"base64": base64.b64encode(picture).decode()}
    assert first == {
        "__key__": "shard_000.tar/x",
        "json": {"a": [1]},
        "txt": "ä",
        "bad.json": {"base64": base64.b64encode(b"{").decode()},
        "bad.txt": {"base64": base64.b64encode(b"\xff").decode()},
    }
    assert second == {"__key__": "shard_000.tar/y", "txt": "2"}


def test_a_query_and_names_of_parts_choose(folder: Path, tmp_path: Path) -> None:
    extract(folder, tmp_path / "out", keys=["shard_001.tar/00012", "00003"], keep_parts=("txt",))
    assert files(tmp_path / "out") == {"00003.txt": b"text 3", "00012.txt": b"text 12"}
    extract(folder, tmp_path / "other", where="shard == 'shard_002.tar'", limit=1)
    assert sorted(files(tmp_path / "other")) == ["00020.json", "00020.txt"]
    with pytest.raises(ConfigError, match="no sample is chosen"):
        extract(folder, tmp_path / "none", where="bytes < 0")
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("form", ["files", "tar", "jsonl"])
def test_no_key_leads_out_of_the_folder(tmp_path: Path, form: str) -> None:
    samples = {key: {"txt": key.encode()} for key in KEYS}
    write_shard(shard_path(tmp_path / "ds", 0), samples)
    prepared(tmp_path / "ds")
    output = tmp_path / "inner/out"
    extract(tmp_path / "ds", output, format=form)
    assert sorted(os.listdir(tmp_path)) == ["ds", "inner"]
    assert os.listdir(tmp_path / "inner") == ["out"]
    if form == "files":
        assert sorted(files(output).values()) == sorted(parts["txt"] for parts in samples.values())


def test_two_samples_of_one_name_need_a_folder_for_each_shard(tmp_path: Path) -> None:
    for number in range(2):
        write_shard(shard_path(tmp_path / "ds", number), {"same": {"txt": b"%d" % number}})
    prepared(tmp_path / "ds")
    with pytest.raises(ConfigError, match="two samples have the key 'same'"):
        extract(tmp_path / "ds", tmp_path / "out")
    assert os.listdir(tmp_path) == ["ds"]
    extract(tmp_path / "ds", tmp_path / "out", by_shard=True)
    assert files(tmp_path / "out") == {"shard_000.tar/same.txt": b"0", "shard_001.tar/same.txt": b"1"}
    extract(tmp_path / "ds", tmp_path / "tars", format="tar")
    assert len([*(tmp_path / "tars").iterdir()]) == 2  # a shard has a key once


@pytest.mark.parametrize("form", ["files", "tar", "jsonl"])
def test_nothing_is_overwritten(folder: Path, tmp_path: Path, form: str) -> None:
    output = tmp_path / "out"
    if form == "jsonl":
        output.write_text("mine")
    else:
        output.mkdir()
        extract(folder, output, format=form)  # an empty folder is fine
        os.removexattr(output, "user.energon.request")
    before = files(tmp_path)
    with pytest.raises(StorageError, match="nothing is overwritten"):
        extract(folder, output, format=form)
    assert files(tmp_path) == before


@pytest.mark.parametrize("form", ["files", "tar", "jsonl"])
def test_an_error_half_way_leaves_nothing(folder: Path, tmp_path: Path, form: str) -> None:
    shard_path(folder, 2).write_bytes(b"cut")
    with pytest.raises(FormatError, match="has changed since it was indexed"):
        extract(folder, tmp_path / "out", format=form)
    assert os.listdir(tmp_path) == ["ds"]


@pytest.mark.parametrize(
    "form", [pytest.param("files", marks=pytest.mark.slow), "tar", pytest.param("jsonl", marks=pytest.mark.slow)]
)
def test_a_killed_run_leaves_no_output(tmp_path: Path, form: str) -> None:
    samples = {f"{number:05}": {"txt": b"x" * 2000} for number in range(5_000)}
    write_shard(shard_path(tmp_path / "ds", 0), samples)
    prepared(tmp_path / "ds")
    code = (
        "import sys\nfrom loader.convert.exporting import *\nfrom loader.format import DatasetRef\n"
        "print('start', flush=True)\n"
        "export_samples(ExportRequest(refs=[DatasetRef(sys.argv[1])], output=sys.argv[2], format=sys.argv[3]))"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "ds"), str(tmp_path / "out"), form]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        limit = time.monotonic() + 20
        while not any(name.startswith(".out.") for name in os.listdir(tmp_path)) and time.monotonic() < limit:
            time.sleep(0.001)
        process.send_signal(signal.SIGKILL)
    assert not (tmp_path / "out").exists()
    assert extract(tmp_path / "ds", tmp_path / "out", format=form).samples == 5_000


def test_excluded_samples_are_left_out_on_demand(folder: Path, tmp_path: Path) -> None:
    split = folder / ".nv-meta/split.yaml"
    split.write_text(split.read_text().replace("exclude: []", "exclude: [shard_000.tar/00003]"))
    assert extract(folder, tmp_path / "all").samples == 20
    assert extract(folder, tmp_path / "kept", excluded=False).samples == 19
    assert not (tmp_path / "kept/00003.txt").exists()


def test_records_are_extracted_too(tmp_path: Path) -> None:
    write_lines(tmp_path / "ds/part_0.jsonl", [3, 4])
    prepared(tmp_path / "ds")
    assert extract(tmp_path / "ds", tmp_path / "out.jsonl", format="jsonl").samples == 2
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [line["__key__"] for line in lines] == ["part_0.jsonl/0", "part_0.jsonl/1"]
    assert [line["json"]["id"] for line in lines] == [3, 4]


# ------------------------------------------------------------------------------------------------------ one sample


def test_one_sample_is_read_by_either_form_of_its_key(folder: Path) -> None:
    sample = open_sample(str(folder), "00012")
    for key in ("00012", "shard_001.tar/00012"):
        assert open_sample(str(folder), key) == sample
        assert (sample.shard, sample.key, sample.index) == ("shard_001.tar", "00012", 7)
        assert sample.data == caption_samples(12, 1)["00012"]
        for place in sample.parts:
            with shard_path(folder, 1).open("rb") as file:
                assert place.offset is not None
                file.seek(place.offset)
                assert file.read(place.size_bytes) == sample.part(place.name)
    with pytest.raises(ConfigError, match=r"no part 'tx'; did you mean 'txt'\?\n.*\n.*its parts: json, txt"):
        sample.part("tx")
    with pytest.raises(ConfigError, match="there is no sample 'x'"):
        open_sample(str(folder), "x")


def test_a_bare_key_of_several_samples_is_refused(tmp_path: Path) -> None:
    for number in range(2):
        write_shard(shard_path(tmp_path, number), {"same": {"txt": b"%d" % number}})
    prepared(tmp_path)
    with pytest.raises(ConfigError, match=r"2 samples have the key 'same': shard_000.tar/same, shard_001.tar/same"):
        open_sample(str(tmp_path), "same")
    assert open_sample(str(tmp_path), "shard_001.tar/same").part("txt") == b"1"


def test_a_line_of_a_file_is_a_sample(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "x.jsonl", [7, 8])
    run_prepare_of_file = pytest.importorskip("loader.format.jsonl.index").prepare_jsonl
    from loader.storage import open_parent

    run_prepare_of_file(*open_parent(str(path)))
    assert json.loads(open_sample(str(path), "1").part("json"))["id"] == 8
    with pytest.raises(ConfigError, match="keys are the numbers from 0 to 1"):
        open_sample(str(path), "2")


def test_the_parts_of_a_sample_are_written_once(folder: Path, tmp_path: Path) -> None:
    sample = open_sample(str(folder), "00012")
    assert sorted(map(os.path.basename, write_parts(sample, str(tmp_path / "out")))) == ["00012.json", "00012.txt"]
    assert (tmp_path / "out/00012.txt").read_bytes() == b"text 12"
    with pytest.raises(StorageError, match="this file exists"):
        write_parts(sample, str(tmp_path / "out"))


@pytest.mark.parametrize("form", ["files", "tar", "jsonl"])
def test_a_full_disk_leaves_nothing(tmp_path: Path, form: str) -> None:
    samples = {f"{number:03}": {"bin": bytes([number]) * 100_000} for number in range(30)}
    write_shard(shard_path(tmp_path / "ds", 0), samples)
    run_prepare(PreparePlan(path=str(tmp_path / "ds"), split=RATIO))
    with mounted_disk(tmp_path / "disk") as disk:
        with pytest.raises(StorageError, match="No space left on device"):
            export_samples(
                ExportRequest(refs=[DatasetRef(str(tmp_path / "ds"))], output=str(disk / "out"), format=form)
            )
        assert [*disk.iterdir()] == []
