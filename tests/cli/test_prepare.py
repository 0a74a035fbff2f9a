"""``energon prepare`` without a terminal: flags, piped answers, reports and refusals."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.make_dataset import caption_parts, write_captions, write_shard
from tests.cli.run_energon import RunEnergon
from tests.source_tree import ROOT

FIELDS = '{"image": "jpg", "caption": "json[caption]"}'
REPORT_KEYS = {
    "path", "decompressed", "samples", "shards", "bytes", "changed", "parts", "scanned", "resumed", "reused", "split",
    "part_sets", "files", "duplicate_keys", "compat", "media_metadata", "uuid", "seconds", "warnings", "notes",
    "account",
}  # fmt: skip
PROSPECT_KEYS = {
    "account",
    "path",
    "dry_run",
    "shards",
    "bytes",
    "split",
    "sample_ranges",
    "files",
    "part_sets",
    "warnings",
    "notes",
}


def read_yaml(folder: Path, name: str) -> Any:
    return yaml.safe_load((folder / ".nv-meta" / name).read_text(encoding="utf-8"))


def files_of(folder: Path) -> dict[str, bytes]:
    """Return the content of a folder without the journal, which a failed run may keep for the next one."""
    files = {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*")) if path.is_file()}
    journal = (".nv-meta/.lock", ".nv-meta/.prepare/")
    return {name: path.read_bytes() for name, path in files.items() if not name.startswith(journal)}


# -------------------------------------------------------------------------------------------------------- by flags


def notes_only(err: str) -> bool:
    return all(line.startswith(("note: ", "warning: part 'val' is empty")) for line in err.splitlines())


def test_flags_alone_prepare_a_dataset(captions: Path, energon: RunEnergon) -> None:
    done = energon(
        "prepare", captions, "--non-interactive", "--split-ratio", "2,1,1", "--sample-type", "CaptioningSample",
        "--field-map", FIELDS,
    )  # fmt: skip
    assert (done.code, notes_only(done.err)) == (0, True)
    assert read_yaml(captions, "split.yaml")["split_parts"] == {
        "train": ["shard_{000..001}.tar"],
        "val": ["shard_002.tar"],
        "test": ["shard_003.tar"],
    }
    assert read_yaml(captions, "dataset.yaml") == {
        "sample_type": {"__module__": "megatron.energon", "__class__": "CaptioningSample"},
        "field_map": {"image": "jpg", "caption": "json[caption]"},
    }
    assert "12 samples in 4 shards" in done.out
    assert "split: train 6, val 3, test 3 samples" in done.out


def test_a_dataset_that_is_up_to_date_is_no_error(captions: Path, energon: RunEnergon) -> None:
    flags = ("--split-ratio", "2,1,1", "--skip-dataset-yaml")
    assert energon("prepare", captions, "--non-interactive", *flags).code == 0
    assert energon("prepare", captions, "--non-interactive").code == 0
    assert energon("prepare", captions, "--non-interactive", *flags).code == 2


def test_a_split_by_samples_divides_each_shard(captions: Path, energon: RunEnergon) -> None:
    by_shards = energon("prepare", captions, "--non-interactive", "--split-ratio", "2,1", "--dry-run")
    assert "--split-by samples divides them" in by_shards.err
    done = energon("prepare", captions, "--yes", "--split-ratio", "2,1", "--split-by", "samples")
    assert "split: train 8, val 4 samples" in done.out
    assert read_yaml(captions, "split.yaml") == {
        "split_parts": {"train": ["shard_{000..003}.tar"], "val": ["shard_{000..003}.tar"]},
        "exclude": [],
        "sample_ranges": {"train": ["0%", "66.6667%"], "val": ["66.6667%", "100%"]},
    }
    assert "kept as before: the split" in energon("prepare", captions, "--yes").err
    assert energon("lint", captions).code == 0
    energon("prepare", captions, "--yes", "--split-ratio", "2,1")
    again = energon("prepare", captions, "--yes", "--split-by", "samples")  # replaces the split, by its proposal
    assert "kept as before: dataset.yaml" in again.err
    assert read_yaml(captions, "split.yaml")["sample_ranges"]["train"] == ["0%", "80%"]
    silent = energon("prepare", captions, "--non-interactive", "--split-by", "samples")
    assert (silent.code, "would replace the split" in silent.err) == (2, True)
    silent = energon("prepare", captions, "--non-interactive", "--split-by", "samples", "--force-overwrite")
    assert (silent.code, "--non-interactive requires a split" in silent.err) == (2, True)
    refused = energon("prepare", captions, "--yes", "--split-by", "samples", "--split-parts", "a:.*")
    assert (refused.code, "--split-by samples applies to a ratio" in refused.err) == (2, True)


def test_a_range_beyond_a_shard_is_refused_before_anything_is_written(captions: Path, energon: RunEnergon) -> None:
    energon("prepare", captions, "--yes")
    split = captions / ".nv-meta/split.yaml"
    shards = "['shard_{000..003}.tar']"
    split.write_text(
        f"split_parts: {{train: {shards}, val: {shards}}}\nsample_ranges: {{train: [0, 1], val: [1, 9]}}\n",
        encoding="utf-8",
    )
    before = files_of(captions)
    for option in ("--no-progress", "--force-overwrite"):
        done = energon("prepare", captions, "--non-interactive", option)
        assert done.code == 1
        assert "the subset [1, 9] does not fit into 3 samples" in done.err
        assert f"at: {split}: sample_ranges.val, shard shard_000.tar" in done.err
        assert files_of(captions) == before


def test_patterns_split_by_name(captions: Path, energon: RunEnergon) -> None:
    done = energon(
        "prepare", captions, "--non-interactive", "--split-parts", "train:shard_{000..002}.tar", "--split-parts",
        "val:glob:*3.tar",
    )  # fmt: skip
    assert done.code == 0
    assert list(read_yaml(captions, "split.yaml")["split_parts"]) == ["train", "val"]
    assert "note: no dataset.yaml was requested" in done.err
    assert not (captions / ".nv-meta/dataset.yaml").exists()


def test_a_type_without_a_field_map_gets_a_sample_loader_that_works(captions: Path, energon: RunEnergon) -> None:
    done = energon(
        "prepare", captions, "--non-interactive", "--split-ratio", "1", "--sample-type", "CaptioningWebdataset"
    )
    assert done.code == 0
    assert read_yaml(captions, "dataset.yaml")["sample_loader"] == "sample_loader.py:sample_loader"
    assert "complete .nv-meta/sample_loader.py" in done.err
    shown = energon("preview", captions, "--trust-code")
    assert shown.code == 0
    assert "picture number 0" in shown.out
    assert "json" not in shown.out


def test_an_existing_sample_loader_is_kept(captions: Path, energon: RunEnergon) -> None:
    (captions / ".nv-meta").mkdir()
    loader = captions / ".nv-meta/sample_loader.py"
    loader.write_text("def sample_loader(parts):\n    return {}\n")
    before = loader.read_text()
    assert energon("prepare", captions, "--non-interactive", "--split-ratio", "1", "--sample-type", "Text").code == 0
    assert loader.read_text() == before


def test_yes_accepts_every_proposal(captions: Path, energon: RunEnergon) -> None:
    assert energon("prepare", captions, "--yes").code == 0
    assert list(read_yaml(captions, "split.yaml")["split_parts"]) == ["train", "val", "test"]
    assert read_yaml(captions, "dataset.yaml")["field_map"] == {"image": "jpg", "caption": "txt"}


def test_yes_accepts_a_split_by_shard_names(tmp_path: Path, energon: RunEnergon) -> None:
    write_captions(tmp_path, shards=2, names="train/{:03d}.tar")
    write_captions(tmp_path, shards=1, names="val/{:03d}.tar", parts=lambda number: caption_parts(number + 100))
    assert energon("prepare", tmp_path, "--yes").code == 0
    assert read_yaml(tmp_path, "split.yaml")["split_parts"] == {
        "train": ["train/{000..001}.tar"],
        "val": ["val/000.tar"],
    }


def test_another_name_for_dataset_yaml(captions: Path, energon: RunEnergon) -> None:
    assert (
        energon("prepare", captions, "--yes", "--dataset-yaml-name", "crude.yaml", "--sample-type", "crude").code == 0
    )
    assert read_yaml(captions, "crude.yaml")["__class__"] == "CrudeWebdataset"
    assert not (captions / ".nv-meta/dataset.yaml").exists()


def test_skip_dataset_yaml_writes_none(captions: Path, energon: RunEnergon) -> None:
    assert energon("prepare", captions, "--yes", "--skip-dataset-yaml").code == 0
    assert not (captions / ".nv-meta/dataset.yaml").exists()


def test_excluded_shards_are_not_part_of_the_dataset(captions: Path, energon: RunEnergon) -> None:
    assert energon("prepare", captions, "--yes", "--exclude", "00[01]", "--json").json["shards"] == 2


@pytest.mark.parametrize("flag", ["--compat", "--no-compat"])
def test_compat_files_follow_the_flag(captions: Path, energon: RunEnergon, flag: str) -> None:
    assert energon("prepare", captions, "--yes", flag, "--json").json["compat"] is (flag == "--compat")
    assert (captions / ".nv-meta/index.sqlite").exists() is (flag == "--compat")


def test_shuffled_shards_are_split_the_same_way_every_time(tmp_path: Path, energon: RunEnergon) -> None:
    splits = []
    for name in ("one", "two"):
        folder = write_captions(tmp_path / name, shards=20, samples=1)
        assert energon("prepare", folder, "--yes", "--shuffle-tars", "--no-compat").code == 0
        splits.append(read_yaml(folder, "split.yaml"))
    assert splits[0] == splits[1]
    assert splits[0]["split_parts"]["train"] != ["shard_{000..015}.tar"]


def test_tar_index_only_writes_only_the_index(captions: Path, energon: RunEnergon) -> None:
    assert energon("prepare", captions, "--tar-index-only").code == 0
    assert (captions / ".nv-meta/index.uuid").exists()
    assert not (captions / ".nv-meta/dataset.yaml").exists()
    assert not (captions / ".nv-meta/split.yaml").exists()


# ---------------------------------------------------------------------------------------------------- wrong usage


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--non-interactive"], "--split-ratio 8,1,1 or --split-parts NAME:PATTERN"),
        (["--split-ratio", "8,x"], "expected a number from 0 up"),
        (["--split-parts", "train"], "NAME:PATTERN"),
        (["--exclude", "("], "not a regex"),
        (["--sample-type", "Captionin"], "did you mean CaptioningSample?"),
        (["--field-map", FIELDS], "--field-map requires --sample-type"),
        (["--sample-type", "crude", "--field-map", "{}"], "crude samples have no fields"),
        (["--sample-type", "Captioning", "--field-map", "{"], "not JSON"),
        (["--sample-type", "Captioning", "--field-map", "[]"], "expected an object"),
        (["--sample-type", "Captioning", "--field-map", '{"imgae": "jpg", "caption": 3}'], "no field 'imgae'"),
        (["--sample-type", "Captioning", "--field-map", '{"image": "jpg"}'], "'caption' is required"),
        (["--sample-type", "Captioning", "--field-map", '{"image": "jpg", "caption": "[0]"}'], "a part name"),
        (["--sample-type", "Captioning", "--skip-dataset-yaml"], "conflicts"),
        (["--dataset-yaml-name", "../x.yaml"], "a file name"),
        (["--tar-index-only", "--split-ratio", "1"], "--tar-index-only"),
        (["--yes", "--non-interactive"], "pass one of them"),
        (["--yes", "--media-metadata-by-header", "--media-metadata-by-extension"], "mutually exclusive"),
        (["--yes", "--media-metadata-by-glob", " ,"], "expected patterns"),
        (["--yes", "--media-metadata-by-header", "--no-compat"], "--no-compat"),
        (["--tar-index-only", "--media-metadata-by-header"], "--tar-index-only"),
    ],
)
def test_wrong_usage_exits_2_with_the_reason_and_writes_nothing(
    captions: Path, energon: RunEnergon, flags: list[str], message: str
) -> None:
    before = files_of(captions)
    done = energon("prepare", captions, *flags)
    assert done.code == 2
    assert message in done.err
    assert files_of(captions) == before


# ---------------------------------------------------------------------------------------------------- failed runs


def test_a_missing_folder_fails(tmp_path: Path, energon: RunEnergon) -> None:
    done = energon("prepare", tmp_path / "nowhere", "--yes")
    assert done.code == 1
    assert "does not exist" in done.err


def test_a_folder_without_shards_names_the_compressed_ones(tmp_path: Path, energon: RunEnergon) -> None:
    (tmp_path / "a.tar.gz").write_bytes(b"\x1f\x8b")
    done = energon("prepare", tmp_path, "--yes")
    assert done.code == 1
    assert "--decompress" in done.err


def test_a_truncated_shard_is_named_with_its_offset_and_nothing_is_written(captions: Path, energon: RunEnergon) -> None:
    shard = captions / "shard_001.tar"
    shard.write_bytes(shard.read_bytes()[:1700])
    before = files_of(captions)
    done = energon("prepare", captions, "--yes")
    assert done.code == 1
    assert "shard_001.tar, byte " in done.err
    assert files_of(captions) == before
    assert energon("prepare", captions, "--yes", "--exclude", "shard_001").code == 0


def test_a_pattern_that_matches_nothing_fails(captions: Path, energon: RunEnergon) -> None:
    done = energon("prepare", captions, "--non-interactive", "--split-parts", "train:tarin_.*")
    assert done.code == 1
    assert "matches no shard" in done.err


def test_a_damaged_shard_ends_a_dry_run_unless_it_is_excluded(captions: Path, energon: RunEnergon) -> None:
    (captions / "shard_000.tar").write_bytes(b"x" * 2048)
    done = energon("prepare", captions, "--yes", "--exclude", "_000", "--dry-run")
    assert "CaptioningSample" in done.out
    done = energon("prepare", captions, "--yes", "--dry-run")
    assert (done.code, "shard_000.tar" in done.err) == (1, True)


# ----------------------------------------------------------------------------------------------- prepared datasets


def test_preparing_again_scans_only_changed_shards_and_keeps_the_choices(prepared: Path, energon: RunEnergon) -> None:
    split = (prepared / ".nv-meta/split.yaml").read_text().replace("exclude: []", "exclude: [shard_000.tar/000001]")
    (prepared / ".nv-meta/split.yaml").write_text(split)
    dataset_yaml = (prepared / ".nv-meta/dataset.yaml").read_text()
    write_shard(prepared / "shard_002.tar", {"new": caption_parts(77)})
    done = energon("prepare", prepared, "--json")
    assert done.code == 0
    assert (done.json["scanned"], done.json["reused"], done.json["samples"]) == (1, 3, 10)
    assert "kept as before: the split and dataset.yaml" in done.json["notes"]
    assert (prepared / ".nv-meta/split.yaml").read_text() == split
    assert (prepared / ".nv-meta/dataset.yaml").read_text() == dataset_yaml


@pytest.mark.parametrize(
    ("flags", "what"),
    [(["--split-ratio", "1"], "the split"), (["--sample-type", "crude"], "dataset.yaml")],
)
@pytest.mark.parametrize("asking", [["--non-interactive"], []])
def test_replacing_choices_without_a_prompt_requires_force(
    prepared: Path, energon: RunEnergon, flags: list[str], what: str, asking: list[str]
) -> None:
    before = files_of(prepared)
    done = energon("prepare", prepared, *asking, *flags)
    assert done.code == 2
    assert f"would replace {what}" in done.err
    assert files_of(prepared) == before
    assert energon("prepare", prepared, *asking, *flags, "--force-overwrite").code == 0
    assert files_of(prepared) != before


# --------------------------------------------------------------------------------------------------------- reports


def test_the_report_as_json_has_its_keys_and_nothing_else_on_stdout(captions: Path, energon: RunEnergon) -> None:
    done = energon("prepare", captions, "--yes", "--json")
    assert done.code == 0
    assert set(done.json) == REPORT_KEYS
    assert done.json["split"] == {
        "train": {"shards": 2, "samples": 6},
        "val": {"shards": 1, "samples": 3},
        "test": {"shards": 1, "samples": 3},
    }
    assert done.json["files"] == ["dataset.yaml"]


def test_piped_questions_leave_stdout_to_the_json(captions: Path, energon: RunEnergon) -> None:
    done = energon("prepare", captions, "--json", answers=["8,1,1", "no"])
    assert set(done.json) == REPORT_KEYS
    assert "Ratio of train" in done.err


def test_a_dry_run_shows_everything_and_writes_nothing(captions: Path, energon: RunEnergon) -> None:
    before = files_of(captions)
    done = energon("prepare", captions, "--yes", "--dry-run")
    assert done.code == 0
    assert "would prepare" in done.out
    assert "__class__: CaptioningSample" in done.out
    as_json = energon("prepare", captions, "--yes", "--dry-run", "--json")
    assert set(as_json.json) == PROSPECT_KEYS
    assert as_json.json["split"]["test"] == ["shard_003.tar"]
    assert files_of(captions) == before


def test_a_strict_dry_run_names_what_would_be_left_out(captions: Path, energon: RunEnergon) -> None:
    (captions / "labels.json").write_bytes(b"{}")
    done = energon("prepare", captions, "--yes", "--dry-run", "--strict")
    assert done.code == 1
    assert "labels.json [L117]" in done.err
    assert "which --strict refuses" in done.err


def test_piped_output_has_no_escape_codes(captions: Path, energon: RunEnergon) -> None:
    done = energon("prepare", captions, answers=["8,1,1", "y", "Captioning", "y", "jpg", "txt"])
    assert "\x1b" not in done.out + done.err


def test_a_field_map_that_no_sample_can_fill_warns(captions: Path, energon: RunEnergon) -> None:
    done = energon(
        "prepare", captions, "--yes", "--sample-type", "Captioning", "--field-map",
        '{"image": "png", "caption": "json[text]"}',
    )  # fmt: skip
    assert done.code == 0
    assert "field 'image' comes from 'png', but the 12 samples have only" in done.err
    assert "warning: field 'image' comes from 'png'" in done.err
    assert "field 'caption' (json[text]) is missing: json has no 'text'" in done.err


@pytest.mark.parametrize(
    ("field_map", "message"),
    [
        ({"image": "txt", "caption": "txt"}, ["'image' (txt): expected an image, found str", "did you mean 'jpg'?"]),
        ({"image": "jgp", "caption": "txt"}, ["'image' comes from 'jgp', but", "did you mean 'jpg'?"]),
        ({"image": "jpg", "caption": "json[id]"}, ["'caption' (json[id]): expected text, found int: 0"]),
        ({"image": "jpg", "caption": "json[captoin]"}, ["json has no 'captoin'", "did you mean 'caption'?"]),
    ],
)
@pytest.mark.parametrize("how", ["flags", "yes", "lines"])
@pytest.mark.sampled(2)
def test_a_field_map_is_checked_against_a_real_sample(
    captions: Path, energon: RunEnergon, field_map: dict[str, str], message: list[str], how: str
) -> None:
    typed = ["--sample-type", "Captioning", "--field-map", json.dumps(field_map)]
    settled = {"flags": ["--non-interactive", "--split-ratio", "1", *typed], "yes": ["--yes", *typed], "lines": []}[how]
    answers = ["1", "Captioning", "yes", *field_map.values()] if how == "lines" else None
    done = energon("prepare", captions, *settled, "--num-workers", 1, "--json", answers=answers)
    assert done.code == 0
    assert len(done.json["warnings"]) == 1
    assert all(text in done.json["warnings"][0] for text in message)
    shown = energon("prepare", captions, *settled, "--num-workers", 1, "--force-overwrite", answers=answers)
    if how != "lines":  # a prepared dataset does not prompt again
        assert f"warning: {done.json['warnings'][0]}" in shown.err
        dry = energon("prepare", captions, *settled, "--dry-run", "--json")
        assert dry.json["warnings"] == done.json["warnings"]


def test_without_a_field_map_torch_is_not_imported(captions: Path) -> None:
    script = (
        "import sys; from energon_cli.main import main; "
        f"assert main(['prepare', {str(captions)!r}, '--non-interactive', '--split-ratio', '1']) == 0; "
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], check=True, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert done.stdout.splitlines()[-1] == "False"


def test_yes_chooses_no_type_that_needs_code(tmp_path: Path, energon: RunEnergon) -> None:
    write_shard(tmp_path / "odd/a.tar", {"0": {"json": b'{"width": 3}'}})
    done = energon("prepare", tmp_path / "odd", "--yes")
    assert done.code == 0
    assert read_yaml(tmp_path / "odd", "dataset.yaml")["__class__"] == "CrudeWebdataset"
    assert not (tmp_path / "odd/.nv-meta/sample_loader.py").exists()


def test_one_shard_is_all_train_and_no_other_part_is_proposed(tmp_path: Path, energon: RunEnergon) -> None:
    write_captions(tmp_path, shards=1)
    done = energon("prepare", tmp_path, "--yes", "--json")
    assert done.json["warnings"] == []
    assert read_yaml(tmp_path, "split.yaml")["split_parts"] == {"train": ["shard_000.tar"]}


def test_shares_that_are_far_from_the_ratio_are_noted(captions: Path, energon: RunEnergon) -> None:
    done = energon("prepare", captions, "--yes")
    assert "4 shards come to train 50.0 % (80.0 % requested), val 25.0 % (10.0 % requested)" in done.err


def test_counts_of_one_are_singular(tmp_path: Path, energon: RunEnergon) -> None:
    write_captions(tmp_path, shards=1)
    assert "so 1 shard comes to train 100.0 %" in energon("prepare", tmp_path, "--yes", "--split-ratio", "8,1,1").err
    assert "--exclude matches the only .tar file\n" in energon("prepare", tmp_path, "--yes", "--exclude", "shard").err


def test_a_sample_loader_template_lists_every_part(captions: Path, energon: RunEnergon) -> None:
    energon("prepare", captions, "--sample-type", "Interleaved", "--non-interactive", "--split-ratio", "1")
    text = (captions / ".nv-meta/sample_loader.py").read_text()
    assert 'part_name in {"jpg", "json", "txt"}' in text
    assert '"sequence": parts["jpg"],  # sequence: replace by the right part' in text


def test_a_resumed_prepare_says_so(captions: Path, energon: RunEnergon) -> None:
    os.truncate(captions / "shard_003.tar", 1000)
    assert energon("prepare", captions, "--yes").code == 1
    resumed = energon("prepare", captions, "--yes", "--exclude", "003")
    assert resumed.err.startswith("note: resumed: 3 shards were already scanned\n")
    assert "resumed" not in energon("prepare", captions, "--yes", "--exclude", "003").err


def test_compressed_shards_are_skipped_or_decompressed(tmp_path: Path, energon: RunEnergon) -> None:
    write_captions(tmp_path, shards=2)
    (tmp_path / "sub").mkdir()
    packed = tmp_path / "sub/s 1.tgz"
    packed.write_bytes(gzip.compress((tmp_path / "shard_001.tar").read_bytes()))
    (tmp_path / "shard_001.tar").unlink()
    warned = energon("prepare", tmp_path, "--yes", "--json").json["warnings"]
    assert any("1 compressed shard is skipped, first sub/s 1.tgz" in warning for warning in warned)
    planned = energon("prepare", tmp_path, "--yes", "--decompress", "--dry-run")
    assert planned.out == "would decompress a shard to sub/s 1.tar\n"
    done = energon("prepare", tmp_path, "--yes", "--decompress", "--remove-originals")
    assert "decompressed 1 shard (20.5 kB), removed 1 compressed shard\n" in done.out
    assert "6 samples in 2 shards" in done.out
    assert not packed.exists()
    again = energon("prepare", tmp_path, "--yes", "--decompress", "--json").json
    assert again["decompressed"] == []
    assert not any("compressed" in warning for warning in again["warnings"])


def test_a_folder_of_compressed_shards_names_the_flag(tmp_path: Path, energon: RunEnergon) -> None:
    write_captions(tmp_path, shards=1)
    (tmp_path / "a.tar.gz").write_bytes(gzip.compress((tmp_path / "shard_000.tar").read_bytes()))
    (tmp_path / "shard_000.tar").unlink()
    failed = energon("prepare", tmp_path, "--yes")
    assert (failed.code, f"decompress it: energon prepare {tmp_path} --decompress" in failed.err) == (1, True)
    assert energon("prepare", tmp_path, "--yes", "--decompress", "--json").json["decompressed"] == ["a.tar"]
    assert energon("prepare", tmp_path, "--yes", "--json").json["warnings"] == []  # its original is not a shard


@pytest.mark.parametrize(
    ("name", "flags", "message"),
    [
        ("shard_000.tar", ["--remove-originals"], "--remove-originals requires --decompress"),
        ("x.jsonl", ["--decompress"], "--decompress is valid only for folders of shards"),
        ("x.yaml", ["--decompress"], "--decompress is valid only for folders of shards"),
    ],
)
def test_decompress_is_for_folders(
    tmp_path: Path, energon: RunEnergon, name: str, flags: list[str], message: str
) -> None:
    (tmp_path / name).write_text("{}")
    path = tmp_path if name.endswith(".tar") else tmp_path / name
    failed = energon("prepare", path, "--yes", *flags)
    assert failed.code == 2
    assert message in failed.err


# -------------------------------------------------------------------------------------------------- piped answers


@pytest.mark.parametrize(
    "answers",
    [
        ["8,1,1", "CaptioningWebdataset", "Yes", "jpg", "txt"],  # the quickstart's example answers
        ["8,1,1", "y", "CaptioningSample", "y", "jpg", "txt"],
        ["8,1,1", "y", "0", "y", "jpg", "txt"],
        ["", "", "", "", "jpg", "txt"],
        ["8,1,1", "captioning", "y", " jpg ", "txt"],
    ],
)
def test_piped_answers_lead_to_the_same_dataset(captions: Path, energon: RunEnergon, answers: list[str]) -> None:
    done = energon("prepare", captions, answers=answers)
    assert (done.code, notes_only(done.err)) == (0, True)
    assert read_yaml(captions, "dataset.yaml") == {
        "sample_type": {"__module__": "megatron.energon", "__class__": "CaptioningSample"},
        "field_map": {"image": "jpg", "caption": "txt"},
    }


def test_flags_answer_some_prompts_and_the_rest_remain(captions: Path, energon: RunEnergon) -> None:
    done = energon(
        "prepare", captions, "--split-ratio", "1", "--sample-type", "VQA", answers=["y", "jpg", "txt", "", ""]
    )
    assert done.code == 0
    assert read_yaml(captions, "dataset.yaml")["field_map"] == {"image": "jpg", "context": "txt"}


def test_no_simple_field_map_means_a_sample_loader(captions: Path, energon: RunEnergon) -> None:
    assert energon("prepare", captions, answers=["1", "OCRSample", "no"]).code == 0
    assert (captions / ".nv-meta/sample_loader.py").exists()


def test_an_answer_may_decline_dataset_yaml(captions: Path, energon: RunEnergon) -> None:
    assert energon("prepare", captions, answers=["1", "no"]).code == 0
    assert not (captions / ".nv-meta/dataset.yaml").exists()


def test_an_unknown_part_warns(captions: Path, energon: RunEnergon) -> None:
    done = energon("prepare", captions, answers=["1", "ImageSample", "y", "jgp"])
    assert done.code == 0
    assert "did you mean 'jpg'?" in done.err


@pytest.mark.parametrize("answers", [["1", "y", "9"], ["1", "9"]], ids=["after yes", "instead of yes"])
def test_numbers_of_sample_types_are_those_of_megatron_energon(
    captions: Path, energon: RunEnergon, answers: list[str]
) -> None:
    assert energon("prepare", captions, answers=[*answers, "y", "jpg", "txt", "", ""]).code == 0
    assert read_yaml(captions, "dataset.yaml")["sample_type"]["__class__"] == "VQASample"


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ([], "expected answer 1, found the end of the input"),
        (["8,1,1", "y", "Captioning", "y", "jpg"], "expected answer 6, found the end of the input: Part for 'caption'"),
        (["eight"], "answer 1 on standard input"),
        (["1", "perhaps"], "expected yes, no or a sample type"),
        (["1", "y", "99"], "expected one of the numbers shown, up to 13"),
        (["1", "y", "6"], "expected one of the numbers shown, up to 13"),
        (["1", "y", "Captionin"], "did you mean CaptioningSample?"),
        (["1", "Captioning", "perhaps"], "expected yes or no"),
        (["1", "Captioning", "y", ""], "CaptioningSample requires 'image'"),
        (["1", "Captioning", "y", "jpg", "json[caption"], "character"),
    ],
)
def test_invalid_answers_fail_and_write_nothing(
    captions: Path, energon: RunEnergon, answers: list[str], message: str
) -> None:
    before = files_of(captions)
    done = energon("prepare", captions, answers=answers)
    assert done.code == 1
    assert message in done.err
    assert files_of(captions) == before


# ------------------------------------------------------------------------------------------------------------ JSONL


def test_lines_of_a_jsonl_file_are_indexed(tmp_path: Path, energon: RunEnergon) -> None:
    path = tmp_path / "texts.jsonl"
    path.write_text('{"text": "one"}\n\n{"text": "two"}\n')
    done = energon("prepare", path, "--json")
    assert done.json == {"path": str(path), "samples": 2, "bytes": 33, "dry_run": False}
    assert (tmp_path / "texts.jsonl.idx").stat().st_size == 8 * 3
    assert energon("prepare", path).out.splitlines()[1:] == ["Done. Found 2 samples."]


def test_a_line_that_is_no_object_is_named(tmp_path: Path, energon: RunEnergon) -> None:
    path = tmp_path / "texts.jsonl"
    path.write_text('{"text": "one"}\n[1]\n')
    done = energon("prepare", path)
    assert done.code == 1
    assert "line 2" in done.err
    assert not (tmp_path / "texts.jsonl.idx").exists()


# ----------------------------------------------------------------------------------------------------------- Ctrl-C


@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_ctrl_c_exits_130_at_once_and_keeps_the_old_files(tmp_path: Path, workers: int) -> None:
    folder = write_captions(tmp_path / "many", shards=1, samples=100)
    for number in range(1, 400):
        shutil.copy(folder / "shard_000.tar", folder / f"shard_{number:03d}.tar")
    before = files_of(folder)
    command = [
        sys.executable,
        "-m",
        "energon_cli",
        "prepare",
        str(folder),
        "--yes",
        "--no-compat",
        "--num-workers",
        str(workers),
    ]
    # Coverage's tracer holds a lock that a signal handler cannot take again: run the process without it.
    untraced = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
    process = subprocess.Popen(
        command, cwd=ROOT, env=untraced, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    journal = folder / ".nv-meta/.prepare"
    deadline = time.monotonic() + 30
    while not journal.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.001)
    os.killpg(process.pid, signal.SIGINT)  # a terminal also interrupts the workers
    try:
        _, err = process.communicate(timeout=30)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    assert (process.returncode, err) == (130, "interrupted\n")
    assert files_of(folder) == before
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)  # no worker remains
    again = subprocess.run([*command, "--json"], cwd=ROOT, capture_output=True, check=True)
    assert json.loads(again.stdout)["shards"] == 400
