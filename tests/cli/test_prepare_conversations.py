"""Datasets whose text a field map of the older types would drop: prepare, check, show and load them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from loader import ConversationSample, InterleavedSample, WorkerConfig, get_loader, get_train_dataset
from tests.cli.make_dataset import caption_parts, write_shard
from tests.cli.run_energon import RunEnergon

IMAGE = caption_parts(0)["jpg"]
TURNS = [{"from": "human", "value": "<image>\nWho is this?"}, {"from": "gpt", "value": "A cat."}]
PARTS = {
    "one image": {"jpg": IMAGE, "json": json.dumps({"conversations": TURNS}).encode()},
    "two images": {
        "0.jpg": IMAGE,
        "1.jpg": IMAGE,
        "json": json.dumps({"messages": [{"role": "user", "content": "<image><image> Which?"}]}).encode(),
    },
    "interleaved": {"0.jpg": IMAGE, "1.jpg": IMAGE, "json": json.dumps({"texts": [None, "a", None]}).encode()},
    "upper case": {"JPG": IMAGE, "TXT": b"a cat"},
}


def write_dataset(folder: Path, name: str) -> Path:
    write_shard(folder / "s.tar", {f"{number:03}": PARTS[name] for number in range(4)})
    return folder


@pytest.mark.parametrize(
    ("name", "note", "shown"),
    [
        ("one image", "megatron-energon does not have this type", "user: <image> Who is this?"),
        ("two images", "runs only with trust_code=True", "user: <image><image> Which?"),
        ("interleaved", "runs only with trust_code=True", "sequence  list of 3"),
        ("upper case", "", "a cat"),
    ],
)
def test_a_proposal_keeps_all_text(tmp_path: Path, energon: RunEnergon, name: str, note: str, shown: str) -> None:
    folder = write_dataset(tmp_path, name)
    done = energon("prepare", folder, "--yes")
    assert note in done.err
    assert "warning" not in done.out + done.err
    linted = energon("lint", folder, "--level", "decode", "--trust-code")
    assert linted.code == 0, linted.out
    assert shown in energon("preview", folder, "--trust-code").out


def test_code_that_prepare_wrote_is_not_trusted_by_itself(tmp_path: Path, energon: RunEnergon) -> None:
    folder = write_dataset(tmp_path, "interleaved")
    energon("prepare", folder, "--yes")
    assert "if you trust it, add --trust-code" in energon("preview", folder).out


def test_an_empty_answer_takes_the_code(tmp_path: Path, energon: RunEnergon) -> None:
    done = energon("prepare", write_dataset(tmp_path, "interleaved"), answers=["1", "yes", "", ""])
    assert "note: InterleavedSample keeps the whole sample" in done.err
    assert "empty: no, generate code" in done.out
    assert "remaining = iter(images)" in (tmp_path / ".nv-meta/sample_loader.py").read_text()


def test_a_type_that_drops_text_is_warned_of(tmp_path: Path, energon: RunEnergon) -> None:
    flags = ("--sample-type", "ImageSample", "--field-map", '{"image": "jpg"}')
    done = energon("prepare", write_dataset(tmp_path, "one image"), "--yes", *flags)
    assert "note: no field of ImageSample holds json" in done.err


def test_loaders_batch_them(tmp_path: Path, energon: RunEnergon) -> None:
    config = WorkerConfig(rank=0, world_size=1, num_workers=0)
    for name, kind in (("two images", ConversationSample), ("interleaved", InterleavedSample)):
        folder = write_dataset(tmp_path / name, name)
        energon("prepare", folder, "--yes")
        dataset = get_train_dataset(
            str(folder),
            batch_size=2,
            shuffle_buffer_size=None,
            max_samples_per_sequence=None,
            worker_config=config,
            trust_code=True,
        )
        assert isinstance(next(iter(get_loader(dataset))), kind)
