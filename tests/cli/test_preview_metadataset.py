"""``energon preview`` of metadatasets, of joins, and of folders of files."""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from loader.format.media.metadata import AVMetadata, ImageMetadata, MediaMetadata, serialize_media_metadata
from loader.metadataset.joins.prepare_join import prepare_join
from loader.metadataset.plans.plan_leaves import plan_leaves
from tests.cli.make_dataset import picture
from tests.cli.make_mix import JOINER, copy_datasets, write_datasets, write_mix
from tests.cli.run_energon import RunEnergon


@dataclass
class Pair:
    """A sample of the joiner of the tests."""

    first: str
    second: str | None

    @classmethod
    def from_joined(cls, one: Any, other: Any) -> Pair:
        return cls(one.caption, None if other is None else other.caption)


def pair_by_names(*, left: Any, right: Any) -> Pair:
    return Pair(left.caption, right.caption)


def fail(one: Any, other: Any) -> None:
    raise ValueError("these do not fit")


Preview: TypeAlias = Callable[..., list[tuple[str, str]]]


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_datasets(tmp_path_factory.mktemp("datasets"))


@pytest.fixture
def preview(datasets: Path, energon: RunEnergon) -> Preview:
    """Show raw parts of a metadataset next to the datasets, and return (key, origin) of each sample."""

    def run(*flags: object, **splits: Any) -> list[tuple[str, str]]:
        done = energon("preview", write_mix(datasets, **splits), "--crude", *flags)
        assert (done.code, done.err) == (0, "")
        return re.findall(r"^(\S+)   sample .*\nfrom (.*)$", done.out, flags=re.MULTILINE)

    return run


def test_samples_of_all_leaves_follow_one_another_each_headed_by_its_leaf(datasets: Path, energon: RunEnergon) -> None:
    write_mix(datasets, "inner.yaml", train=[{"path": "texts.jsonl", "subflavors": {"kind": "text"}}])
    mix = write_mix(datasets, train=[{"path": "a", "weight": 9, "subset": {"range": [0, 1]}}, {"path": "inner.yaml"}])
    done = energon("preview", mix, "-n", 9)
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[:2] == ["shard_000.tar/000000   sample 0 of 3", "from a (train)"]
    assert lines[2].startswith("  image    float32 (3, 16, 24), 0"), "as training gets it"
    assert "texts.jsonl/0   sample 1 of 3\nfrom texts.jsonl (train), kind: text\n  json" in done.out
    assert '"text": "two"' in done.out


def test_the_split_train_is_shown_or_the_first_or_the_requested_ones(
    preview: Preview,
) -> None:
    splits = {"val": {"path": "b", "subset": {"range": [0, 1]}}, "train": {"path": "a", "subset": {"range": [0, 1]}}}
    assert [origin for _, origin in preview("-n", 5, **splits)] == ["a (train)"]
    assert [origin for _, origin in preview("-n", 5, "--split-parts", "val,train", **splits)] == [
        "b (val)",
        "a (train)",
    ]
    assert [origin for _, origin in preview("-n", 5, val={"path": "texts.jsonl"})] == ["texts.jsonl (val)"] * 2


def test_a_subset_is_cut_across_shards(preview: Preview) -> None:
    found = preview("-n", 9, train={"path": "a", "subset": {"range": [2, 5]}})
    assert [key for key, _ in found] == ["shard_000.tar/000002", "shard_001.tar/000003", "shard_001.tar/000004"]


def test_an_index_counts_over_all_leaves(preview: Preview, datasets: Path, energon: RunEnergon) -> None:
    splits = {"train": [{"path": "a"}, {"path": "texts.jsonl"}]}
    assert preview("--index", 7, **splits) == [("texts.jsonl/1", "texts.jsonl (train)")]
    done = energon("preview", datasets / "mix.yaml", "--index", 8)
    assert done.code == 2
    assert "there are 8 samples, counted from 0" in done.err


def test_a_key_is_searched_in_all_leaves_within_their_subsets(
    preview: Preview, datasets: Path, energon: RunEnergon
) -> None:
    blend = [{"path": "a"}, {"path": "b", "subset": {"range": [0, 4]}}, {"path": "texts.jsonl"}]
    assert [origin for _, origin in preview("-n", 9, "000003", train=blend)] == ["a (train)", "b (train)"]
    assert [origin for _, origin in preview("-n", 9, "shard_001.tar/000004", train=blend)] == ["a (train)"]
    assert [origin for _, origin in preview("-n", 9, "000001", train=blend)] == ["a (train)", "b (train)"]
    assert preview("1", train=blend) == preview("texts.jsonl/1", train=blend)
    done = energon("preview", datasets / "mix.yaml", "000009")
    assert done.code == 1
    assert "no sample of these datasets has the key '000009'" in done.err


