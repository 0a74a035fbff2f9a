"""Read the parts of a prepared dataset by name."""

from __future__ import annotations

import io
import os
import pickle
import threading
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from loader import ConfigError, FormatError, SampleDecoder, SampleError, SourceInfo, StorageError, TextSample
from loader.dataset.open_files import OpenFiles
from loader.format.dataset_ref import DatasetRef
from loader.format.media.metadata import ImageMetadata, MediaFilter
from loader.prepare.plan import SplitRequest
from loader.stores import DatasetFileStore, DecodeFileStore, MissingFileError, PrimaryFileStore
from loader.stores.dataset_file_store import open_shared
from tests.e2e.dataset_tree import prepare, write_shard, write_tar

ALL_TRAIN = SplitRequest(ratio={"train": 1.0})


def write(folder: Path, **shards: dict[str, dict[str, bytes]]) -> Path:
    for name, samples in shards.items():
        write_shard(folder / f"parts/{name}.tar", samples)
    prepare(folder, split=ALL_TRAIN)
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(
        tmp_path / "dataset",
        s0={"a/1": {"txt": b"one", "seg.json": b"{}"}, "2.x/2": {"txt": b"two"}},
        s1={"3": {"txt": b"three"}, "both": {"txt": b"of s1", "jpg": b"picture"}},
        s2={"both": {"txt": b"of s2"}},
    )


@pytest.mark.parametrize(
    ("key", "value", "shard", "member"),
    [
        ("a/1.txt", b"one", "parts/s0.tar", "a/1.txt"),
        ("parts/s0.tar/a/1.txt", b"one", "parts/s0.tar", "a/1.txt"),
        ("a/1.seg.json", b"{}", "parts/s0.tar", "a/1.seg.json"),
        ("2.x/2.txt", b"two", "parts/s0.tar", "2.x/2.txt"),
        ("parts/s1.tar/3.txt", b"three", "parts/s1.tar", "3.txt"),
        ("parts/s2.tar/both.txt", b"of s2", "parts/s2.tar", "both.txt"),
    ],
)
def test_a_part_is_found_by_key_and_by_shard_and_key(
    folder: Path, key: str, value: bytes, shard: str, member: str
) -> None:
    store = DatasetFileStore(folder)
    assert store[key] == (value, SourceInfo(str(folder), member, shard, (member,)))


def test_a_key_of_two_shards_is_refused_with_both_names(folder: Path) -> None:
    with pytest.raises(MissingFileError) as caught:
        DatasetFileStore(folder)["both.txt"]
    assert caught.value.message == ("2 shards have 'both.txt': 'parts/s1.tar/both.txt' and 'parts/s2.tar/both.txt'")
    assert "write shard.tar/key.part: 'parts/s1.tar/both.txt'" in str(caught.value.hint)


def test_a_key_of_two_shards_is_found_by_a_part_that_only_one_has(folder: Path) -> None:
    assert DatasetFileStore(folder).get("both.jpg") == b"picture"


def test_what_reads_as_shard_and_key_is_that_before_it_is_a_key_with_slashes(tmp_path: Path) -> None:
    folder = write(tmp_path / "dataset", s0={"1": {"txt": b"by shard"}}, s1={"parts/s0.tar/1": {"txt": b"by key"}})
    store = DatasetFileStore(folder)
    assert store.get("parts/s0.tar/1.txt") == b"by shard"
    assert store.get("parts/s1.tar/parts/s0.tar/1.txt") == b"by key"


@pytest.mark.parametrize(
    ("key", "found"),
    [
        ("a/1.text", "key 'a/1' has no part 'text'; it has: txt, seg.json"),
        ("parts/s1.tar/3.jpg", "key 'parts/s1.tar/3' has no part 'jpg'; it has: txt"),
        ("9.txt", "there is no key '9' in this dataset; its first key is 'a/1'"),
        ("a/1", "'a/1' does not name a part: expected key.part or shard.tar/key.part"),
        ("a/.txt", "'a/.txt' does not name a part: expected key.part or shard.tar/key.part"),
        ("\ud800.txt", "there is no key '\\ud800' in this dataset; its first key is 'a/1'"),
    ],
    ids=["part", "part-in-shard", "key", "no-part", "no-key", "surrogate"],
)
def test_a_missing_part_is_told_with_what_there_is(folder: Path, key: str, found: str) -> None:
    with pytest.raises(MissingFileError) as caught:
        DatasetFileStore(folder)[key]
    assert caught.value.message == found
    assert str(folder) in str(caught.value)


@pytest.mark.parametrize("kind", [KeyError, FileNotFoundError, SampleError])
def test_code_for_dicts_and_for_folders_catches_what_is_missing(folder: Path, kind: Any) -> None:
    with pytest.raises(kind):
        DatasetFileStore(folder)["9.txt"]
    error = pickle.loads(pickle.dumps(MissingFileError("gone", key="9", part="txt")))
    assert (str(error), error.key, error.part) == ("gone", "9", "txt")


@pytest.mark.parametrize("sample", [{}, {"__sources__": None}, TextSample(__key__="1", text="x")], ids=type)
def test_get_appends_the_sources_to_a_sample(folder: Path, sample: Any) -> None:
    store = DatasetFileStore(folder)
    store.get("a/1.txt", sample)
    store.get("3.txt", sample)
    sources = sample["__sources__"] if isinstance(sample, dict) else sample.__sources__
    assert [source.file_names for source in sources] == [("a/1.txt",), ("3.txt",)]


