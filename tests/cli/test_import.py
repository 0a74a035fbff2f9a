"""``energon import``: flags, prompts, dry runs and reports."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import pytest
import yaml
from PIL import Image

from energon_cli.options import parse_size
from loader import random_access
from tests.cli.run_energon import RunEnergon
from tests.cli.terminal import DOWN, ENTER, ESCAPE, TerminalRun
from tests.unit.convert.importing.test_run import jpeg, shards_of, write_photos

SPLIT, TYPE, WRITE = "How should the 40 samples be split?", "What type are the samples?", "» y  yes, write"


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    return write_photos(tmp_path / "photos")


def dataset_yaml(output: Path) -> object:
    return yaml.safe_load((output / ".nv-meta/dataset.yaml").read_text())


CAPTIONS = {
    "sample_type": {"__module__": "megatron.energon", "__class__": "CaptioningSample"},
    "field_map": {"image": "jpg", "caption": "txt"},
}


def test_yes_accepts_all_proposals(photos: Path, tmp_path: Path, energon: RunEnergon) -> None:
    output = tmp_path / "out"
    done = energon("import", photos, output, "--yes")
    assert done.code == 0, done.err
    assert "40 samples" in done.out
    assert "parts: jpg 100.0 %, txt 100.0 %" in done.out
    assert "split: train 32, val 4, test 4 samples" in done.out
    assert dataset_yaml(output) == CAPTIONS
    assert energon("lint", output).code == 0


def test_the_result_as_json(photos: Path, tmp_path: Path, energon: RunEnergon) -> None:
    (photos / "007.jpg").write_bytes(b"no picture")
    output = tmp_path / "out"
    options = ("--verify", "--max-failures", "5%", "--samples-per-shard", 15, "--split-ratio", "1,1")
    found = energon("import", photos, output, "--yes", "--json", *options).json
    assert (found["samples"], found["shards"], found["failed"], found["written"]) == (39, 4, 1, 4)
    [failure] = found["failures"]
    assert failure == {"origin": "007.jpg", "key": "007", "reason": failure["reason"], "code": "F101"}
    size_bytes = sum(file.stat().st_size for file in photos.iterdir())
    assert found["account"]["seen"] == {"files": 80, "rows": 40, "parts": 80, "bytes": size_bytes}
    size_bytes -= sum(file.stat().st_size for file in photos.glob("007.*"))
    assert found["account"]["used"] == {"files": 80, "rows": 39, "parts": 78, "bytes": size_bytes}
    assert [(entry["unit"], entry["count"]) for entry in found["account"]["failed"]] == [("rows", 1), ("parts", 2)]
    assert found["split"] == {"train": {"shards": 2, "samples": 20}, "val": {"shards": 2, "samples": 19}}
    assert found["files"] == ["dataset.yaml"]


def test_an_import_that_ended_by_its_limit_is_not_called_interrupted_and_ends_with_the_limit_that_it_names(
    photos: Path, tmp_path: Path, energon: RunEnergon
) -> None:
    for number in (3, 17, 30):
        (photos / f"{number:03d}.jpg").write_bytes(b"no picture")
    output = tmp_path / "out"
    command = ("import", photos, output, "--yes", "--verify", "--split-ratio", "1,1", "--num-workers", 1)
    advice = "or pass --max-failures 3; otherwise the same command ends the same way"
    for _ in range(2):
        done = energon(*command)
        assert done.code == 1
        assert "interrupted" not in done.err
        assert "error: 3 of 40 samples failed; at most 1 may fail. " in done.err
        assert advice in done.err
    for look in (["info"], ["lint"], ["prepare", "--yes"], ["preview"]):
        done = energon(look[0], output, *look[1:])
        text = done.out + done.err
        assert "interrupted" not in text, look
        assert advice in text, look
    done = energon(*command, "--max-failures", 3)
    assert done.code == 0
    assert "note: resumed: shards that an earlier run has written are kept" in done.err
    assert energon("info", output, "--json").json["samples"] == 37


def test_volumes_of_nifti_are_one_part_for_every_command(tmp_path: Path, energon: RunEnergon) -> None:
    files, output, raw = tmp_path / "files", tmp_path / "out", tmp_path / "raw"
    for folder in (files, raw):
        folder.mkdir()
    for name in ("a", "b"):
        (files / f"{name}.nii.gz").write_bytes(gzip.compress(name.encode()))
        (files / f"{name}.txt").write_text(name)
    assert energon("import", files, output, "--yes").code == 0
    shutil.copy(output / "shard_000000.tar", raw)
    assert energon("prepare", raw, "--yes", "--sample-type", "CrudeWebdataset").code == 0
    for dataset in (output, raw):
        facts = energon("info", dataset, "--json").json
        assert [part["name"] for part in facts["parts"]] == ["nii.gz", "txt"]
        assert energon("lint", dataset).code == 0
    assert "nii.gz" in energon("preview", raw).out
    sample = random_access(str(raw))[1]
    assert (sample["nii.gz"], sample["txt"]) == (b"b", "b"), "it is decompressed"


def test_files_that_are_left_out_are_named_and_strict_publishes_nothing(
    photos: Path, tmp_path: Path, energon: RunEnergon
) -> None:
    (photos / "LICENSE").write_bytes(b"free")
    (photos / "Thumbs.db").write_bytes(b"x")
    assert energon("import", photos, tmp_path / "strict", "--dry-run", "--strict").code == 1
    strict = energon("import", photos, tmp_path / "strict", "--yes", "--strict")
    assert strict.code == 1
    assert "which --strict refuses" in strict.err
    assert not (tmp_path / "strict" / ".nv-meta" / ".info.json").exists()
    assert (
        "without --strict the rest is published; the command was: energon import"
        in energon("info", tmp_path / "strict").err
    )
    done = energon("import", photos, tmp_path / "out", "--yes", "--num-workers", 1)
    assert done.code == 0
    assert "left out: 1 file (4 B), a file about the data, not of it: LICENSE [L102]" in done.err
    assert "left out: 1 file (1 B), a file of the system: Thumbs.db [L108]" in done.err
    assert "not counted" not in done.err
    (photos / ".DS_Store").write_bytes(b"x")
    done = energon("-v", "import", photos, tmp_path / "again", "--yes", "--num-workers", 1)
    assert "not counted: 1 hidden file or folder" in done.err


def test_a_refused_run_leaves_nothing_in_a_finished_dataset(photos: Path, tmp_path: Path, energon: RunEnergon) -> None:
    (photos / "LICENSE").write_bytes(b"free")
    assert energon("import", photos, tmp_path / "out", "--yes").code == 0
    before = sorted(tmp_path.glob("out/**/*"))
    refused = energon("import", photos, tmp_path / "out", "--yes", "--strict")
    assert (refused.code, "which --strict refuses" in refused.err) == (1, True)
    assert sorted(tmp_path.glob("out/**/*")) == before


def test_a_dry_run_writes_nothing(photos: Path, tmp_path: Path, energon: RunEnergon) -> None:
    output = tmp_path / "out"
    done = energon("import", photos, output, "--dry-run", "--samples-per-shard", 10)
    assert "train: 32 samples in 4 shards" in done.out
    assert "__class__: CaptioningSample" in done.out
    found = energon("import", photos, output, "--dry-run", "--json").json
    assert found["split"] == {
        "train": {"samples": 32, "shards": 1},
        "val": {"samples": 4, "shards": 1},
        "test": {"samples": 4, "shards": 1},
    }
    assert not output.exists()


def test_answers_from_standard_input(photos: Path, tmp_path: Path, energon: RunEnergon) -> None:
    output = tmp_path / "out"
    done = energon("import", photos, output, answers=["3,1", "yes", "CaptioningSample", "yes", "jpg", "txt"])
    assert done.code == 0, done.err
    assert "split: train 30, val 10 samples" in done.out
    assert dataset_yaml(output) == CAPTIONS


def test_flags_need_no_answers(photos: Path, tmp_path: Path, energon: RunEnergon) -> None:
    output = tmp_path / "out"
    done = energon("import", photos, output, "--split-ratio", "1", "--sample-type", "CrudeWebdataset")
    assert done.code == 0, done.err
    assert yaml.safe_load((output / ".nv-meta/split.yaml").read_text())["split_parts"] == {
        "train": ["shard_000000.tar"]
    }


def test_a_shuffle_changes_the_order_and_no_sample(photos: Path, tmp_path: Path, energon: RunEnergon) -> None:
    for name, options in (("a", ()), ("b", ("--shuffle", "--seed", 1)), ("c", ("--shuffle", "--seed", 1))):
        assert energon("import", photos, tmp_path / name, "--yes", "--split-ratio", "1", *options).code == 0
    plain, shuffled, again = (shards_of(tmp_path / name)["shard_000000.tar"] for name in "abc")
    assert shuffled == again != plain
    assert len(shuffled) == len(plain)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--split-ratio", "x"], "--split-ratio"),
        (["--max-failures", "many"], "expected a number or a share"),
        (["--max-failures", "101%"], "expected a number or a share"),
        (["--shard-size", "big"], "expected a size such as 500MB"),
        (["--part", "jpg"], "expected PART=COLUMN"),
        (["--field-map", "{}"], "requires --sample-type"),
        (["--quality", "0"], "--quality"),
    ],
)
def test_wrong_flags(photos: Path, tmp_path: Path, energon: RunEnergon, options: list[str], message: str) -> None:
    done = energon("import", photos, tmp_path / "out", "--yes", *options)
    assert done.code == 2
    assert message in done.err
    assert not (tmp_path / "out").exists()


def test_the_help_lists_the_kinds_of_sources(energon: RunEnergon) -> None:
    from loader.convert.sources import KINDS

    assert f"Read sources of this kind: {', '.join(KINDS)}." in " ".join(energon("import", "--help").out.split())


def test_wrong_sources(photos: Path, tmp_path: Path, energon: RunEnergon) -> None:
    assert "no file or folder" in energon("import", tmp_path / "nothing", tmp_path / "out", "--yes").err
    done = energon("import", photos, tmp_path / "out", "--yes", "--from", "foldr")
    assert (done.code, "Did you mean 'folder'?" in done.err) == (2, True)
    assert energon("import", photos).code == 2
    assert "inside of the folder that it is made of" in energon("import", photos, photos, "--yes").err


def test_prompts_on_a_terminal(photos: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    with TerminalRun("import", photos, output, "--num-workers", 1, rows=70) as run:
        run.wait_for(SPLIT)
        assert "parts: jpg 100.0 %, txt 100.0 %" in run.text
        run.press(DOWN, ENTER).wait_for(TYPE).press(ESCAPE).wait_for("» 9,1,0")
        run.press(ENTER).wait_for(TYPE).press(ENTER).wait_for(WRITE)
        assert "Write 40 samples, about " in run.text
        run.press("y").wait_for("imported to")
        run.wait_for("split: train 36, val 4, test 0 samples")
    assert dataset_yaml(output) == CAPTIONS


def test_leaving_the_prompts_writes_nothing(photos: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    with TerminalRun("import", photos, output, "--sample-type", "CrudeWebdataset", rows=70) as run:
        run.wait_for(SPLIT).press(ENTER).wait_for(WRITE).press("q").wait_for("nothing was written")
    assert not output.exists()


def test_what_the_files_of_samples_share_is_printed_and_may_be_named(tmp_path: Path, energon: RunEnergon) -> None:
    for name in ("images/a.jpg", "images/b.jpg", "labels/a.txt", "labels/b.txt", "about.txt"):
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(jpeg(1) if name.endswith("jpg") else b"0 1 1 1 1")
    done = energon("import", tmp_path / "in", tmp_path / "out", "--dry-run")
    assert "files (taken): the files of a sample have the same path but for the folder: images, labels" in done.out
    assert "left out: 1 file (9 B), a file about the data, not of it: about.txt [L102]" in done.err
    found = energon("import", tmp_path / "in", tmp_path / "out", "--dry-run", "--json").json
    assert (found["samples"], "images, labels" in found["hypotheses"][0]["evidence"]) == (2, True)
    plain = energon("import", tmp_path / "in", tmp_path / "out", "--dry-run", "--json", "--group-by", "name").json
    assert plain["samples"] == 5


@pytest.mark.parametrize(
    ("text", "size_bytes"), [("1GB", 10**9), ("1 GiB", 1 << 30), ("1.5kB", 1500), ("12", 12), ("3m", 3_000_000)]
)
def test_sizes(text: str, size_bytes: int) -> None:
    assert parse_size(None, None, text) == size_bytes  # type: ignore[arg-type]


def test_coordinates_that_would_not_fit_end_the_command_before_it_writes(tmp_path: Path, energon: RunEnergon) -> None:
    photos = tmp_path / "photos"
    photos.mkdir()
    for number in range(3):
        (photos / f"{number}.jpg").write_bytes(jpeg(number))
        (photos / f"{number}.json").write_text('{"bbox": [2, 3, 9, 5]}')
    output = tmp_path / "out"
    for options in ((), ("--dry-run",)):
        done = energon("import", photos, output, "--yes", "--resize", 10, *options)
        assert done.code == 2
        assert "json: bbox has coordinates, and its picture would be resized from 20 × 10 to 10 × 5 pixels" in done.err
        assert not output.exists()
    ignored = energon("import", photos, output, "--yes", "--resize", 10, "--geometry", "ignore")
    assert ignored.code == 0
    assert "note: 3 documents of coordinates: written as they are" in " ".join(ignored.err.split())


def test_what_pictures_lose_is_stated(tmp_path: Path, energon: RunEnergon) -> None:
    photos = tmp_path / "photos"
    photos.mkdir()
    Image.new("RGBA", (8, 8), (255, 0, 0, 0)).save(photos / "a.png")
    Image.new("I;16", (8, 8), 65535).save(photos / "b.png")
    Image.new("F", (8, 8), 0.5).save(photos / "c.tif")
    frames = [Image.new("L", (8, 8), shade) for shade in (0, 90)]
    frames[0].save(photos / "d.gif", save_all=True, append_images=frames[1:])
    options = ("--format", "jpg", "--background", "#00ff00", "--frames", "first", "--float-range", "0,1")
    done = energon("import", photos, tmp_path / "out", "--yes", "--json", *options)
    assert done.json["changed"] == {"alpha_composed": 1, "bits_scaled": 2, "frames_dropped": 1}
    told = energon("import", photos, tmp_path / "out2", "--yes", *options).err
    assert "note: 2 pictures of more than 8 bits or of floats" in " ".join(told.split())
    refused = energon("import", photos, tmp_path / "out3", "--yes", "--format", "jpg", "--max-failures", 2)
    assert (refused.code, "2 samples failed" in refused.out + refused.err) == (0, True)


def test_pages_and_metadata_that_training_does_not_read_are_named(tmp_path: Path, energon: RunEnergon) -> None:
    scans = tmp_path / "scans"
    scans.mkdir()
    pages = [Image.new("L", (8, 8), shade) for shade in (0, 90, 200)]
    for name in ("a", "b"):
        pages[0].save(scans / f"{name}.tif", save_all=True, append_images=pages[1:])
        (scans / f"{name}.json").write_text('{"year": 1999}')
    told = " ".join(energon("import", scans, tmp_path / "out", "--yes").err.split())
    assert "note: 2 pictures of several frames or pages: written whole, but training reads the first of each" in told
    assert "--pages split makes parts of the pages of a TIFF, first a.json" in told
    assert "note: no field of ImageSample holds json, so training does not read it" in told
    split = energon("import", scans, tmp_path / "split", "--yes", "--json", "--pages", "split")
    assert (split.json["changed"], split.json["samples"]) == ({}, 2)
    assert "CrudeWebdataset" in (tmp_path / "split/.nv-meta/dataset.yaml").read_text()


@pytest.mark.parametrize(
    ("option", "value"),
    [("--background", "blurple"), ("--float-range", "1,0"), ("--float-range", "0"), ("--float-range", "0,inf")],
)
def test_values_of_picture_options_are_checked(option: str, value: str, photos: Path, energon: RunEnergon) -> None:
    done = energon("import", photos, photos / "out", "--yes", option, value)
    assert (done.code, option in done.err) == (2, True)