def test_shuffled_samples_are_drawn_by_weight_and_seed(preview: Preview) -> None:
    splits = {"train": [{"path": "a", "weight": 1}, {"path": "b", "weight": 1_000_000}]}
    found = preview("-n", 12, "--shuffle", **splits)
    assert Counter(origin for _, origin in found) == {"b (train)": 12}
    assert [set(Counter(key for key, _ in found[some]).values()) for some in (slice(6), slice(6, 12))] == [{1}, {1}]
    assert found == preview("-n", 12, "--shuffle", **splits)
    assert found != preview("-n", 12, "--shuffle", "--seed", 1, **splits)


def test_repetitions_and_sizes_are_weights_where_there_are_no_others(
    preview: Preview,
) -> None:
    blend = {"blend_epochized": [{"path": "a", "repetitions": 1_000_000}, {"path": "b"}]}
    assert {origin for _, origin in preview("-n", 12, "--shuffle", train=blend)} == {"a (train)"}


def test_excluded_samples_are_marked_as_in_a_dataset(datasets: Path, energon: RunEnergon, tmp_path: Path) -> None:
    split = copy_datasets(datasets, tmp_path) / "a/.nv-meta/split.yaml"
    split.write_text(split.read_text().replace("exclude: []", "exclude: [shard_000.tar/000000]"))
    done = energon("preview", write_mix(tmp_path / "copy", train={"path": "a"}), "--crude")
    assert "shard_000.tar/000000   sample 0 of 6, excluded" in done.out


@pytest.mark.parametrize(
    ("split", "code", "message"),
    [
        ({"path": "gone"}, 1, "this folder does not exist"),
        ({"path": "raw"}, 1, "run: energon prepare "),
        ({"path": "a", "split_part": "nope"}, 1, "there are: train, val, test"),
        ({"pth": "a"}, 1, "splits.train.pth: there is no such key; did you mean 'path'?"),
        ({"join": [{"path": "a"}, {"path": "b"}], "joiner": JOINER}, 1, "this join is not prepared"),
        ({"path": "a", "subset": {"range": ["0%", "1%"]}}, 1, "there are no samples to show"),
    ],
    ids=["gone", "unprepared", "part", "fault", "join", "empty"],
)
def test_a_mix_that_cannot_be_shown_is_an_error(
    datasets: Path, energon: RunEnergon, split: dict[str, Any], code: int, message: str
) -> None:
    done = energon("preview", write_mix(datasets, train=split))
    assert done.code == code
    assert message in done.err


def test_a_split_that_does_not_exist_is_an_error(datasets: Path, energon: RunEnergon) -> None:
    done = energon("preview", write_mix(datasets, train={"path": "a"}), "--split-parts", "vla")
    assert done.code == 1
    assert "there is no split 'vla'; there are: train" in done.err


def test_lines_that_changed_since_they_were_indexed_are_faults_and_do_not_end_it(
    datasets: Path, energon: RunEnergon, tmp_path: Path
) -> None:
    copy = copy_datasets(datasets, tmp_path)
    (copy / "texts.jsonl").write_text('{"text": "one" \n{"text": "two"}\n')
    done = energon("preview", write_mix(copy, train={"path": "texts.jsonl"}), "-n", 2)
    assert done.code == 1
    assert "expected one JSON object at bytes 0–16" in done.out
    assert '"text": "two"' in done.out


# ------------------------------------------------------------------------------------------------------------ joins


@pytest.fixture
def joined(datasets: Path) -> Callable[..., Path]:
    """Write a join of a and b in train, prepared."""

    def write(joiner: dict[str, str], members: list[dict[str, Any]] | None = None, **more: Any) -> Path:
        members = members or [{"path": "a"}, {"path": "b"}]
        mix = write_mix(datasets, "joined.yaml", train={"join": members, "joiner": joiner, **more})
        [leaf] = plan_leaves(mix, split_part="train", training=True)
        assert leaf.join is not None
        prepare_join(leaf.join)
        return mix

    return write


def test_a_join_is_shown_as_its_joiner_makes_it(joined: Callable[..., Path], energon: RunEnergon) -> None:
    done = energon("preview", joined({"__module__": __name__, "__class__": "Pair"}), "000003")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        "shard_001.tar/000003   sample 3 of 6 of its dataset",
        "from a join of a (train), b (train)",
        "  first   str, 16 characters",
        "    picture number 3",
        "  second  str, 16 characters",
        "    picture number 3",
    ]


def test_rows_are_counted_and_found_within_the_subset(joined: Callable[..., Path], energon: RunEnergon) -> None:
    mix = joined(JOINER, subset={"range": [2, 6]})
    assert "shard_000.tar/000002   sample 0 of 4\n" in energon("preview", mix, "--crude").out
    done = energon("preview", mix, "--crude", "000003")
    assert "shard_001.tar/000003   sample 1 of 4 of its dataset\n" in done.out
    assert energon("preview", mix, "--crude", "000001").code == 1


def test_members_with_names_are_given_to_the_joiner_by_these(joined: Callable[..., Path], energon: RunEnergon) -> None:
    joiner = {"__module__": __name__, "__function__": "pair_by_names"}
    done = energon("preview", joined(joiner, {"left": {"path": "a"}, "right": {"path": "b"}}))
    assert done.code == 0
    assert "  second  str, 16 characters" in done.out


