"""Import reads no file that its user has not named, whatever tables, documents and links say."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from loader.convert.importing.plan import ImportPlan, list_rows
from loader.convert.importing.run import run_import
from loader.convert.rows.file_access import FileAccess
from loader.convert.rows.row import FaultRef
from loader.convert.rows.shard_layout import ShardLayout
from loader.convert.sources import SourceOptions, open_sources
from loader.errors import ConfigError
from tests.cli.run_energon import RunEnergon
from tests.cli.terminal import DOWN, ENTER, TerminalRun
from tests.unit.convert.importing.test_run import jpeg, samples_of

SECRET = b"\xff\xd8\xff a secret, named like a picture"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with a secret, and a folder ``data`` with a picture that a stranger's table may name."""
    (tmp_path / "home/data/images").mkdir(parents=True)
    (tmp_path / "home/secret.jpg").write_bytes(SECRET)
    (tmp_path / "home/data/a.jpg").write_bytes(jpeg(1))
    (tmp_path / "home/data/images/inner.jpg").symlink_to("../a.jpg")
    (tmp_path / "home/data/link.jpg").symlink_to(tmp_path / "home/secret.jpg")
    (tmp_path / "home/data/up").symlink_to(tmp_path / "home")
    return tmp_path / "home"


def named_secrets(home: Path) -> list[str]:
    """Return names of the secret, as a table or document may have them."""
    secret = str(home / "secret.jpg")
    return [
        secret,
        f"file://{secret}",
        f"file://localhost{secret}",
        f"file://{secret.replace('secret', '%73ecret')}",
        "../secret.jpg",
        "images/../../secret.jpg",
        "up/secret.jpg",
        "up/data/../secret.jpg",  # behind a link, ".." is another folder than the text says
        "link.jpg",
        f"/proc/self/root{secret}",
        f"/{secret}",
        f"{home}/data/../secret.jpg",
    ]


