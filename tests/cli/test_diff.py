"""``energon diff``: its output and its exit codes."""

from __future__ import annotations

import copy as copies
import shutil
from pathlib import Path

import pytest
import torch
import yaml

from loader import WorkerConfig, get_savable_loader, get_train_dataset
from tests.cli.run_energon import RunEnergon

KEYS = {"a", "b", "kinds", "same", "count", "resumes", "differences", "notes"}


@pytest.fixture
def copy(prepared: Path, tmp_path: Path) -> Path:
    """A copy of the dataset that excludes a sample."""
    shutil.copytree(prepared, tmp_path / "copy")
    file = tmp_path / "copy" / ".nv-meta" / "split.yaml"
    split = yaml.safe_load(file.read_text())
    split["exclude"] = ["shard_000.tar/000001"]
    file.write_text(yaml.safe_dump(split))
    return tmp_path / "copy"


def test_no_difference_exits_0(prepared: Path, energon: RunEnergon) -> None:
    done = energon("diff", prepared, prepared, "--contents")
    assert (done.code, done.out, done.err) == (0, "no differences\n", "")


def test_a_difference_exits_1(prepared: Path, copy: Path, energon: RunEnergon) -> None:
    done = energon("diff", prepared, copy)
    assert done.code == 1
    assert done.out == "split: excluded: 1 only in B (shard_000.tar/000001)\n1 difference\n"


def test_differences_are_printed_as_json(prepared: Path, copy: Path, energon: RunEnergon) -> None:
    done = energon("diff", copy, prepared, "--json")
    assert done.code == 1
    assert set(done.json) == KEYS
    assert (done.json["same"], done.json["count"], done.json["resumes"]) == (False, 1, None)
    assert done.json["differences"] == [
        {
            "place": "split",
            "name": "excluded",
            "a": {"count": 1, "names": ["shard_000.tar/000001"]},
            "b": None,
            "text": "split: excluded: 1 only in A (shard_000.tar/000001)",
        }
    ]


def test_few_are_listed_and_all_are_counted(
    prepared: Path, captions: Path, energon: RunEnergon, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    shutil.copytree(captions, other)
    shutil.rmtree(other / ".nv-meta")
    for shard in ("shard_002.tar", "shard_003.tar"):
        (other / shard).unlink()
    assert energon("prepare", other, "--non-interactive", "--split-ratio", "1,0,0").code == 0
    done = energon("diff", prepared, other, "--max-differences", 2)
    assert done.code == 1
    assert "more (--max-differences)" in done.out
    assert done.out.splitlines()[0] == "samples 12 → 6"


def test_a_checkpoint_and_its_dataset(prepared: Path, energon: RunEnergon, tmp_path: Path) -> None:
    import json

    def state(batch_size: int) -> Path:
        config = WorkerConfig(rank=0, world_size=1, num_workers=0)
        loader = get_savable_loader(
            get_train_dataset(
                prepared, worker_config=config, batch_size=batch_size, shuffle_buffer_size=4, max_samples_per_sequence=4
            )
        )
        next(iter(loader))
        path = tmp_path / f"state_{batch_size}.json"
        path.write_text(json.dumps(loader.save_state_rank()))
        return path

    done = energon("diff", state(2), prepared)
    assert (done.code, done.out) == (0, "a run with B and the arguments of A continues A exactly\nno differences\n")
    done = energon("diff", state(2), state(3))
    assert done.code == 1
    assert "batch: batch_size 2 → 3\n" in done.out
    assert "a run with B cannot continue A exactly\n" in done.out
    done = energon("diff", prepared, state(2))
    assert done.code == 2
    assert f"swap them: energon diff {tmp_path / 'state_2.json'} {prepared}" in done.err


def test_a_checkpoint_with_the_states_of_two_loaders_needs_their_place(
    prepared: Path, energon: RunEnergon, tmp_path: Path
) -> None:
    states = {}
    for name, batch_size in (("train", 2), ("tuning", 3)):
        config = WorkerConfig(rank=0, world_size=1, num_workers=0)
        dataset = get_train_dataset(
            prepared,
            worker_config=config,
            batch_size=batch_size,
            shuffle_buffer_size=4,
            max_samples_per_sequence=4,
        )
        states[name] = get_savable_loader(dataset).save_state_rank()
    torch.save({"loaders": states, "step": 0}, tmp_path / "both.pt")
    torch.save({"loaders": {**states, "tuning": copies.deepcopy(states["train"])}}, tmp_path / "alike.pt")
    done = energon("diff", tmp_path / "both.pt", prepared)
    assert done.code == 1
    assert "found those of 2" in done.err
    assert energon("diff", tmp_path / "both.pt", prepared, "--place", "loaders.train").code == 0
    paths = (tmp_path / "both.pt", tmp_path / "alike.pt")
    assert energon("diff", *paths, "--place", "loaders.train").code == 0
    assert "batch_size 3 → 2\n" in energon("diff", *paths, "--place", "loaders.tuning").out
    done = energon("diff", *paths, "--place", "no.place")
    assert done.code == 1
    assert "energon checkpoint info lists the places" in done.err


def test_names_with_control_characters_are_escaped(energon: RunEnergon, tmp_path: Path) -> None:
    from tests.cli.make_dataset import write_shard

    for name, key in (("a", "k\x1b[2J"), ("b", "k")):
        write_shard(tmp_path / name / "s.tar", {key: {"txt": b"x"}})
        assert energon("prepare", tmp_path / name, "--non-interactive", "--split-ratio", "1,0,0").code == 0
    done = energon("diff", tmp_path / "a", tmp_path / "b")
    assert done.code == 1
    assert "\x1b" not in done.out
    assert "k\\x1b[2J" in done.out


@pytest.mark.parametrize("arguments", [[], ["x"], ["", "x"]])
def test_wrong_usage(energon: RunEnergon, arguments: list[str]) -> None:
    assert energon("diff", *arguments).code == 2


def test_kinds_that_cannot_be_compared_are_wrong_usage(prepared: Path, energon: RunEnergon, tmp_path: Path) -> None:
    mix = tmp_path / "mix.yaml"
    mix.write_text(
        f"__module__: megatron.energon\n__class__: MetadatasetV2\nsplits: {{train: {{path: {str(prepared)!r}}}}}\n"
    )
    done = energon("diff", prepared, mix)
    assert done.code == 2
    assert "a dataset and a metadataset cannot be compared" in done.err


def test_shards_that_are_not_prepared_are_compared_by_a_scan(prepared: Path, copy: Path, energon: RunEnergon) -> None:
    shutil.rmtree(copy / ".nv-meta")
    shard = min(copy.glob("*.tar"))
    content = shard.read_bytes()
    shard.unlink()
    done = energon("diff", prepared, copy)
    assert done.code == 1
    assert f"1 only in A ({shard.name})" in done.out
    shard.write_bytes(content)
    done = energon("diff", prepared, copy, "--contents")
    assert (done.code, done.out.strip(), done.err) == (0, "no differences", "")
    assert not (copy / ".nv-meta").exists()


def test_a_missing_path_is_an_error(prepared: Path, energon: RunEnergon) -> None:
    done = energon("diff", prepared, "/no/such/dataset")
    assert done.code == 1
    assert "/no/such/dataset" in done.err
