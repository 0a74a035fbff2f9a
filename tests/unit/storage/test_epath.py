"""``EPath``, which is accepted wherever a path is."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

from loader import ConfigError, EPath

REMOTE = "msc://profile/bucket/ds"


@pytest.mark.parametrize(
    "given",
    [
        "/data/coco",
        Path("/data/coco"),
        EPath("/data/coco"),
        "/data/x/../coco/",
        "file:///data/coco",
        "msc://__filesystem__/data/coco",
    ],
)
def test_what_stands_for_a_path_makes_the_same_one(given: str | EPath | Path) -> None:
    path = EPath(given)
    assert (str(path), os.fspath(path), path.url) == ("/data/coco",) * 3
    assert path.is_local()
    assert path == EPath("/data/coco")
    assert hash(path) == hash(EPath("/data/coco"))


def test_a_relative_path_is_made_absolute_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = EPath("a/../b")
    monkeypatch.chdir("/")
    assert path == EPath(tmp_path / "b")


def test_paths_are_joined_and_taken_apart() -> None:
    path = EPath("/data") / "coco" / Path("sub/s_0.tar")
    assert path == EPath("/data/coco/sub/s_0.tar")
    assert (path.name, path.stem, path.suffix) == ("s_0.tar", "s_0", ".tar")
    assert path.parent == EPath("/data/coco/sub")
    assert path.relative_to("/data") == "coco/sub/s_0.tar"
    assert path.with_suffix(".tar.idx").name == "s_0.tar.idx"
    assert path.with_name("x") == EPath("/data/coco/sub/x")
    assert path / "/elsewhere" == EPath("/elsewhere")
    assert path / "../../x" == EPath("/data/coco/x")
    with pytest.raises(ValueError, match="not"):
        path.relative_to("/other")


def test_paths_can_be_sorted_and_pickled() -> None:
    paths = [EPath("/b"), EPath("/a/z"), EPath(REMOTE)]
    assert sorted(paths) == [EPath("/a/z"), EPath("/b"), EPath(REMOTE)]
    assert pickle.loads(pickle.dumps(paths)) == paths
    assert EPath("/a") <= EPath("/a") < EPath("/b") <= EPath("/b") > EPath("/a") >= EPath("/a")
    assert EPath("/a") != "/a"
    with pytest.raises(TypeError):
        EPath("/a") < "/b"  # noqa: B015


def test_files_are_read_written_moved_and_removed(tmp_path: Path) -> None:
    folder = EPath(tmp_path) / "new"
    folder.mkdir()
    file = folder / "a.txt"
    file.write_text("ä cat")
    assert file.is_file()
    assert file.exists()
    assert folder.is_dir()
    assert not folder.is_file()
    assert (file.read_text(), file.read_bytes(), file.size()) == ("ä cat", "ä cat".encode(), 6)
    with file.open() as opened:
        assert opened.read() == "ä cat"
    with file.open("wb") as opened:
        opened.write(b"x")
    file.move(folder / "b.txt")
    (folder / "c.bin").write_bytes(b"\0")
    (folder / "sub/deep").mkdir(parents=True)
    (folder / "c.bin").copy(folder / "sub/deep/d.bin")
    assert list(folder.glob("*")) == [folder / name for name in ("b.txt", "c.bin", "sub")]
    assert [found.name for found in folder.walk()] == ["b.txt", "c.bin", "d.bin"]
    assert file.local_path() == tmp_path / "new/a.txt"
    (folder / "b.txt").unlink()
    assert not (folder / "b.txt").exists()
    (folder / "b.txt").unlink(missing_ok=True)
    with pytest.raises(FileNotFoundError):
        (folder / "b.txt").read_text()


def test_a_url_of_another_machine_is_a_value_like_others() -> None:
    path = EPath(REMOTE) / "s_0.tar"
    assert (str(path), path.url, os.fspath(path)) == (f"{REMOTE}/s_0.tar",) * 3
    assert (path.name, path.parent) == ("s_0.tar", EPath(REMOTE))
    assert path.relative_to(REMOTE) == "s_0.tar"
    assert not path.is_local()
    assert path / "../t" == EPath(REMOTE) / "t"
    assert EPath("msc://profile").parent == EPath("msc://profile")
    assert EPath("/data") / path == path
    with pytest.raises(ValueError, match="is not below"):
        path.relative_to("/profile/bucket")


@pytest.mark.parametrize("method", ["exists", "is_file", "is_dir", "size", "open", "read_text", "local_path", "unlink"])
def test_looking_at_the_file_of_a_url_says_what_is_missing(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MSC_CONFIG", "/no/such/config.yaml")
    with pytest.raises(ConfigError, match="cannot use the profile 'profile'") as caught:
        getattr(EPath(REMOTE), method)()
    assert str(caught.value.at).startswith("msc://profile")
    assert "MSC_CONFIG" in str(caught.value)


# A pickle of megatron-energon 7.4.1: EPath("/a/b").
PICKLE = (
    b"\x80\x04\x95\x8c\x00\x00\x00\x00\x00\x00\x00\x8c\x1fmegatron.energon.epathlib.epath\x94\x8c\x05EPath\x94\x93\x94)"
    b"\x81\x94}\x94(\x8c\rinternal_path\x94\x8c\x07pathlib\x94\x8c\rPurePosixPath\x94\x93\x94\x8c\x01/\x94\x8c\x01a\x94"
    b"\x8c\x01b\x94\x87\x94R\x94\x8c\x07profile\x94\x8c\x0e__filesystem__\x94ub."
)


def test_a_pickle_of_megatron_energon_is_read() -> None:
    assert pickle.loads(PICKLE) == EPath("/a/b")
    assert (EPath("/a/b").profile, EPath(REMOTE).profile, EPath("s3://bucket/a").profile) == (
        "__filesystem__", "profile", "",
    )  # fmt: skip
    assert pickle.loads(PICKLE.replace(b"__filesystem__", b"my_object_prof")).url == "msc://my_object_prof/a/b"


def test_writing_creates_missing_folders(tmp_path: Path) -> None:
    root = EPath(tmp_path)
    (root / "a/b/text.txt").write_text("text")
    (root / "c/d/bytes.bin").write_bytes(b"bytes")
    with (root / "e/f/opened.txt").open("w") as file:
        file.write("opened")
    (root / "a/b/text.txt").copy(root / "g/h/copy.txt")
    (root / "e/f/opened.txt").move(root / "i/j/moved.txt")
    (root / "k/l").mkdir()
    assert [file.relative_to(root) for file in root.walk()] == [
        "a/b/text.txt", "c/d/bytes.bin", "g/h/copy.txt", "i/j/moved.txt",
    ]  # fmt: skip
    assert (root / "k/l").is_dir()
    with pytest.raises(FileNotFoundError):
        (root / "m/n.txt").open()
    assert not (root / "m").is_dir()


def test_status_of_files_and_folders(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("abc")
    status = (EPath(tmp_path) / "a.txt").stat()
    assert (status.key, status.content_length, status.type) == (str(tmp_path / "a.txt"), 3, "file")
    assert status.last_modified.timestamp() == pytest.approx((tmp_path / "a.txt").stat().st_mtime)
    assert (EPath(tmp_path).stat().content_length, EPath(tmp_path).stat().type) == (0, "directory")
    with pytest.raises(FileNotFoundError):
        (EPath(tmp_path) / "missing").stat()


def test_patterns_with_parents_and_hidden_files(tmp_path: Path) -> None:
    for name in ("a/x.txt", "a/.hidden/y.txt", "a/[0].txt", "b/.z.txt"):
        (EPath(tmp_path) / name).write_text("")
    folder = EPath(tmp_path) / "a"
    assert list(folder.glob("../a/x*")) == [folder / "x.txt"]
    assert list((EPath(tmp_path) / "b" / "..").glob("a/*.txt")) == [folder / "[0].txt", folder / "x.txt"]
    assert list(EPath(tmp_path).glob("**")) == sorted(
        [EPath(tmp_path), folder, folder / "x.txt", folder / "[0].txt", EPath(tmp_path) / "b"]
    )
    assert len(list(EPath(tmp_path).walk())) == 4


def test_a_walk_follows_links_to_folders_but_not_in_circles(tmp_path: Path) -> None:
    for name in ("a/b/x.txt", "a/.hidden/y.txt", "other/z.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "a/link").symlink_to("../other")
    (tmp_path / "a/b/up").symlink_to("..")
    (tmp_path / "a/file").symlink_to("b/x.txt")
    folder = EPath(tmp_path / "a")
    names = [path.relative_to(folder) for path in folder.walk()]
    assert names == [".hidden/y.txt", "b/x.txt", "file", "link/z.txt"]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("msc://p/b/../c/./x", "msc://p/c/x"),
        ("s3://bucket/a/..", "s3://bucket"),
        ("https://host/./x", "https://host/x"),
    ],
)
def test_dots_of_urls_are_resolved(written: str, expected: str) -> None:
    assert str(EPath(written)) == expected


@pytest.mark.parametrize("written", ["msc://p/../../x", "s3://user:planted@bucket/../x"])
def test_a_url_that_leads_out_of_its_bucket_is_refused(written: str) -> None:
    with pytest.raises(ConfigError, match="leads out of the bucket") as caught:
        EPath(written)
    assert "planted" not in str(caught.value)


def test_a_path_holds_no_credentials() -> None:
    with pytest.raises(ConfigError, match="must not hold credentials") as caught:
        EPath("s3://user:planted@bucket/x")
    assert "planted" not in str(caught.value)


def test_urls_of_rclone_are_those_of_its_profiles() -> None:
    with pytest.warns(FutureWarning, match="write msc://"):
        path = EPath("rclone://profile/bucket/ds")
    assert path == EPath(REMOTE)


def test_a_version_of_a_dataset_keeps_the_form_of_its_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "coco/v1/sub").mkdir(parents=True)
    (tmp_path / "coco/v1/sub/x.txt").write_text("cat")
    monkeypatch.setenv("NVDATASET_CACHE_DIR", str(tmp_path))
    root = EPath("dss://coco@v1/")
    assert [str(path) for path in root.walk()] == ["dss://coco@v1/sub/x.txt"]
    assert [str(path) for path in root.glob("**/*")] == ["dss://coco@v1/sub", "dss://coco@v1/sub/x.txt"]
    path = root / "sub/../sub/x.txt"
    assert pickle.loads(pickle.dumps(path)) == EPath(path) == root / path == EPath("dss://coco@v1/sub/x.txt")
    assert (path.is_local(), path.read_text(), os.fspath(path)) == (True, "cat", str(tmp_path / "coco/v1/sub/x.txt"))
    path.copy(root / "copies/y.txt")
    assert EPath(tmp_path / "coco/v1/copies/y.txt").read_text() == "cat"
    with pytest.raises(ConfigError, match="NAME@VERSION"):
        EPath("dss://coco/x")
    monkeypatch.delenv("NVDATASET_CACHE_DIR")
    with pytest.raises(ConfigError, match="NVDATASET_CACHE_DIR is not set"):
        path.read_text()