def test_without_trust_the_members_are_shown_one_after_another(
    joined: Callable[..., Path], energon: RunEnergon
) -> None:
    mix = joined(JOINER)
    done = energon("preview", mix)
    assert done.code == 0
    assert "  0 a: image    float32 (3, 16, 24)" in done.out
    assert "  1 b: caption  str, 16 characters" in done.out
    assert "shown one after another, since --trust-code is not given" in done.out
    trusted = energon("preview", mix, "--trust-code")
    assert trusted.code == 1
    assert "no_such_module" in trusted.out
    assert "  1 b: caption  str, 16 characters" in trusted.out


def test_raw_parts_of_members_are_shown_whatever_the_joiner_is(
    joined: Callable[..., Path], energon: RunEnergon
) -> None:
    done = energon("preview", joined(JOINER, {"left": {"path": "a"}, "right": {"path": "b"}}), "--crude")
    assert done.code == 0
    assert "  left: jpg    JPEG 24×16 RGB" in done.out
    assert "  right: txt   text, 16 B" in done.out
    assert "trust" not in done.out


def test_a_member_without_a_key_is_marked(joined: Callable[..., Path], energon: RunEnergon) -> None:
    members = [{"path": "a"}, {"path": "b", "split_part": "val", "nonmatch": "none"}]
    done = energon("preview", joined(JOINER, members), "--crude")
    assert done.code == 0
    assert "  1 b        no sample has this key" in done.out
    done = energon("preview", joined({"__module__": __name__, "__class__": "Pair"}, members))
    assert "  second  none" in done.out


def test_a_failing_joiner_and_a_failing_sample_are_faults_shown_with_the_parts(
    joined: Callable[..., Path], energon: RunEnergon
) -> None:
    done = energon("preview", joined({"__module__": __name__, "__function__": "fail"}))
    assert done.code == 1
    assert "the joiner fails: ValueError: these do not fit" in done.out
    assert "  0 a: caption  str, 16 characters" in done.out
    broken = energon("preview", joined({"__module__": __name__, "__class__": "Pair"}), "--index", 4)
    assert broken.code == 1
    assert "part 'jpg'" in broken.out
    assert "not an image" in broken.out


# ------------------------------------------------------------------------------------------------ a folder of files


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Two images and a video with media metadata, and a text without."""
    (tmp_path / "sub").mkdir()
    (tmp_path / ".nv-meta").mkdir()
    known: dict[str, MediaMetadata] = {
        "b.png": ImageMetadata(width=24, height=16, format="PNG", mode="RGB"),
        "sub/a.jpg": ImageMetadata(width=24, height=16, format="JPEG", mode="RGB"),
        "c.mp4": AVMetadata(
            video_width=640, video_height=480, video_num_frames=75, video_fps=30.0, video_duration=2.5,
            audio_sample_rate=44100, audio_channels=2, audio_duration=2.52,
        ),
    }  # fmt: skip
    (tmp_path / "b.png").write_bytes(picture(1, form="PNG"))
    (tmp_path / "sub/a.jpg").write_bytes(picture(2))
    (tmp_path / "c.mp4").write_bytes(bytes(1000))
    (tmp_path / "notes.txt").write_text("not media")
    with closing(sqlite3.connect(tmp_path / ".nv-meta/index.sqlite")) as database, database:
        database.execute(
            "CREATE TABLE media_metadata (entry_key TEXT PRIMARY KEY, metadata_type TEXT NOT NULL, "
            "metadata_json TEXT NOT NULL)"
        )
        rows = [(name, *serialize_media_metadata(metadata)) for name, metadata in known.items()]
        database.executemany("INSERT INTO media_metadata VALUES (?, ?, ?)", rows)
    database.close()
    return tmp_path


def test_files_are_shown_as_pictures_or_by_their_metadata(files: Path, energon: RunEnergon) -> None:
    done = energon("preview", files, "-n", 9)
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[::3] == [
        "b.png   file 0 of 3", "c.mp4   file 1 of 3", "sub/a.jpg   file 2 of 3",
    ]  # fmt: skip
    assert "  b.png  PNG 24×16 RGB, " in done.out
    assert "  a.jpg  JPEG 24×16 RGB, " in done.out
    facts = "video 640×480, 75 frames, 30 frames/s, 2.50 s, audio 44,100 Hz, 2 channels, 2.52 s, 1.0 kB"
    assert f"  c.mp4  {facts}" in done.out


def test_one_file_is_shown_by_its_path(files: Path, energon: RunEnergon) -> None:
    assert energon("preview", files, "sub/a.jpg").out.startswith("sub/a.jpg   file 2 of 3\n")
    done = energon("preview", files, "notes.txt")
    assert (done.code, "no media metadata is known of the file 'notes.txt'" in done.err) == (1, True)
    assert energon("preview", files, "--split-parts", "train").code == 2


def test_a_missing_file_is_a_fault_and_the_others_are_shown(files: Path, energon: RunEnergon) -> None:
    (files / "b.png").unlink()
    done = energon("preview", files, "-n", 2)
    assert done.code == 1
    assert "c.mp4   file 1 of 3" in done.out