def write_csv(data: Path, names: list[str]) -> Path:
    with open(data / "t.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("image", "caption"), *((name, f"number {n}") for n, name in enumerate(names))])
    return data / "t.csv"


def write_json_lines(data: Path, names: list[str]) -> Path:
    (data / "t.jsonl").write_text("".join(json.dumps({"image": name, "caption": "a text"}) + "\n" for name in names))
    return data / "t.jsonl"


def write_metadata(data: Path, names: list[str]) -> Path:
    lines = (json.dumps({"file_name": name, "text": "a text"}) + "\n" for name in names)
    (data / "metadata.jsonl").write_text("".join(lines))
    return data


def write_coco(data: Path, names: list[str]) -> Path:
    images = [{"id": number, "file_name": name} for number, name in enumerate(names)]
    captions = [{"id": number, "image_id": number, "caption": "a text"} for number in range(len(names))]
    (data / "captions.json").write_text(json.dumps({"images": images, "annotations": captions}))
    return data / "captions.json"


def write_chats(data: Path, names: list[str]) -> Path:
    turns = [{"from": "human", "value": "<image>\nwhat?"}, {"from": "gpt", "value": "that"}]
    documents = [{"id": str(n), "image": name, "conversations": turns} for n, name in enumerate(names)]
    (data / "chat.json").write_text(json.dumps(documents))
    return data / "chat.json"


def write_vqa(data: Path, names: list[str]) -> Path:
    questions = [{"image": name, "question": "what?", "answer": "that"} for name in names]
    (data / "vqa.json").write_text(json.dumps(questions))
    return data / "vqa.json"


def write_documents(data: Path, names: list[str]) -> Path:
    lines = (json.dumps({"texts": ["a text", None], "images": [None, name]}) + "\n" for name in names)
    (data / "docs.jsonl").write_text("".join(lines))
    return data / "docs.jsonl"


def write_document_files(data: Path, names: list[str]) -> Path:
    write_documents(data, names)
    return data


def write_parquet(data: Path, names: list[str], depth: int | None = None) -> Path:
    """Write a column of paths, of structs with them (``depth`` 0), or of lists of such structs (1)."""
    pa = pytest.importorskip("pyarrow")
    media = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    structs = [{"bytes": None, "path": name} for name in names]
    lists = pa.array([[one] for one in structs], pa.list_(media))
    columns = {None: pa.array(names), 0: pa.array(structs, media), 1: lists}
    table = pa.table({"image": columns[depth], "n": range(len(names))})
    pytest.importorskip("pyarrow.parquet").write_table(table, data / "t.parquet")
    return data / "t.parquet"


def write_structs(data: Path, names: list[str]) -> Path:
    return write_parquet(data, names, 0)


def write_struct_lists(data: Path, names: list[str]) -> Path:
    return write_parquet(data, names, 1)


WRITERS = [
    write_csv,
    write_json_lines,
    write_metadata,
    write_coco,
    write_chats,
    write_vqa,
    write_documents,
    write_document_files,
    write_parquet,
    write_structs,
    write_struct_lists,
]


def contents_of(folder: Path) -> list[bytes]:
    return [data for parts in samples_of(folder).values() for data in parts.values()]


def sources_of(path: Path, *, kind: str | None = None, **allowed: bool) -> Any:
    return open_sources([str(path)], kind=kind, options=SourceOptions(access=FileAccess(**allowed)))


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("shuffled", [False, True])
def test_rows_that_name_files_outside_fail_by_a_reason(
    write: Callable[[Path, list[str]], Path], shuffled: bool, home: Path, tmp_path: Path
) -> None:
    names = ["a.jpg", *named_secrets(home)]
    path = write(home / "data", names)
    kind = "interleaved" if write in (write_documents, write_document_files) else None
    sources = sources_of(path, kind=kind)
    layout = ShardLayout(shuffle_seed=1 if shuffled else None)
    plan = ImportPlan(sources=sources, output=str(tmp_path / "out"), max_failures=99, layout=layout)
    report = run_import(plan)
    assert [failure.code for failure in report.failures] == ["F105"] * len(named_secrets(home))
    assert report.failures[0].reason.count("outside of") == 1
    assert jpeg(1) in contents_of(tmp_path / "out")
    assert not any(SECRET in shard.read_bytes() for shard in (tmp_path / "out").glob("*.tar"))


@pytest.mark.parametrize("write", WRITERS)
def test_the_user_may_allow_files_outside(write: Callable[[Path, list[str]], Path], home: Path, tmp_path: Path) -> None:
    path = write(home / "data", ["a.jpg", str(home / "secret.jpg")])
    kind = "interleaved" if write in (write_documents, write_document_files) else None
    sources = sources_of(path, kind=kind, allow_outside=True)
    run_import(ImportPlan(sources=sources, output=str(tmp_path / "out")))
    assert SECRET in contents_of(tmp_path / "out")


@pytest.mark.parametrize("write", [w for w in WRITERS if w is not write_struct_lists])
def test_scripts_end_before_they_write_and_name_the_folder_and_the_flags(
    write: Callable[[Path, list[str]], Path], home: Path, tmp_path: Path, energon: RunEnergon
) -> None:
    (home / "more").mkdir()
    (home / "more/b.jpg").write_bytes(jpeg(2))
    path = write(home / "data", ["a.jpg", str(home / "secret.jpg"), f"file://{home}/more/b.jpg"])
    kind = ("--from", "interleaved") if write in (write_documents, write_document_files) else ()
    (home / "data/link.jpg").unlink()
    (home / "data/up").unlink()
    for flags in (("--yes",), ("--dry-run",), ()):
        done = energon("import", path, tmp_path / "out", *flags, *kind)
        assert done.code == 2, done.err
        assert f"2 paths of tables lead out of their folders, to {home}, such as {home}/secret.jpg" in done.err
        assert f"--root {home} names that folder" in done.err
        assert "--allow-outside" in done.err
        assert not (tmp_path / "out").exists()


def test_the_wizard_asks_and_lists_again_if_files_are_allowed(home: Path, tmp_path: Path) -> None:
    path = write_csv(home / "data", ["a.jpg", str(home / "secret.jpg")])
    output = tmp_path / "out"
    with TerminalRun("import", path, output, "--sample-type", "CrudeWebdataset", rows=40, columns=200) as run:
        run.wait_for("1 path of a table leads out of its folder").wait_for("let their rows fail").press(DOWN, ENTER)
        run.wait_for("How should the 2 samples be split?").press(ENTER).wait_for("» y").press("y")
        run.wait_for("imported to")
    assert SECRET in contents_of(output)


def test_the_named_root_is_the_folder_that_paths_may_not_leave(home: Path, tmp_path: Path, energon: RunEnergon) -> None:
    (home / "more").mkdir()
    (home / "more/b.jpg").write_bytes(jpeg(2))
    path = write_csv(home / "data", [f"{home}/more/b.jpg", "b.jpg", "../secret.jpg", "../secret.jpg"])
    flags = ("--yes", "--root", home / "more", "--max-failures", 9)
    found = energon("import", path, tmp_path / "out", *flags, "--json").json
    assert (found["samples"], [failure["code"] for failure in found["failures"]]) == (2, ["F105", "F105"])
    done = energon("import", path, tmp_path / "all", "--yes", "--root", "/", "--max-failures", 9)
    assert done.code == 0, done.err  # "/" contains everything


def test_rows_with_refused_paths_fail_if_the_flag_says_so(home: Path, tmp_path: Path, energon: RunEnergon) -> None:
    path = write_csv(home / "data", ["a.jpg", str(home / "secret.jpg")])
    found = energon("import", path, tmp_path / "out", "--no-allow-outside", "--yes", "--max-failures", 1, "--json").json
    [failure] = found["failures"]
    assert (found["samples"], failure["code"]) == (1, "F105")
    assert str(home / "secret.jpg") in failure["reason"]


ODD_NAMES = [
    "a.jpg\0",
    "a\0/b.jpg",
    "~/secret.jpg",
    "C:\\secret.jpg",
    "..\\secret.jpg",
    "file:///%2e%2e/secret.jpg",
    "\N{ONE DOT LEADER}\N{ONE DOT LEADER}/secret.jpg",
    "file://[bad/secret.jpg",
    "dss://a@b/secret.jpg",
    "s3:/b/c.jpg",
    "FILE:///secret.jpg",
    "local:///secret.jpg",
    "up/../../secret.jpg",
    "a/" * 5000 + "b.jpg",
    "x" * 300 + ".jpg",
]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_odd_names_fail_their_row_alone(name: str, home: Path, tmp_path: Path) -> None:
    sources = sources_of(write_json_lines(home / "data", ["a.jpg", name]))
    report = run_import(ImportPlan(sources=sources, output=str(tmp_path / "out"), max_failures=1))
    assert report.failed == 1
    assert report.failures[0].code in ("F101", "F102", "F105", "F106")
    assert not any(SECRET in data for data in contents_of(tmp_path / "out"))


def test_a_url_of_a_store_cannot_be_left_by_dots(home: Path) -> None:
    path = str(write_csv(home / "data", ["../other/a.jpg", "/etc/a.jpg"]))
    sources = open_sources([path], kind=None, options=SourceOptions(root="s3://bucket/pictures"))
    with list_rows(sources, shuffled=False) as listed:
        refused = [listed.rows[number].parts["jpg"] for number in range(2)]
    assert [part.code for part in refused if isinstance(part, FaultRef)] == ["F105", "F105"]


# -------------------------------------------------------------------------------------------------- links of folders


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    (folder / "inner").mkdir(parents=True)
    (folder / "a.jpg").write_bytes(jpeg(1))
    (folder / "a.txt").write_text("a caption")
    (folder / "inner/b.jpg").write_bytes(jpeg(2))
    (folder / "inner/c.jpg").symlink_to("../a.jpg")
    (folder / "loop").symlink_to(folder)
    (tmp_path / "private/notes").mkdir(parents=True)
    (tmp_path / "private/notes/d.jpg").write_bytes(jpeg(3))
    return folder


def test_links_out_of_a_folder_end_scripts_before_they_write(photos: Path, tmp_path: Path, energon: RunEnergon) -> None:
    (photos / "notes").symlink_to(tmp_path / "private/notes")
    (photos / "inner/e.jpg").symlink_to("../../private/notes/d.jpg")
    for flags in (("--yes",), ("--dry-run",), ()):
        done = energon("import", photos, tmp_path / "out", *flags)
        assert done.code == 2, done.err
        assert f"2 links lead out of their folders, to {tmp_path}/private, such as {photos}/" in done.err
        assert "--follow-links imports these files" in done.err
        assert not (tmp_path / "out").exists()


def test_links_are_left_out_or_followed_as_the_flag_says(photos: Path, tmp_path: Path, energon: RunEnergon) -> None:
    (photos / "notes").symlink_to(tmp_path / "private/notes")
    (photos / "inner/e.jpg").symlink_to("../../private/notes/d.jpg")
    found = energon("import", photos, tmp_path / "out", "--yes", "--no-follow-links", "--json").json
    left = {entry["reason"]: entry["count"] for entry in found["account"]["left_out"]}
    assert (left["L122"], sorted(samples_of(tmp_path / "out"))) == (2, ["a", "inner/b", "inner/c"])
    assert energon("import", photos, tmp_path / "all", "--yes", "--follow-links").code == 0
    assert sorted(samples_of(tmp_path / "all")) == ["a", "inner/b", "inner/c", "inner/e", "notes/d"]


def test_a_folder_of_links_alone_names_them(tmp_path: Path, energon: RunEnergon) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "a.txt").write_text("a text")
    (tmp_path / "in/a.txt").symlink_to(tmp_path / "a.txt")
    done = energon("import", tmp_path / "in", tmp_path / "out", "--yes")
    assert (done.code, "1 link leads out of its folder" in done.err) == (2, True)


