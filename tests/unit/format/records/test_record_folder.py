"""Prepared folders of JSONL and Parquet files: prepare, split, exclude, and changes of the files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from loader.dataset.opening import folder_at
from loader.dataset.split_parts import excluded_samples, samples_of_part
from loader.dataset.tar import tar_index
from loader.errors import ConfigError, FormatError, StorageError
from loader.format.dataset_ref import DatasetRef
from loader.lint.report import LintPlan
from loader.lint.run import lint_dataset
from loader.prepare.plan import PreparePlan, SplitRequest
from loader.prepare.run import run_prepare
from loader.samples.building.check import DecodeCheck
from loader.samples.building.dataset_code import DatasetCode
from tests.tables import CRUDE_YAML, prepare_parts, row, write_lines, write_rows

FORMATS = ("jsonl", "parquet")


def write_folder(folder: Path, kind: str, shards: int = 3) -> Path:
    """Write files of 10 samples each, with numbers from 0."""
    write = write_lines if kind == "jsonl" else write_rows
    for shard in range(shards):
        write(folder / f"s_{shard}.{kind}", range(10 * shard, 10 * shard + 10))
    return folder


def prepared(folder: Path, kind: str) -> Path:
    return prepare_parts(write_folder(folder, kind), {"train": 2, "val": 1})


def lint(folder: Path, **options: Any) -> list[tuple[str, str | None, str | None]]:
    def check(config: Any, meta: str) -> DecodeCheck:
        return DecodeCheck(config, DatasetCode(Path(meta), False))

    report = lint_dataset(LintPlan(ref=DatasetRef(str(folder)), make_sample_check=check, **options))
    assert all("folders of JSONL or Parquet files" in finding.rule.kinds for finding in report.findings)
    return [(finding.code, finding.shard, finding.key) for finding in report.findings]


def number_of(parts: dict[str, Any]) -> int:
    return int(json.loads(parts["json"])["id"] if "json" in parts else parts["id"])


def test_rows_with_a_path_and_no_bytes_are_named(tmp_path: Path) -> None:
    rows = [{"bytes": b"1", "path": "1.png"}, {"bytes": None, "path": "2.png"}, None]
    medium = pa.struct({"bytes": pa.binary(), "path": pa.string()})
    table = pa.table({"image": pa.array(rows * 2, medium)})
    parquet.write_table(table, tmp_path / "pictures.parquet", row_group_size=3)
    report = run_prepare(PreparePlan(path=str(tmp_path)))
    (warning,) = [each for each in report.warnings if "path" in each]
    assert warning.startswith("column 'image': at least 2 rows have a path and no bytes")


@pytest.mark.parametrize("kind", FORMATS)
def test_a_prepared_folder_is_a_dataset(tmp_path: Path, kind: str) -> None:
    dataset = folder_at(prepared(tmp_path, kind))
    assert dataset.shard_counts == {f"s_{number}.{kind}": 10 for number in range(3)}
    assert samples_of_part(dataset, "val") == [range(20, 30)]
    assert [number_of(dataset.read_parts(number)) for number in (0, 29, 10)] == [0, 29, 10]
    assert dataset.index.full_key(13) == f"s_1.{kind}/3"
    assert dataset.index.find(f"s_1.{kind}/3") == [13]
    assert dataset.index.find("3") == [3, 13, 23]
    assert dataset.index.find(f"s_1.{kind}/10") == dataset.index.find("x") == dataset.index.find("nix/3") == []
    assert lint(tmp_path) == []


def test_columns_can_be_selected(tmp_path: Path) -> None:
    dataset = folder_at(prepared(tmp_path, "parquet"))
    assert dataset.read_parts(4, names=["id", "image"]) == {"id": 4, "image": row(4)["image"]}


@pytest.mark.parametrize("kind", FORMATS)
def test_only_changed_files_are_scanned_again(tmp_path: Path, kind: str) -> None:
    plan = PreparePlan(path=str(write_folder(tmp_path, kind)), split=SplitRequest(ratio={"train": 2.0, "val": 1.0}))
    first = run_prepare(plan)
    assert (first.changed, first.scanned, first.samples) == (True, 3, 30)
    again = run_prepare(plan)
    assert (again.changed, again.scanned, again.reused, again.uuid) == (False, 0, 3, first.uuid)
    (write_lines if kind == "jsonl" else write_rows)(tmp_path / f"s_1.{kind}", range(7))
    third = run_prepare(plan)
    assert (third.changed, third.scanned, third.samples) == (True, 1, 27)
    assert lint(tmp_path) == [("W004", None, None)]  # no dataset.yaml
    (tmp_path / f"s_2.{kind}").unlink()
    assert run_prepare(plan).samples == 17


@pytest.mark.parametrize("kind", FORMATS)
def test_a_changed_file_is_an_error_that_lint_finds(tmp_path: Path, kind: str) -> None:
    folder = prepared(tmp_path, kind)
    (write_lines if kind == "jsonl" else write_rows)(folder / f"s_1.{kind}", range(100))
    with pytest.raises(FormatError, match=r"run energon prepare again|run: energon prepare"):
        folder_at(folder).read_parts(15)
    assert ("E102", f"s_1.{kind}", None) in lint(folder)
    (folder / f"s_2.{kind}").unlink()
    assert ("E101", f"s_2.{kind}", None) in lint(folder)
    with pytest.raises(StorageError):
        folder_at(folder).read_parts(25)


@pytest.mark.parametrize("kind", FORMATS)
def test_samples_are_excluded_by_number(tmp_path: Path, kind: str) -> None:
    folder = prepared(tmp_path, kind)
    split = folder / ".nv-meta/split.yaml"
    excluded = [f"s_0.{kind}/3", f"s_2.{kind}", f"s_1.{kind}/99"]
    split.write_text(split.read_text().replace("exclude: []", f"exclude: {json.dumps(excluded)}"))
    assert excluded_samples(folder_at(folder)).tolist() == [3, *range(20, 30)]
    assert lint(folder) == [("W204", f"s_1.{kind}", "99")]


def typed(folder: Path, text: str) -> Path:
    """Write a ``dataset.yaml`` whose samples are texts from a part or column."""
    config = f"__module__: megatron.energon\n__class__: TextWebdataset\nfield_map: {{text: {text!r}}}\n"
    (folder / ".nv-meta/dataset.yaml").write_text(config)
    return folder


@pytest.mark.parametrize("level", ["headers", "decode"])
@pytest.mark.parametrize("kind", FORMATS)
def test_a_column_that_the_field_map_needs_is_missing_once_for_each_file(tmp_path: Path, kind: str, level: str) -> None:
    folder = typed(prepared(tmp_path, kind), "texxt")
    found = lint(folder, level=level)
    if kind == "jsonl":  # it names a field of the lines, which headers do not have
        assert [code for code, *_ in found] == ([] if level == "headers" else 30 * ["E307"])
    else:
        assert found == [("E301", f"s_{number}.{kind}", None) for number in range(3)]


def test_values_of_columns_are_checked_against_the_fields(tmp_path: Path) -> None:
    folder = prepared(tmp_path, "parquet")
    assert lint(typed(folder, "text")) == []
    assert lint(typed(folder, "id"))[:2] == [("E307", "s_0.parquet", "0"), ("E307", "s_0.parquet", "1")]
    assert lint(typed(folder, "id"), level="headers") == []


def test_a_missing_value_inside_a_line_is_not_a_part_that_does_not_decode(tmp_path: Path) -> None:
    folder = typed(prepared(tmp_path, "jsonl"), "json[texxt]")
    assert {code for code, *_ in lint(folder)} == {"E307"}


def test_samples_of_code_that_may_not_run_are_reported_as_unchecked(tmp_path: Path) -> None:
    folder = prepared(tmp_path, "parquet")
    text = "sample_type: {__module__: megatron.energon, __class__: TextSample}\nsample_loader: sample_loader.py:load\n"
    (folder / ".nv-meta/dataset.yaml").write_text(text)
    (folder / ".nv-meta/sample_loader.py").write_text("def load(raw):\n    return {'text': raw['text']}\n")
    assert lint(folder) == [("W009", None, None)]


@pytest.mark.parametrize("kind", FORMATS)
def test_a_folder_that_another_tool_prepared_is_read(tmp_path: Path, kind: str) -> None:
    folder = prepared(tmp_path, kind)
    shutil.rmtree(folder / ".nv-meta/index")
    dataset = folder_at(folder)
    assert number_of(dataset.read_parts(17)) == 17
    assert dataset.index.part_names == (("json",) if kind == "jsonl" else ("id", "text", "image", "turns"))


def test_tar_shards_have_precedence_and_formats_do_not_mix(tmp_path: Path) -> None:
    write_folder(tmp_path, "jsonl")
    write_folder(tmp_path, "parquet")
    with pytest.raises(ConfigError, match=r"several formats, s_0.jsonl and s_0.parquet"):
        run_prepare(PreparePlan(path=str(tmp_path)))
    assert run_prepare(PreparePlan(path=str(tmp_path), exclude="jsonl$")).samples == 30
    info = tmp_path / ".nv-meta/.info.json"
    info.write_text(info.read_text().replace("s_1.parquet", "s_1.jsonl"))
    with pytest.raises(ConfigError, match=r"expected files of one format, found s_0\.parquet and s_1\.jsonl"):
        folder_at(tmp_path).read_parts(0)


def test_all_damaged_files_are_named(tmp_path: Path) -> None:
    write_folder(tmp_path, "jsonl")
    for shard in (0, 2):
        (tmp_path / f"s_{shard}.jsonl").write_text('{"id": 1}\n[2]\n')
    with pytest.raises(FormatError, match="2 shards cannot be indexed") as caught:
        run_prepare(PreparePlan(path=str(tmp_path)))
    assert "s_0.jsonl" in str(caught.value)
    assert "s_2.jsonl" in str(caught.value)
    assert not (tmp_path / ".nv-meta/.info.json").exists()


@pytest.mark.parametrize("options", [{"compat": True}, {"fix_duplicates": True}])
def test_choices_for_tar_shards_are_refused(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="these are no tar shards"):
        run_prepare(PreparePlan(path=str(write_folder(tmp_path, "jsonl")), **options))


def test_there_are_no_names_to_look_up(tmp_path: Path) -> None:
    dataset = folder_at(prepared(tmp_path, "parquet"))
    with pytest.raises(ConfigError, match="expected a dataset of tar shards, found one of parquet files"):
        _ = tar_index(dataset)


def test_lint_builds_the_samples_of_a_typed_folder(tmp_path: Path) -> None:
    folder = prepared(tmp_path, "jsonl")
    typed = "__module__: megatron.energon\n__class__: TextWebdataset\nfield_map:\n  text: json[text]\n"
    (folder / ".nv-meta/dataset.yaml").write_text(typed)
    assert lint(folder, workers=2) == []
    lines = (folder / "s_1.jsonl").read_text().splitlines()
    lines[4] = '{"id": 14, "tuxt": "text 14"}'
    (folder / "s_1.jsonl").write_text("\n".join(lines) + "\n")
    run_prepare(PreparePlan(path=str(folder)))
    assert [(shard, key) for _, shard, key in lint(folder)] == [("s_1.jsonl", "4")]
    (folder / ".nv-meta/dataset.yaml").write_text(CRUDE_YAML)
    assert lint(folder) == []


def test_an_interrupted_prepare_leaves_the_earlier_dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = prepared(tmp_path, "parquet")
    before = (folder / ".nv-meta/.info.json").read_bytes()
    write_rows(folder / "s_3.parquet", range(5))

    def fail(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("loader.prepare.workspace.commit", fail)
    with pytest.raises(KeyboardInterrupt):
        run_prepare(PreparePlan(path=str(folder)))
    assert (folder / ".nv-meta/.info.json").read_bytes() == before
    assert not (folder / ".nv-meta/.prepare/staged").exists()
    assert number_of(folder_at(folder).read_parts(29)) == 29