def test_excluded_samples_are_served_too(folder: Path) -> None:
    (folder / ".nv-meta/split.yaml").write_text("split_parts: {train: []}\nexclude: [parts/s0.tar, parts/s1.tar/3]\n")
    store = DatasetFileStore(folder)
    assert [store.get("a/1.txt"), store.get("3.txt")] == [b"one", b"three"]


def test_of_a_member_that_is_there_twice_the_last_one_counts(tmp_path: Path) -> None:
    write_tar(tmp_path / "s.tar", [("1.txt", b"first"), ("1.jpg", b"x"), ("1.txt", b"last")])
    prepare(tmp_path, split=ALL_TRAIN)
    assert DatasetFileStore(tmp_path).get("1.txt") == b"last"


def test_the_stores_of_a_dataset_share_what_is_open_until_it_is_prepared_again(folder: Path) -> None:
    store, again = DatasetFileStore(folder), DatasetFileStore(str(folder))
    assert store == again
    assert hash(store) == hash(again)
    ref = DatasetRef(str(folder))
    assert open_shared(ref) is open_shared(ref) is store._dataset()
    write_shard(folder / "parts/s0.tar", {"a/1": {"txt": b"other"}})
    prepare(folder, split=ALL_TRAIN)
    assert DatasetFileStore(folder).get("a/1.txt") == b"other"


def test_media_metadata_is_found_by_the_same_keys(tmp_path: Path) -> None:
    image = io.BytesIO()
    Image.new("RGB", (5, 4)).save(image, "png")
    write_shard(tmp_path / "s.tar", {"1": {"png": image.getvalue(), "txt": b"a text"}})
    prepare(tmp_path, split=ALL_TRAIN, media=MediaFilter(strategy="HEADER"))
    store = DatasetFileStore(tmp_path)
    expected = ImageMetadata(width=5, height=4, format="PNG", mode="RGB")
    assert store.get_media_metadata("1.png") == store.get_media_metadata("s.tar/1.png") == expected
    primary = PrimaryFileStore(DecodeFileStore(store, decoder=SampleDecoder()), "s.tar/1")
    assert primary.get_media_metadata(".png") == expected
    with pytest.raises(SampleError, match=r"there is no media metadata of '1\.txt'"):
        store.get_media_metadata("1.txt")
    with pytest.raises(MissingFileError, match="there is no key '2'"):
        store.get_media_metadata("2.png")


def test_media_metadata_that_was_not_collected_is_told_with_the_command(folder: Path) -> None:
    with pytest.raises(ConfigError, match="no media metadata was collected here") as caught:
        DatasetFileStore(folder).get_media_metadata("a/1.txt")
    assert "energon prepare --media-metadata-by-header" in str(caught.value.hint)


def test_a_pickled_store_leaves_behind_what_is_open(folder: Path) -> None:
    store = DatasetFileStore(folder)
    store.get("3.txt")
    text = pickle.dumps(store)
    assert len(text) < 300
    assert pickle.loads(text).get("a/1.txt") == b"one"


def test_a_forked_process_reads_with_what_its_parent_has_open(folder: Path) -> None:
    store = DatasetFileStore(folder)
    store.get("3.txt")
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            values = [store.get(key) for key in ["3.txt", "a/1.txt", "parts/s2.tar/both.txt"] * 50]
            code = int(values != [b"three", b"one", b"of s2"] * 50)
        finally:
            os._exit(code)
    assert [store.get(key) for key in ["2.x/2.txt", "3.txt"] * 50] == [b"two", b"three"] * 50
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_a_shard_that_changed_since_it_was_indexed_is_told(folder: Path) -> None:
    store = DatasetFileStore(folder)
    write_shard(folder / "parts/s1.tar", {"3": {"txt": b"three"}, **{str(n): {"txt": bytes(9000)} for n in range(9)}})
    with pytest.raises(FormatError, match="the shard has changed since it was indexed"):
        store["3.txt"]


def test_a_folder_that_is_not_prepared_is_told(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="this folder is not a prepared dataset"):
        DatasetFileStore(tmp_path)


def test_threads_read_while_shards_are_closed_behind_them(tmp_path: Path) -> None:
    """Of 12 shards only 2 stay open: a file is closed when no thread reads from it any more, not before."""
    shards = {f"s{n:02d}": {f"{n:02d}": {"bin": bytes([n]) * 70_000}} for n in range(12)}
    folder = write(tmp_path / "dataset", **shards)
    store = DatasetFileStore(folder)
    opened = store._dataset()
    opened._files = OpenFiles(2)
    faults: list[object] = []

    def read(first: int) -> None:
        try:
            for step in range(150):
                number = (first + step * 5) % 12
                if store.get(f"{number:02d}.bin") != bytes([number]) * 70_000:
                    faults.append(number)
        except Exception as error:  # noqa: BLE001 - any error of a thread is a fault
            faults.append(error)

    threads = [threading.Thread(target=read, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults
    assert len(opened._files) == 2
    if os.path.isdir("/proc/self/fd"):  # not on macOS
        assert len([1 for fd in os.listdir("/proc/self/fd") if _target(fd).startswith(f"{folder}/")]) == 2


def _target(fd: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return ""
