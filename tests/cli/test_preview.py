"""``energon preview``, piped: which samples, and what is said of each."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.cli.make_dataset import caption_parts, picture, write_captions, write_shard
from tests.cli.run_energon import RunEnergon
from tests.unit.av.encoded_media import encode
from tests.unit.av.odd_media import wav


def test_one_sample_as_training_gets_it(prepared: Path, energon: RunEnergon) -> None:
    done = energon("preview", prepared)
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0] == "shard_000.tar/000000   sample 0 of 12"
    assert lines[1].startswith("  image    float32 (3, 16, 24), 0")
    assert lines[2] == "  caption  str, 16 characters"
    assert lines[3] == "    picture number 0"
    assert "\x1b" not in done.out


def test_raw_parts_whatever_dataset_yaml_says(prepared: Path, energon: RunEnergon) -> None:
    done = energon("preview", prepared, "--crude")
    assert "jpg   JPEG 24×16 RGB, " in done.out
    assert '"caption": "a gradient, number 0"' in done.out


def test_a_dataset_without_dataset_yaml_is_shown_as_parts(captions: Path, energon: RunEnergon) -> None:
    energon("prepare", captions, "--yes", "--skip-dataset-yaml")
    assert "jpg   JPEG 24×16 RGB, " in energon("preview", captions).out


def test_several_samples_from_an_index_on(prepared: Path, energon: RunEnergon) -> None:
    done = energon("preview", prepared, "-n", 3, "--index", 10)
    assert [line for line in done.out.splitlines() if "sample " in line] == [
        "shard_003.tar/000010   sample 10 of 12",
        "shard_003.tar/000011   sample 11 of 12",
    ]


@pytest.mark.parametrize("key", ["000004", "shard_001.tar/000004"])
def test_a_sample_by_its_key(prepared: Path, energon: RunEnergon, key: str) -> None:
    assert "picture number 4" in energon("preview", prepared, key).out


def test_several_keys_show_their_samples_in_this_order(prepared: Path, energon: RunEnergon) -> None:
    lines = energon("preview", prepared, "000007", "shard_001.tar/000004", "000001", "--json").out.splitlines()
    assert [json.loads(line)["key"].rpartition("/")[2] for line in lines] == ["000007", "000004", "000001"]
    assert energon("preview", prepared, "000007", "000004", "-n", 1).out.count("picture number") == 1
    assert energon("preview", prepared, "000007", "nothing").code == 1


def test_a_key_that_occurs_twice_gives_both(captions: Path, energon: RunEnergon) -> None:
    write_shard(captions / "shard_009.tar", {"000004": caption_parts(99)})
    energon("prepare", captions, "--yes")
    done = energon("preview", captions, "000004", "-n", 5)
    assert "picture number 4" in done.out
    assert "picture number 99" in done.out


def test_only_some_split_parts(prepared: Path, energon: RunEnergon) -> None:
    done = energon("preview", prepared, "--split-parts", "val", "-n", 20)
    assert done.out.count("shard_002.tar/") == 3
    assert "shard_000" not in done.out
    assert "of 6" in energon("preview", prepared, "--split-parts", "val, test").out


def test_shuffled_order_depends_on_the_seed_only(prepared: Path, energon: RunEnergon) -> None:
    def keys(*flags: object) -> list[str]:
        done = energon("preview", prepared, "--crude", "-n", 12, "--shuffle", *flags)
        return [line.split()[0] for line in done.out.splitlines() if "   sample " in line]

    assert keys() == keys()
    assert sorted(keys()) == sorted(keys("--seed", 5))
    assert len(set(keys())) == 12
    assert keys() != keys("--seed", 5)


@pytest.mark.parametrize(
    ("flags", "code", "told"),
    [
        (["missing"], 1, "no sample has the key 'missing'"),
        (["--split-parts", "vla"], 1, "there are: train, val, test"),
        (["--index", "12"], 2, "there are 12 samples, counted from 0"),
        (["-n", "0"], 2, "Invalid value for '-n'"),
        (["--dataset-config", "none.yaml"], 1, "there is no such file"),
    ],
)
def test_what_is_not_there_is_told(prepared: Path, energon: RunEnergon, flags: list[str], code: int, told: str) -> None:
    done = energon("preview", prepared, *flags)
    assert done.code == code
    assert told in done.err


def test_a_sample_that_cannot_be_made_is_shown_as_parts_with_the_reason(tmp_path: Path, energon: RunEnergon) -> None:
    folder = write_captions(tmp_path, parts=lambda number: caption_parts(number) | {"jpg": b"<!DOCTYPE html>"})
    energon("prepare", folder, "--yes")
    done = energon("preview", folder)
    assert done.code == 1
    assert "part 'jpg'" in done.out
    assert "not an image (it starts with b'<!DOCTYPE ht')" in done.out
    assert "picture number 0" in done.out


def test_a_shard_that_is_gone_is_told_and_does_not_crash(prepared: Path, energon: RunEnergon) -> None:
    (prepared / "shard_000.tar").unlink()
    done = energon("preview", prepared)
    assert done.code == 1
    assert "shard_000.tar" in done.out


def test_code_of_the_dataset_runs_only_when_trusted(
    captions: Path, energon: RunEnergon, monkeypatch: pytest.MonkeyPatch
) -> None:
    energon("prepare", captions, "--non-interactive", "--split-ratio", "1", "--sample-type", "Captioning")
    done = energon("preview", captions)
    assert done.code == 0
    assert "shown as parts" in done.out
    assert "--trust-code" in done.out
    assert "jpg   JPEG" in done.out
    monkeypatch.setenv("ENERGON_TRUST_CODE", "1")
    assert "caption  str, 16 characters" in energon("preview", captions).out


def test_control_characters_of_the_data_are_escaped(tmp_path: Path, energon: RunEnergon) -> None:
    parts = {"txt": b"\x1b]0;owned\x07\x1b[2J caption\r\nsecond", "\x1b[31m.txt": b"\x9b31m \xff"}
    write_shard(tmp_path / "s.tar", {"key\x1b[5m": parts})
    energon("prepare", tmp_path, "--yes", "--skip-dataset-yaml")
    done = energon("preview", tmp_path)
    assert done.code == 0
    assert not [c for c in done.out if c < " " and c != "\n"]
    assert "key\\x1b[5m" in done.out
    assert "    \\x1b]0;owned\\x07\\x1b[2J caption\n    second\n" in done.out
    assert "not UTF-8 at byte 0" in done.out


def test_the_same_part_name_is_not_needed_in_every_sample(tmp_path: Path, energon: RunEnergon) -> None:
    write_shard(tmp_path / "s.tar", {"a": {"txt": b"x"}, "b": {"cls": b"3"}})
    energon("prepare", tmp_path, "--yes", "--skip-dataset-yaml")
    assert "cls  text, 1 B" in energon("preview", tmp_path, "--index", 1).out


# ------------------------------------------------------------------------------------------------------------ JSONL


@pytest.fixture
def texts(tmp_path: Path, energon: RunEnergon) -> Path:
    path = tmp_path / "texts.jsonl"
    path.write_text('{"text": "one"}\n\n{"text": "two"}\n')
    assert energon("prepare", path).code == 0
    return path


def test_lines_of_a_jsonl_file_are_samples(texts: Path, energon: RunEnergon) -> None:
    done = energon("preview", texts, "-n", 5)
    assert done.code == 0
    assert "texts.jsonl/0   sample 0 of 2" in done.out
    assert '"text": "two"' in done.out
    assert '"text": "one"' not in energon("preview", texts, 1).out
    assert "texts.jsonl/1" in energon("preview", texts, "--shuffle", "-n", 2).out


def test_what_a_jsonl_file_has_not_is_told(texts: Path, energon: RunEnergon) -> None:
    for key in (2, "01", "texts.jsonl/01", "9" * 5000):
        assert energon("preview", texts, key).code == 1
    assert energon("preview", texts, "--split-parts", "train").code == 2


def test_nothing_to_show_is_told(captions: Path, energon: RunEnergon) -> None:
    energon("prepare", captions, "--yes", "--split-ratio", "1,0,0")
    done = energon("preview", captions, "--split-parts", "val")
    assert done.code == 1
    assert "the split part 'val' is empty" in done.err
    assert "choose another part" in done.err


@pytest.mark.parametrize("command", ["prepare", "info", "lint", "preview"])
def test_a_path_that_is_no_dataset_says_what_it_is(prepared: Path, energon: RunEnergon, command: str) -> None:
    empty = energon(command, "")
    assert (empty.code, "PATH is empty" in empty.err) == (2, True)
    if command == "prepare":
        shard = energon(command, prepared / "shard_000.tar")
        assert (shard.code, f"is a file; pass the folder that contains it: {prepared}/" in shard.err) == (2, True)
    (prepared / "packed.tar.gz").write_bytes(b"")
    packed = energon(command, prepared / "packed.tar.gz")
    assert (packed.code, f"energon prepare {prepared} --decompress" in packed.err) == (2, True)
    inside = energon(command, prepared / ".nv-meta/dataset.yaml")
    assert (inside.code, "metadataset" in inside.err) == (2, False)
    assert f"pass the dataset's folder: {prepared}/" in inside.err
    for name in ("gone.jsonl", "gone.yaml", "gone.tar"):
        gone = energon(command, prepared / name)
        assert (gone.code, "this file does not exist" in gone.err) == (1, True)


def test_the_place_of_a_key_is_that_in_the_dataset(prepared: Path, energon: RunEnergon) -> None:
    assert "shard_001.tar/000004   sample 4 of 12" in energon("preview", prepared, "000004").out


def test_a_key_that_occurs_twice_says_how_often_it_does(captions: Path, energon: RunEnergon) -> None:
    write_shard(captions / "zz.tar", {"000004": caption_parts(99)})
    energon("prepare", captions, "--yes")
    assert "sample 4 of 13, 1 of 2 with this key" in energon("preview", captions, "000004").out


def test_a_missing_field_names_what_there_is_instead(captions: Path, energon: RunEnergon) -> None:
    field_map = '{"image": "jgp", "caption": "txt"}'
    energon("prepare", captions, "--yes", "--sample-type", "Captioning", "--field-map", field_map)
    assert "(json[jgp]) is missing: json has no 'jgp', only caption, id" in energon("preview", captions).out


def test_what_needs_trust_is_told_in_lines_with_the_flag_first(captions: Path, energon: RunEnergon) -> None:
    energon("prepare", captions, "--non-interactive", "--split-ratio", "1", "--sample-type", "Captioning")
    done = energon("preview", captions)
    assert "shown as parts, since --trust-code is not given: dataset.yaml asks to run" in done.out
    assert "\n  at: " in done.out
    assert "\\n" not in done.out


def test_a_sample_loader_that_asks_for_a_part_that_its_filter_leaves_out_is_told(
    captions: Path, energon: RunEnergon
) -> None:
    energon("prepare", captions, "--non-interactive", "--split-ratio", "1", "--sample-type", "Captioning")
    file = captions / ".nv-meta/sample_loader.py"
    file.write_text(file.read_text().replace('parts["txt"]', 'parts["json"]["caption"]'))
    done = energon("preview", captions, "--trust-code")
    assert done.code == 1
    assert "sample_loader() reads part 'json', which part_filter excludes" in done.out


def test_a_shuffled_sample_shows_the_index_that_finds_it_again(prepared: Path, energon: RunEnergon) -> None:
    flags = ("--crude", "--split-parts", "val,test")
    lines = [
        line
        for line in energon("preview", prepared, *flags, "--shuffle", "-n", 6).out.splitlines()
        if "   sample" in line
    ]
    assert len(lines) == 6
    for draw, line in enumerate(lines):
        key, title = line.split("   ")
        found = re.fullmatch(rf"sample (\d) of 6, drawn as number {draw}", title)
        assert found is not None
        again = energon("preview", prepared, *flags, "--index", found[1])
        assert again.out.startswith(f"{key}   sample {found[1]} of 6\n")


SAMPLE_KEYS = ["key", "shard", "index", "origin", "excluded", "fields", "note", "fault"]
FIELD_KEYS = ["name", "type", "shape", "dtype", "range", "size_bytes", "media", "facts", "text", "fault"]


def test_samples_are_printed_as_lines_of_json(prepared: Path, energon: RunEnergon) -> None:
    done = energon("preview", prepared, "--json", "-n", 2, "--index", 4)
    assert (done.code, done.err) == (0, "")
    first, second = map(json.loads, done.out.splitlines())
    assert list(first) == SAMPLE_KEYS
    assert (first["shard"], first["key"], first["index"], second["index"]) == ("shard_001.tar", "000004", 4, 5)
    image, caption = first["fields"]
    assert list(image) == FIELD_KEYS
    assert (image["name"], image["type"], image["shape"], image["dtype"]) == ("image", "Tensor", [3, 16, 24], "float32")
    assert 0 <= image["range"][0] < image["range"][1] <= 1
    assert (caption["type"], caption["text"], caption["shape"]) == ("str", "picture number 4", None)


def test_the_json_of_a_shuffled_sample_has_the_same_index(prepared: Path, energon: RunEnergon) -> None:
    shuffled = json.loads(energon("preview", prepared, "--json", "--shuffle", "--seed", 3).out)
    assert json.loads(energon("preview", prepared, "--json", "--index", shuffled["index"]).out) == shuffled


def test_a_sample_with_a_fault_is_json_too_and_exits_1(tmp_path: Path, energon: RunEnergon) -> None:
    parts = {"npy": b"x", "jpg": b"<!DOCTYPE", "json": b"{", "txt": b"\xff", "bin": bytes(4), "cls": b""}
    folder = write_captions(tmp_path / "broken", parts=lambda number: caption_parts(number) | parts)
    field_map = json.dumps({"image": "jpg", "caption": "txt"})
    energon("prepare", folder, "--yes", "--sample-type", "CaptioningSample", "--field-map", field_map)
    done = energon("preview", folder, "--json")
    assert done.code == 1
    document = json.loads(done.out)
    assert "shard_000.tar/000000" in document["fault"]
    fields = {field["name"]: field for field in document["fields"]}
    assert {name: field["type"] for name, field in fields.items()} == {
        "jpg": "image", "txt": "text", "json": "json", "npy": "ndarray", "bin": "bytes", "cls": "bytes",
    }  # fmt: skip
    assert fields["bin"]["size_bytes"] == 4
    assert all(fields[name]["fault"] for name in ("jpg", "txt", "json", "npy", "cls"))


def test_json_of_a_sample_of_a_file_and_of_a_mix(prepared: Path, energon: RunEnergon) -> None:
    lines = prepared.parent / "texts.jsonl"
    lines.write_text('{"text": "a"}\n{"text": "b"}\n')
    energon("prepare", lines)
    document = json.loads(energon("preview", lines, "--json", "--index", 1).out)
    assert (document["shard"], document["key"], document["index"]) == ("texts.jsonl", "1", 1)
    mix = prepared.parent / "mix.yaml"
    mix.write_text(
        "__module__: megatron.energon\n__class__: MetadatasetV2\nsplits:\n  train:\n    blend:\n"
        f"      - {{path: ./{prepared.name}, weight: 3}}\n      - {{path: ./texts.jsonl, weight: 1}}\n"
    )
    shuffled = json.loads(energon("preview", mix, "--json", "--shuffle").out)
    assert shuffled["origin"].startswith("from ")
    assert json.loads(energon("preview", mix, "--json", "--index", shuffled["index"]).out) == shuffled


ARRAY = np.arange(12, dtype=np.float32).reshape(3, 4)
LOOKED_AT: tuple[tuple[str, Callable[[io.BytesIO], object], str], ...] = (
    ("jpg", lambda file: file.write(picture(0)), '"type": "Tensor", "shape": [3, 16, 24]'),
    ("mp4", lambda file: file.write(encode(frames=5)), "AVDecoder"),
    ("wav", lambda file: file.write(wav(0.1)), "AVDecoder"),
    ("npy", lambda file: np.save(file, ARRAY), '"type": "ndarray", "shape": [3, 4]'),
    ("npz", lambda file: np.savez(file, x=ARRAY), "dict, 1 key"),
    ("npz[x]", lambda file: np.savez(file, x=ARRAY), '"type": "ndarray", "shape": [3, 4]'),
    ("json[a]", lambda file: file.write(b'{"a": "b"}'), "str, 1 character"),
    ("pth", lambda file: torch.save(torch.ones(3, 4), file), "not decoded here: that needs torch"),
)


def test_looking_needs_no_torch(tmp_path: Path) -> None:
    """Each kind of part is proposed, prepared and previewed in a process that cannot import torch."""
    code = (
        "import sys; sys.modules['torch'] = None; from energon_cli.main import main\n"
        "for folder, field_map in zip(sys.argv[1::2], sys.argv[2::2]):\n"
        "    prepare = ['prepare', folder, '--yes', '-q', '--split-ratio', '1', '--field-map', field_map]\n"
        "    codes = main([*prepare, '--sample-type', 'CaptioningSample']), main(['preview', folder, '--json'])\n"
        "    assert codes == (0, 0)"
    )
    arguments = []
    for number, (part, write, _) in enumerate(LOOKED_AT):
        write(file := io.BytesIO())
        folder = tmp_path / str(number)
        write_shard(folder / "0.tar", {"0": {part.partition("[")[0]: file.getvalue(), "txt": b"a walk"}})
        arguments += [str(folder), json.dumps({"image": part, "caption": "txt"})]
    done = subprocess.run([sys.executable, "-c", code, *arguments], check=False, capture_output=True, text=True)
    assert "torch" not in done.stderr
    documents = [line for line in done.stdout.splitlines() if line.startswith("{")]
    assert [shown in document for (_, _, shown), document in zip(LOOKED_AT, documents, strict=True)] == [True] * 8


def test_a_value_inside_of_a_file_of_torch_is_decoded_by_torch(tmp_path: Path, energon: RunEnergon) -> None:
    file = io.BytesIO()
    torch.save({"a": torch.ones(3, 4)}, file)
    write_shard(tmp_path / "0.tar", {"0": {"pth": file.getvalue(), "txt": b"a walk"}})
    field_map = json.dumps({"image": "pth[a]", "caption": "txt"})
    options = ("--yes", "--sample-type", "CaptioningSample", "--split-ratio", "1", "--field-map", field_map)
    assert energon("prepare", tmp_path, *options).code == 0
    assert '"type": "Tensor", "shape": [3, 4]' in energon("preview", tmp_path, "--json").out