@pytest.mark.parametrize("kind", ["pictures", "table", "parquet"])
def test_a_snapshot_of_a_hub_cache_is_read_through_its_links(kind: str, tmp_path: Path, energon: RunEnergon) -> None:
    repository = tmp_path / "hub/datasets--a--b"
    snapshot = repository / "snapshots/0123"
    (repository / "blobs").mkdir(parents=True)
    snapshot.mkdir(parents=True)
    files = {"0.jpg": jpeg(1), "1.jpg": jpeg(2)}
    if kind == "table":
        files["metadata.jsonl"] = b"".join(
            json.dumps({"file_name": name, "text": name}).encode() + b"\n" for name in files
        )
    if kind == "parquet":
        files = {"train-00000-of-00001.parquet": write_parquet(tmp_path, ["a text", "another"]).read_bytes()}
    for name, data in files.items():
        (repository / f"blobs/{name[::-1]}").write_bytes(data)
        (snapshot / name).symlink_to(f"../../blobs/{name[::-1]}")
    done = energon("import", snapshot, tmp_path / "out", "--yes")
    assert done.code == 0, done.err
    assert len(samples_of(tmp_path / "out")) == 2
    (snapshot / "9.jpg").symlink_to(tmp_path / "secret.jpg")  # of the same folder, but another target
    (tmp_path / "secret.jpg").write_bytes(SECRET)
    assert energon("import", snapshot, tmp_path / "again", "--yes").code == 2
    (repository / "blobs").rename(tmp_path / "elsewhere")
    (repository / "blobs").symlink_to(tmp_path / "elsewhere")  # a copy of a cache that a stranger made
    assert energon("import", snapshot, tmp_path / "again", "--yes").code == 2


