"""``EPath`` does with objects what it does with files."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from loader import EPath, StorageError
from tests.remote.urls.bucket import Bucket

FILES = (
    "a.tar", "b.tar", "b.tar.idx", "x/a.tar", "x/y/a.tar", "x/y/z/a.txt", "x.d/a.tar", ".hidden/a.tar", "x/.h.tar",
    "x/[1].tar", "x/1.tar", "x/y!.tar", "img-1.jpg", "img-2.jpg", "img-10.jpg", "x-y/a.tar",
    "ümlaut/ö.tar", "sp ace/+&=.tar",
)  # fmt: skip
PATTERNS = (
    "*", "*.tar", "**/*.tar", "**", "x/*", "x/**", "x/*/a.*", "**/y/*", "../tree/*.tar", ".*/*", "x/.*", "x/[[]1].tar",
    "img-[0-9].jpg", "img-[!1].jpg", "img-?.jpg", "img-??.jpg", "x/y!.tar", "no/*", "x", "x/", "x/y/z/a.txt", "*/",
    "**/", "**/**/a.tar", "x**", "ü*/*", "* */*", "x/[0-9", "./*.tar",
)  # fmt: skip


@pytest.fixture
def tree(bucket: Bucket) -> tuple[Path, EPath]:
    folder = bucket.folder / "tree"
    for name in FILES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"text of {name}")
    return folder, EPath("s3://b/tree")


@pytest.mark.usefixtures("direct")
@pytest.mark.parametrize("pattern", PATTERNS)
def test_globs_are_those_of_a_folder(tree: tuple[Path, EPath], pattern: str) -> None:
    folder, url = tree
    expected = dict.fromkeys(path.relative_to(folder.parent) for path in EPath(folder).glob(pattern))
    assert [path.relative_to("s3://b") for path in url.glob(pattern)] == list(expected)


def test_a_glob_lists_only_below_its_fixed_folders(tree: tuple[Path, EPath], bucket: Bucket) -> None:
    bucket.server.requests.clear()
    list(tree[1].glob("x/y/**/*.txt"))
    assert [request.query.split("prefix=")[1].split("&")[0] for request in bucket.server.requests] == [
        "tree%2Fx%2Fy%2F"
    ]


def test_facts_are_those_of_files(tree: tuple[Path, EPath]) -> None:
    folder, url = tree
    local = EPath(folder)
    assert [path.relative_to(url) for path in url.walk()] == [path.relative_to(local) for path in local.walk()]
    for name in (*FILES, "x", "no", "x/y", "x/no.tar", "a"):
        here, there = local / name, url / name
        assert (there.exists(), there.is_file(), there.is_dir()) == (here.exists(), here.is_file(), here.is_dir()), name
    for name in FILES:
        assert (url / name).size() == (local / name).size()
        assert (url / name).read_text() == (local / name).read_text()
    status = (url / "a.tar").stat()
    assert (status.content_length, status.type, status.key) == (13, "file", "s3://b/tree/a.tar")
    assert abs(status.last_modified.timestamp() - (folder / "a.tar").stat().st_mtime) < 1
    assert (url / "x").stat().type == (local / "x").stat().type == "directory"
    assert EPath("s3://b").is_dir()
    assert not EPath("s3://b").is_file()


@pytest.mark.usefixtures("direct")
@pytest.mark.parametrize("method", ["size", "stat", "open", "read_text", "read_bytes", "local_path", "unlink"])
def test_a_missing_object_is_a_missing_file(tree: tuple[Path, EPath], method: str) -> None:
    with pytest.raises((FileNotFoundError, StorageError), match="does not exist") as caught:
        getattr(tree[1] / "no.tar", method)()
    assert isinstance(caught.value, FileNotFoundError) or isinstance(caught.value.__cause__, FileNotFoundError)


def test_objects_are_written_copied_moved_and_removed(tree: tuple[Path, EPath], tmp_path: Path) -> None:
    folder, url = tree
    (url / "new/text.txt").write_text("täxt\n")
    (url / "new/bytes.bin").write_bytes(bytes(range(256)))
    with (url / "new/opened.txt").open("w") as file:
        file.write("one\n")
        file.write("two\n")
    assert (folder / "new/text.txt").read_text() == "täxt\n"
    assert (url / "new/bytes.bin").read_bytes() == (folder / "new/bytes.bin").read_bytes() == bytes(range(256))
    with (url / "new/opened.txt").open() as lines:
        assert list(lines) == ["one\n", "two\n"]
    with (url / "new/bytes.bin").open("rb") as data:
        data.seek(-3, 2)
        assert data.read() == bytes([253, 254, 255])
        data.seek(10)
        assert data.read(2) == bytes([10, 11])
    (url / "new/text.txt").copy(tmp_path / "down/text.txt")
    EPath(tmp_path / "down/text.txt").copy(url / "up/text.txt")
    (url / "up/text.txt").move(url / "moved.txt")
    assert (tmp_path / "down/text.txt").read_text() == (folder / "moved.txt").read_text() == "täxt\n"
    assert not (folder / "up/text.txt").exists()
    (url / "moved.txt").unlink()
    (url / "moved.txt").unlink(missing_ok=True)
    assert not (url / "moved.txt").exists()
    (url / "folder").mkdir()
    assert (url / "new/bytes.bin").local_path().read_bytes() == bytes(range(256))


@pytest.mark.parametrize("mode", ["w", "wb", "x"])
def test_a_file_whose_block_fails_is_not_stored(tree: tuple[Path, EPath], mode: str) -> None:
    folder, url = tree

    def fail() -> None:
        with (url / "half").open(mode) as file:
            file.write(b"half" if "b" in mode else "half")
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        fail()
    assert not (folder / "half").exists()


def test_modes_that_objects_do_not_have_are_refused(tree: tuple[Path, EPath]) -> None:
    with pytest.raises(FileExistsError):
        (tree[1] / "a.tar").open("x")
    for mode in ("a", "r+", "w+b"):
        with pytest.raises(ValueError, match="expected a mode"):
            (tree[1] / "a.tar").open(mode)


def test_a_whole_object_is_read_by_one_request(tree: tuple[Path, EPath], bucket: Bucket) -> None:
    assert bucket.requests((tree[1] / "a.tar").read_text) == ["GET tree/a.tar"]


def test_a_path_travels_without_a_client(tree: tuple[Path, EPath]) -> None:
    path = tree[1] / "a.tar"
    assert path.is_file()
    assert pickle.loads(pickle.dumps(path)) == path
    assert b"planted" not in pickle.dumps(path)
