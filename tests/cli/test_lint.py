"""``energon lint``: its output and its exit codes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import yaml

from tests.cli.make_dataset import caption_parts, write_captions, write_shard
from tests.cli.run_energon import RunEnergon

KEYS = {
    "path", "level", "complete", "datasets", "shards", "samples", "seconds", "decoded_media", "media_note",
    "errors", "warnings", "fixed", "pictures", "part_sets", "findings",
}  # fmt: skip
FINDING_KEYS = {"severity", "code", "message", "dataset", "shard", "key", "part", "offset", "at", "hint", "page"}


@pytest.fixture
def broken(tmp_path: Path, energon: RunEnergon) -> Path:
    """A dataset of 12 samples whose sample 4 has an invalid picture."""

    def parts(number: int) -> dict[str, bytes]:
        return caption_parts(number) | ({"jpg": b"<!DOCTYPE html>"} if number == 4 else {})

    folder = write_captions(tmp_path / "broken", parts=parts)
    assert energon("prepare", folder, "--yes").code == 0
    return folder


@pytest.mark.parametrize("level", ["headers", "bytes", "decode"])
@pytest.mark.parametrize("workers", [1, 2])
def test_a_clean_dataset_exits_0(prepared: Path, energon: RunEnergon, level: str, workers: int) -> None:
    done = energon("lint", prepared, "--level", level, "--parallel", workers)
    assert (done.code, done.err) == (0, "")
    assert f"no findings: 12 samples in 4 shards, level {level}" in done.out


@pytest.mark.parametrize("workers", [1, 2])
def test_one_broken_picture_is_named_and_exits_1(broken: Path, energon: RunEnergon, workers: int) -> None:
    done = energon("lint", broken, "--parallel", workers)
    assert done.code == 1
    assert "error   E302  shard_001.tar/000004 [jpg] at byte " in done.out
    assert "part 'jpg' is not an image, but an HTML page" in done.out
    assert "1 error, 0 warnings" in done.out
    assert f"energon lint {broken} --fix" in done.out


def test_headers_do_not_reveal_faults_of_decoding(broken: Path, energon: RunEnergon) -> None:
    assert energon("lint", broken, "--level", "headers").code == 0


def test_findings_are_printed_as_json(broken: Path, energon: RunEnergon) -> None:
    done = energon("lint", broken, "--json")
    assert done.code == 1
    assert set(done.json) == KEYS
    [finding] = done.json["findings"]
    assert set(finding) == FINDING_KEYS
    assert (finding["code"], finding["severity"], finding["shard"], finding["key"], finding["part"]) == (
        "E302", "error", "shard_001.tar", "000004", "jpg",
    )  # fmt: skip
    shard = (broken / "shard_001.tar").read_bytes()
    assert shard[finding["offset"] :].startswith(b"<!DOCTYPE")


def test_only_the_given_split_parts_are_checked(broken: Path, energon: RunEnergon) -> None:
    assert energon("lint", broken, "--split-parts", "val,test").code == 0
    assert energon("lint", broken, "--split-parts", "train").code == 1
    done = energon("lint", broken, "--split-parts", "vla")
    assert done.code == 2
    assert "there is no split part 'vla'; there are: train, val, test" in done.err


def test_fix_excludes_broken_samples_and_the_next_lint_is_clean(broken: Path, energon: RunEnergon) -> None:
    before = (broken / ".nv-meta/split.yaml").read_text()
    done = energon("lint", broken, "--fix")
    assert done.code == 1, "there were errors"
    assert "excluded 1 sample in split.yaml" in done.out
    assert yaml.safe_load((broken / ".nv-meta/split.yaml").read_text())["exclude"] == ["shard_001.tar/000004"]
    assert (broken / ".nv-meta/split.yaml.bak").read_text() == before
    again = energon("lint", broken, "--fix", "--json")
    assert (again.code, again.json["fixed"]) == (0, 0)
    assert "excluded" in energon("preview", broken, "000004", "--crude").out


def test_fix_does_not_empty_a_dataset_whose_field_map_is_wrong(broken: Path, energon: RunEnergon) -> None:
    (broken / ".nv-meta/dataset.yaml").write_text(
        "sample_type: {__module__: megatron.energon, __class__: CaptioningSample}\n"
        "field_map: {image: nope, caption: txt}\n"
    )
    before = (broken / ".nv-meta/split.yaml").read_text()
    done = energon("lint", broken, "--fix")
    assert done.code == 1
    assert "every sample of the dataset is broken" in done.err
    assert "E307  11 samples (" in done.out  # the findings come first
    assert "note:" not in done.out
    assert (broken / ".nv-meta/split.yaml").read_text() == before


def test_a_lint_that_stopped_early_does_not_call_the_dataset_clean(broken: Path, energon: RunEnergon) -> None:
    (broken / ".nv-meta/dataset.yaml").unlink()  # a warning, W004, which comes first
    done = energon("lint", broken, "--max-findings", 1)
    assert "W004" in done.out
    assert done.code == 1


@pytest.mark.parametrize("name", [pytest.param("split.json", marks=pytest.mark.slow), "my.json", "my.yaml"])
def test_fix_changes_the_current_split_file_and_names_it(broken: Path, energon: RunEnergon, name: str) -> None:
    """Without a split.yaml, split.json is the split file."""
    meta = broken / ".nv-meta"
    document = yaml.safe_load((meta / "split.yaml").read_text())
    (meta / name).write_text(json.dumps(document) if name.endswith(".json") else yaml.safe_dump(document))
    (meta / "split.yaml").unlink()
    before = (meta / name).read_text()
    asked_for = () if name == "split.json" else ("--split-config", name)
    done = energon("lint", broken, "--fix", *asked_for)
    assert f"excluded 1 sample in {name};" in done.out
    assert (meta / f"{name}.bak").read_text() == before
    read = json.loads if name.endswith(".json") else yaml.safe_load
    after = read((meta / name).read_text())
    assert after.pop("exclude") == ["shard_001.tar/000004"]
    assert after == {"split_parts": document["split_parts"]}
    assert energon("lint", broken, *asked_for).code == 0
    assert not (meta / "split.yaml").exists()


def test_it_stops_at_max_findings(tmp_path: Path, energon: RunEnergon) -> None:
    folder = write_captions(tmp_path, parts=lambda number: caption_parts(number) | {"json": b"{"})
    energon("prepare", folder, "--yes")
    done = energon("lint", folder, "--max-findings", 2)
    assert done.code == 1
    assert "2 errors" in done.out
    assert "there may be more" in done.out


def test_a_missing_part_a_truncated_shard_and_a_stale_index_exit_1(prepared: Path, energon: RunEnergon) -> None:
    shard = prepared / "shard_001.tar"
    whole = shard.read_bytes()
    shard.write_bytes(whole[:-2048])
    done = energon("lint", prepared, "--json")
    assert done.code == 1
    assert "shard_001.tar" in {finding["shard"] for finding in done.json["findings"]}
    write_shard(shard, {"000003": {"txt": b"no picture"}})
    assert energon("prepare", prepared).code == 0
    done = energon("lint", prepared)
    assert done.code == 1
    assert "E301" in done.out


def test_warnings_alone_exit_0_and_are_printed_once_for_many_shards(prepared: Path, energon: RunEnergon) -> None:
    for shard in prepared.glob("*.tar"):
        os.utime(shard, (1, 1))
    done = energon("lint", prepared)
    assert done.code == 0
    assert done.out.count("W103") == 1
    assert "W103  4 shards (shard_000.tar, shard_001.tar, shard_002.tar, …): " in done.out
    assert len(energon("lint", prepared, "--json").json["findings"]) == 4


def test_a_folder_that_is_not_prepared_exits_1(captions: Path, energon: RunEnergon) -> None:
    done = energon("lint", captions)
    assert done.code == 1
    assert "E001" in done.out


def test_faults_in_the_yaml_files_exit_1(prepared: Path, energon: RunEnergon) -> None:
    (prepared / ".nv-meta/dataset.yaml").write_text("sample_tpye: x\n")
    (prepared / ".nv-meta/split.yaml").write_text("split_parts: [\n")
    done = energon("lint", prepared)
    assert done.code == 1
    assert "E002" in done.out
    assert "E003" in done.out


def test_keys_with_escape_codes_reach_no_terminal_raw(tmp_path: Path, energon: RunEnergon) -> None:
    write_shard(tmp_path / "s.tar", {"\x1b[31mred": {"jpg": b"none", "txt": b"x"}})
    energon("prepare", tmp_path, "--yes")
    done = energon("lint", tmp_path)
    assert done.code == 1
    assert "\\x1b[31mred" in done.out
    assert "\x1b" not in done.out
    assert "\x1b[31mred" in {finding["key"] for finding in energon("lint", tmp_path, "--json").json["findings"]}


def test_code_of_the_dataset_runs_only_when_trusted(
    captions: Path, energon: RunEnergon, monkeypatch: pytest.MonkeyPatch
) -> None:
    energon("prepare", captions, "--non-interactive", "--split-ratio", "1", "--sample-type", "Captioning")
    loader = captions / ".nv-meta/sample_loader.py"
    loader.write_text(loader.read_text().replace("return {", "raise ValueError('ran')\n    return {"))
    done = energon("lint", captions)
    assert done.code == 0
    assert "W009" in done.out
    done = energon("lint", captions, "--trust-code")
    assert done.code == 1
    assert "ValueError: ran" in done.out


WRONG_FIELD_MAP = """\
sample_type: {__module__: megatron.energon, __class__: CaptioningSample}
field_map: {image: jpg, caption: %s}
"""


@pytest.mark.parametrize(
    ("expression", "code", "told"),
    [("nope", "E307", ""), ("'json[nope]'", "E307", ""), ("'json[id]'", "E307", "")],
)
def test_a_wrong_field_map_is_one_line_with_a_count_and_no_advice_to_exclude(
    prepared: Path, energon: RunEnergon, expression: str, code: str, told: str
) -> None:
    (prepared / ".nv-meta/dataset.yaml").write_text(WRONG_FIELD_MAP % expression)
    done = energon("lint", prepared)
    places = "shard_000.tar/000000, shard_000.tar/000001, shard_000.tar/000002, …"
    assert f"error   {code}  12 samples {told}({places}): field 'caption'" in done.out
    assert done.out.count("error   ") == 1
    assert "12 errors, 0 warnings" in done.out
    assert "to list every finding: add --all" in done.out
    assert "--fix" not in done.out
    assert "a wrong field_map, breaks all samples" in done.err
    assert energon("lint", prepared, "--all").out.count("error   ") == 12
    assert len(energon("lint", prepared, "--json").json["findings"]) == 12


def test_a_field_map_that_no_checked_sample_fits_is_not_fixed_by_exclusion(prepared: Path, energon: RunEnergon) -> None:
    (prepared / ".nv-meta/dataset.yaml").write_text(WRONG_FIELD_MAP % "nope")
    done = energon("lint", prepared, "--split-parts", "train")
    assert "--fix" not in done.out
    done = energon("lint", prepared, "--split-parts", "train", "--fix")
    assert (done.code, "every checked sample is broken" in done.err) == (1, True)


def test_a_stale_index_gets_no_advice_to_exclude(broken: Path, energon: RunEnergon) -> None:
    with (broken / "shard_003.tar").open("ab") as shard:
        shard.write(bytes(10240))
    done = energon("lint", broken)
    assert "E102  shard_003.tar" in done.out
    assert "run energon prepare again" in done.out
    assert "E302  shard_001.tar/000004" in done.out
    assert "--fix" not in done.out


def test_different_causes_keep_their_lines(tmp_path: Path, energon: RunEnergon) -> None:
    def parts(number: int) -> dict[str, bytes]:
        wrong = {1: {"jpg": b"<!DOCTYPE html>"}, 2: {"jpg": b"<html>"}, 3: {"json": b"{"}, 4: {"jpg": b""}}
        return caption_parts(number) | wrong.get(number, {})

    folder = write_captions(tmp_path / "mixed", parts=parts)
    energon("prepare", folder, "--yes")
    lines = [line for line in energon("lint", folder).out.splitlines() if line.startswith("error   ")]
    assert [line.split(":")[0] for line in lines] == [
        "error   E302  2 samples [jpg] (shard_000.tar/000001, shard_000.tar/000002)",
        "error   E302  shard_001.tar/000003 [json] at byte 3072",
        "error   E303  shard_001.tar/000004 [jpg] at byte 4096",
    ]


def test_a_missing_folder_is_reported_as_other_errors_are(tmp_path: Path, energon: RunEnergon) -> None:
    done = energon("lint", tmp_path / "gone")
    assert done.code == 1
    assert done.out.startswith(
        f"error   E001: this folder does not exist\n  at: {tmp_path}/gone\n  hint: check the path\n"
    )
    [finding] = energon("lint", tmp_path / "gone", "--json").json["findings"]
    assert (finding["message"], finding["at"]) == ("this folder does not exist", f"{tmp_path}/gone")