def test_shards_may_be_links_as_energon_merge_writes_them(tmp_path: Path, energon: RunEnergon) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.txt").write_text(name)
        assert energon("import", tmp_path / name, tmp_path / f"{name}_ds", "--yes").code == 0
    merged = energon("merge", tmp_path / "one_ds", tmp_path / "two_ds", tmp_path / "both", "--reference")
    assert merged.code == 0, merged.err
    assert any(path.is_symlink() for path in (tmp_path / "both").rglob("*.tar"))
    done = energon("import", tmp_path / "both", tmp_path / "out", "--yes")
    assert done.code == 0, done.err
    assert sorted(samples_of(tmp_path / "out")) == ["one", "two"]


def test_a_linked_table_is_no_part_of_a_folder_of_tables(tmp_path: Path, energon: RunEnergon) -> None:
    (tmp_path / "in").mkdir()
    os.rename(write_parquet(tmp_path, ["a text", "another"]), tmp_path / "in/a.parquet")
    os.rename(write_parquet(tmp_path, ["secret"]), tmp_path / "secret.parquet")
    (tmp_path / "in/b.parquet").symlink_to("../secret.parquet")
    assert energon("import", tmp_path / "in", tmp_path / "out", "--yes", "--part", "txt=image").code == 2
    flags = ("--yes", "--part", "txt=image", "--no-follow-links")
    found = energon("import", tmp_path / "in", tmp_path / "out", *flags, "--json").json
    assert (found["samples"], [entry["reason"] for entry in found["account"]["left_out"]]) == (2, ["L122"])


