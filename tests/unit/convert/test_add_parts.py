"""Parts added to a dataset by a join: their sources, keys without a match, and clashing names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from loader import DefaultTaskEncoder, WorkerConfig, get_loader, get_val_dataset, random_access
from loader.convert.added_parts import AddPartsPlan, AddPartsReport, run_add_parts
from loader.engine import IncompleteError
from loader.errors import ConfigError
from tests.unit.convert.prepared import text_samples, write_dataset

CAPTIONS = """sample_type: {__module__: megatron.energon, __class__: TextSample}
field_map: {text: txt}
"""


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    shards = {"s_0.tar": text_samples(["1", "2", "3"]), "s_1.tar": text_samples(["4", "in/5"])}
    return write_dataset(tmp_path / "data", shards, {"train": ("s_0.tar",), "val": ("s_1.tar",)})


def add(dataset: Path, source: Path, **settings: Any) -> AddPartsReport:
    output = dataset.parent / "added"
    return run_add_parts(AddPartsPlan(dataset=str(dataset), source=str(source), output=str(output), **settings))


def samples_of(path: Path, split_part: str) -> dict[str, Any]:
    dataset = get_val_dataset(
        path,
        split_part=split_part,
        batch_size=None,
        task_encoder=DefaultTaskEncoder(),
        worker_config=WorkerConfig.default_worker_config(num_workers=0),
    )
    found = {}
    for sample in get_loader(dataset):
        key = sample["__key__"] if isinstance(sample, dict) else sample.__key__
        found[key] = sample
    return found


def write_files(folder: Path, contents: dict[str, str]) -> Path:
    for name, text in contents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_files_named_by_key_become_parts(dataset: Path, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in dataset.rglob("*") if path.is_file()}
    files = write_files(tmp_path / "files", {f"{key}.cap.txt": f"new {key}" for key in ["1", "2", "3", "4", "in/5"]})
    write_files(files, {f"{key}.emb.json": f"[{key[-1]}]" for key in ["1", "2", "3", "4", "in/5"]})
    report = add(dataset, files)
    assert (report.matched, report.missing, report.unused) == (5, 0, 0)
    assert report.rows == {"train": 3, "val": 2}
    samples = samples_of(tmp_path / "added.yaml", "val")
    assert {key: sample["cap.txt"] for key, sample in samples.items()} == {
        "s_1.tar/4": "new 4",
        "s_1.tar/in/5": "new in/5",
    }
    assert samples["s_1.tar/4"]["emb.json"] == [4]
    assert samples["s_1.tar/4"]["txt"] == "4"
    assert {path: path.read_bytes() for path in dataset.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("ending", ["jsonl", "csv", "tsv"])
def test_rows_of_a_table_become_parts(dataset: Path, tmp_path: Path, ending: str) -> None:
    keys = ["1", "s_0.tar/2", "3", "4", "s_1.tar/in/5"]
    table = tmp_path / f"table.{ending}"
    if ending == "jsonl":
        lines = [json.dumps({"id": key, "caption": f"né {key}", "score": n}) for n, key in enumerate(keys)]
    else:
        comma = {"csv": ",", "tsv": "\t"}[ending]
        lines = [comma.join(("id", "caption")), *(comma.join((key, f"né {key}")) for key in keys)]
    table.write_text("\n".join(lines) + "\n", encoding="utf-8")
    report = add(dataset, table)
    assert report.parts["caption.txt"] == 5
    samples = samples_of(tmp_path / "added.yaml", "train")
    assert samples["s_0.tar/2"]["caption.txt"] == "né s_0.tar/2"
    if ending == "jsonl":
        assert samples["s_0.tar/3"]["score.json"] == 2


def test_samples_of_a_dataset_become_parts_with_the_bytes_they_have(dataset: Path, tmp_path: Path) -> None:
    other = {"o.tar": {key: {"bin": bytes([number])} for number, key in enumerate(["in/5", "4", "3", "2", "1", "0"])}}
    source = write_dataset(tmp_path / "other", other, {"train": ("o.tar",)})
    report = add(dataset, source)
    assert (report.matched, report.unused, report.unused_keys) == (5, 1, ("0",))
    found = {sample["__key__"]: sample["bin"] for sample in samples_of(tmp_path / "added.yaml", "train").values()}
    assert found == {"s_0.tar/1": b"\4", "s_0.tar/2": b"\3", "s_0.tar/3": b"\2"}


def test_fields_of_typed_samples_get_the_parts_of_their_names(dataset: Path, tmp_path: Path) -> None:
    (dataset / ".nv-meta/dataset.yaml").write_text(CAPTIONS)
    files = write_files(tmp_path / "files", {f"{key}.txt": f"new {key}" for key in ["1", "2", "3", "4", "in/5"]})
    with pytest.raises(ConfigError, match="which have no field for the part 'txt'") as caught:
        add(dataset, files, replace=True)
    assert "--rename txt=text.txt" in str(caught.value)
    add(dataset, files, rename={"txt": "text.txt"})
    assert [sample.text for sample in samples_of(tmp_path / "added.yaml", "train").values()] == [
        "new 1",
        "new 2",
        "new 3",
    ]


def test_samples_without_parts_are_an_error_skipped_or_left_as_they_are(dataset: Path, tmp_path: Path) -> None:
    files = write_files(tmp_path / "files", {"1.new.txt": "a", "4.new.txt": "b", "9.new.txt": "c"})
    with pytest.raises(ConfigError, match="3 samples of the dataset have no parts"):
        add(dataset, files)
    for text, message in (
        ('{"id": "1", "t": "a"}\n{"id": null, "t": "b"}\n', "'id' is empty in this line"),
        ('{"id": "1", "A b": "a", "a-b": "b", "a_b": "c"}\n', "would both be the part 'a_b.txt'"),
    ):
        (tmp_path / "rows.jsonl").write_text(text)
        with pytest.raises(ConfigError, match=message):
            add(dataset, tmp_path / "rows.jsonl")
    assert not (tmp_path / "added").exists()
    report = add(dataset, files, nonmatch="skip")
    assert (report.missing, report.unused, report.rows) == (3, 1, {"train": 1, "val": 1})
    assert [*samples_of(tmp_path / "added.yaml", "train")] == ["s_0.tar/1"]
    document = yaml.safe_load((tmp_path / "added.yaml").read_text())
    document["splits"]["train"]["join"][1]["nonmatch"] = "none"
    (tmp_path / "none.yaml").write_text(yaml.safe_dump(document))
    with pytest.raises(ConfigError, match="with other contents"):
        add(dataset, files, nonmatch="none", metadataset=str(tmp_path / "none.yaml"))


def test_missing_parts_are_left_out_with_nonmatch_none(dataset: Path, tmp_path: Path) -> None:
    files = write_files(tmp_path / "files", {"1.new.txt": "a"})
    report = add(dataset, files, nonmatch="none")
    assert report.rows == {"train": 3, "val": 2}
    samples = samples_of(tmp_path / "added.yaml", "train")
    assert [sample.get("new.txt") for sample in samples.values()] == ["a", None, None]


def test_names_that_clash_and_repeated_or_unknown_keys_are_refused(dataset: Path, tmp_path: Path) -> None:
    files = write_files(tmp_path / "files", {f"{key}.txt": "x" for key in ["1", "2", "3", "4", "in/5"]})
    with pytest.raises(ConfigError, match="has a part 'txt' already"):
        add(dataset, files)
    twice = tmp_path / "twice.jsonl"
    twice.write_text('{"id": "1", "t": "a"}\n{"id": "s_0.tar/1", "t": "b"}\n')
    with pytest.raises(ConfigError, match=r"two rows belong to the sample 's_0\.tar/1'"):
        add(dataset, twice)
    with pytest.raises(ConfigError, match="no key of the 1 sample"):
        add(dataset, write_files(tmp_path / "none", {"x.txt": "x"}))
    nameless = tmp_path / "nameless.csv"
    nameless.write_text("name,text\n1,a\n")
    with pytest.raises(ConfigError, match="expected a column __key__ or key or id"):
        add(dataset, nameless)
    assert not (tmp_path / "added").exists()


def test_the_same_command_again_prepares_the_join_again(dataset: Path, tmp_path: Path) -> None:
    files = write_files(tmp_path / "files", {f"{key}.txt": "x" for key in ["1", "2", "3", "4", "in/5"]})
    first = add(dataset, files, rename={"txt": "new.txt"})
    for file in (tmp_path / "added.yaml.joins").iterdir():
        file.unlink()
    assert add(dataset, files, rename={"txt": "new.txt"}) == first
    assert random_access(tmp_path / "added.yaml", split_part="train")[0]["new.txt"] == "x"


def test_the_same_command_with_strict_refuses_rows_that_the_first_has_left_out(dataset: Path, tmp_path: Path) -> None:
    files = write_files(tmp_path / "files", {f"{key}.txt": "x" for key in ["1", "2", "3", "4", "in/5", "other"]})
    add(dataset, files, rename={"txt": "new.txt"})
    with pytest.raises(IncompleteError, match="a row whose key no sample has"):
        add(dataset, files, rename={"txt": "new.txt"}, strict=True)


def test_numbers_that_json_does_not_have_are_counted(dataset: Path, tmp_path: Path) -> None:
    table = tmp_path / "t.jsonl"
    values = {"1": "NaN", "2": "[-Infinity, 1]", "3": "0.5", "4": "null", "in/5": '"NaN"'}
    table.write_text("".join(f'{{"key": "{key}", "score": {value}}}\n' for key, value in values.items()))
    report = add(dataset, table, nonmatch="none")
    assert report.changed == {"numbers_lost": 2}
    assert report.first_changed == {"numbers_lost": "t.jsonl, line 1"}
