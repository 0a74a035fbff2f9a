"""``energon get`` and ``energon extract``: what is printed, piped and refused."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

from PIL import Image

from tests.cli.run_energon import RunEnergon
from tests.cli.terminal import TerminalRun

ENERGON = [sys.executable, "-m", "energon_cli"]


def test_get_lists_parts_and_prints_their_bytes(prepared: Path, energon: RunEnergon) -> None:
    done = energon("get", prepared, "000004", "--json")
    facts = json.loads(done.out)
    assert facts["key"] == "000004"
    names = [part["name"] for part in facts["parts"]]
    shown = energon("get", prepared, f"{facts['shard']}/000004").out
    assert all(name in shown for name in names)
    picture = subprocess.run([*ENERGON, "get", prepared, "000004", "jpg"], capture_output=True, check=True).stdout
    with Image.open(io.BytesIO(picture)) as image:
        assert image.format == "JPEG"
    assert len(picture) == next(part["size_bytes"] for part in facts["parts"] if part["name"] == "jpg")


def test_get_prints_no_picture_on_a_terminal(prepared: Path) -> None:
    with TerminalRun("get", str(prepared), "000004", "jpg", columns=160) as run:
        run.wait_for("is not printed on a terminal")


def test_get_writes_files(prepared: Path, tmp_path: Path, energon: RunEnergon) -> None:
    output = tmp_path / "cat.jpg"
    assert energon("get", prepared, "000004", "jpg", "-o", output).code == 0
    assert output.read_bytes()[:2] == b"\xff\xd8"
    done = energon("get", prepared, "000004", "jpg", "-o", output)
    assert done.code == 1
    assert "nothing is overwritten" in done.err
    assert energon("get", prepared, "000004", "-o", tmp_path / "parts").code == 0
    assert (tmp_path / "parts/000004.jpg").read_bytes() == output.read_bytes()


def test_get_names_the_parts_and_keys_there_are(prepared: Path, energon: RunEnergon) -> None:
    done = energon("get", prepared, "000004", "jgp")
    assert done.code == 1
    assert "no part 'jgp', and no sample of this key; did you mean 'jpg'?" in done.err
    assert energon("get", prepared, "nothing", "jpg").code == 1
    assert energon("get", prepared, "000004", "jpg", "--json").code == 2


def test_extract_copies_a_selection(prepared: Path, tmp_path: Path, energon: RunEnergon) -> None:
    keys = tmp_path / "keys.txt"
    keys.write_text("# chosen by hand\n000001\n000004\n")
    done = energon("extract", prepared, "-o", tmp_path / "out", "--keys-from", keys, "--json")
    assert json.loads(done.out)["samples"] == 2
    assert {path.name.partition(".")[0] for path in (tmp_path / "out").iterdir()} == {"000001", "000004"}
    done = energon("extract", prepared, "-o", tmp_path / "x.jsonl", "--where", "bytes > 0", "--limit", 3)
    assert done.code == 0
    assert "wrote 3 samples" in done.err
    assert len((tmp_path / "x.jsonl").read_text().splitlines()) == 3


def test_extracted_shards_are_prepared_again(prepared: Path, tmp_path: Path, energon: RunEnergon) -> None:
    assert energon("extract", prepared, "-o", tmp_path / "small", "--format", "tar", "--split-parts", "val").code == 0
    assert energon("prepare", tmp_path / "small", "--yes", "--num-workers", 1).code == 0
    assert json.loads(energon("info", tmp_path / "small", "--json").out)["samples"] == 3


def test_keys_behind_the_path_choose_samples(prepared: Path, tmp_path: Path, energon: RunEnergon) -> None:
    keys = ("shard_001.tar/000004", "000001")
    assert energon("extract", prepared, *keys, "-o", tmp_path / "x.jsonl", "--parts", "txt").code == 0
    assert len((tmp_path / "x.jsonl").read_text().splitlines()) == len(keys)
    listed = tmp_path / "keys.txt"
    listed.write_text("000002\n")
    assert (
        energon("extract", prepared, *keys, "-o", tmp_path / "y", "--keys-from", listed, "--drop-parts", "j*").code == 0
    )
    names = {path.name for path in (tmp_path / "y").iterdir()}
    assert names == {f"{key}.txt" for key in ("000001", "000002", "000004")}
    typo = energon("extract", prepared, tmp_path / "other", "-o", tmp_path / "z")
    assert (typo.code, "there is no sample" in typo.err) == (1, True)


def test_several_split_parts_choose_the_samples_of_all(prepared: Path, tmp_path: Path, energon: RunEnergon) -> None:
    counts = {
        part: energon("stats", prepared, "--split-parts", part, "--json").json["samples"] for part in ("train", "val")
    }
    both = energon("stats", prepared, "--split-parts", "train,val", "--json").json["samples"]
    assert both == sum(counts.values())
    done = energon("export", prepared, tmp_path / "x", "--split-parts", "val, train", "-n", 4, "--json")
    assert done.json["samples"] == 4


def test_extract_refuses_with_the_reason(prepared: Path, tmp_path: Path, energon: RunEnergon) -> None:
    for options, reason in (
        (["--where", "widht > 3"], "no sample has the value 'json[widht]'; did you mean 'jpg.width'?"),
        (["--split-parts", "trian"], "there is no split part 'trian'"),
        (["--filter", "x"], "there is no filter 'x'"),
        (["--keys-from", "none.txt"], "cannot read this file: No such file"),
        (["--keys-from", "-"], "no sample is chosen"),
    ):
        done = energon("extract", prepared, "-o", tmp_path / "out", *options)
        assert done.code == 1
        assert reason in done.err
    assert not (tmp_path / "out").exists()
    assert energon("extract", prepared, "-o", prepared).code == 1