def test_a_saved_dataset_that_names_other_files_is_refused(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    for name in ("mine", "theirs"):
        datasets.Dataset.from_dict({"text": [name]}).save_to_disk(str(tmp_path / name))
    state = tmp_path / "theirs/state.json"
    document = json.loads(state.read_text())
    document["_data_files"] = [{"filename": f"../mine/{document['_data_files'][0]['filename']}"}]
    state.write_text(json.dumps(document))
    with (
        pytest.raises(ConfigError, match=r"outside of .*theirs"),
        list_rows(sources_of(tmp_path / "theirs"), shuffled=False),
    ):
        pass


@pytest.mark.parametrize(
    "index",
    [
        {"version": 2, "shards": [{"format": "mds", "raw_data": {"basename": "../secret.jpg"}, "zip_data": None}]},
        {"chunks": [{"filename": "/etc/passwd"}], "config": {}},
    ],
)
def test_chunks_outside_of_their_folder_are_refused(index: object, home: Path) -> None:
    (home / "data/index.json").write_text(json.dumps(index))
    with pytest.raises(ConfigError, match="outside of"), list_rows(sources_of(home / "data"), shuffled=False):
        pass


def test_hard_links_are_files_of_their_folder(home: Path, tmp_path: Path) -> None:
    """A hard link cannot be distinguished from a file; the user who makes one can read the file already."""
    os.link(home / "secret.jpg", home / "data/hard.jpg")
    sources = sources_of(write_csv(home / "data", ["hard.jpg"]))
    assert run_import(ImportPlan(sources=sources, output=str(tmp_path / "out"))).failed == 0


# ----------------------------------------------------------------------------------------- folders that cannot be read


@pytest.mark.parametrize("fault", [PermissionError(13, "Permission denied"), FileNotFoundError(2, "No such file")])
@pytest.mark.parametrize("kind", ["files", "parquet", "tars"])
def test_a_folder_that_vanishes_or_refuses_is_named_and_the_rest_is_imported(
    fault: OSError, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, energon: RunEnergon
) -> None:
    for name in ("open", "shut"):
        (tmp_path / "in" / name).mkdir(parents=True)
        if kind == "files":
            Image.new("RGB", (8, 8)).save(tmp_path / "in" / name / "a.png")
        elif kind == "parquet":
            os.rename(write_parquet(tmp_path, [name]), tmp_path / "in" / name / f"{name}.parquet")
        else:
            (tmp_path / "texts").mkdir(exist_ok=True)
            (tmp_path / "texts/a.txt").write_text(name)
            energon("import", tmp_path / "texts", tmp_path / name, "--yes", "--no-compat")
            os.rename(tmp_path / name / "shard_000000.tar", tmp_path / "in" / name / f"{name}.tar")
    listed = os.scandir

    def scandir(path: Any = ".") -> Any:
        if str(path).rstrip("/").endswith("/shut"):
            raise fault
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)
    found = energon("import", tmp_path / "in", tmp_path / "out", "--yes", "--json").json
    assert found["samples"] == 1
    assert [(entry["reason"], entry["example"]) for entry in found["account"]["left_out"]] == [("L109", "shut/")]
