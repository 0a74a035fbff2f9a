"""Prepare writes files that are correct, reproducible, and the same after changes as from the start."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import tarfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import yaml

from loader.dataset.opening import folder_at
from loader.dataset.tar import tar_index
from loader.errors import ConfigError, FormatError
from loader.prepare.plan import PreparePlan, PrepareProgress, SplitRequest
from loader.prepare.run import run_prepare
from tests.e2e.dataset_tree import (
    RATIO,
    caption_samples,
    copy_of,
    index_uuid,
    prepare,
    shard_path,
    sqlite_rows,
    times_of_change,
    write_shard,
    write_shards,
    write_tar,
    written,
)
from tests.representative import every_value_once

LONG = "x" * 150  # needs an extension header in every format
COMPAT = {".nv-meta/index.sqlite"}


def contents(folder: Path) -> dict[str, dict[str, bytes]]:
    """Read all samples through the index: full key → part → bytes."""
    dataset = folder_at(folder)
    found = {dataset.index.full_key(sample): dataset.read_parts(sample) for sample in range(len(dataset.index))}
    dataset.close()
    return found


def compat_files(folder: Path) -> set[str]:
    return {name for name in written(folder) if name.endswith((".idx", ".sqlite"))}


def flat(folder: Path) -> None:
    write_shards(folder)


def long_names(folder: Path) -> None:
    for number in range(4):
        write_shard(shard_path(folder, number), caption_samples(number * 3, 3, prefix=LONG))


def pax(folder: Path) -> None:
    for number in range(4):
        samples = caption_samples(number * 3, 3, prefix=LONG if number % 2 else "é/")
        write_shard(shard_path(folder, number), samples, form=tarfile.PAX_FORMAT)


def nested(folder: Path) -> None:
    for number, name in enumerate(["a/b.tar", "a-b/0.tar", "a/b/c.tar", "a.tar", "z/0.tar"]):
        write_shard(folder / name, caption_samples(number * 2, 2))


def one_shard(folder: Path) -> None:
    write_shards(folder, 1, samples=40)


def differing_parts(folder: Path) -> None:
    for number, parts in enumerate(["b", "ab", "cb", "a", "dca"]):
        write_shard(shard_path(folder, number), {f"{number}/{i}": dict.fromkeys(parts, b"...") for i in range(3)})


def with_an_empty_shard(folder: Path) -> None:
    write_shards(folder, 4)
    write_tar(shard_path(folder, 1), [])


def ignored_members(folder: Path) -> None:
    for number in range(3):
        samples = caption_samples(number * 3, 3)
        inner = [(f"{key}.{part}", data) for key, parts in samples.items() for part, data in parts.items()]
        write_tar(
            shard_path(folder, number),
            [
                ("__meta__/x.json", b"{}"),
                *inner[:2],
                ("README", b"read me"),
                *inner[2:],
                (".hidden.txt", b"h" * 900),
            ],
        )


def scattered(folder: Path) -> None:
    write_shards(folder, 4)
    write_tar(shard_path(folder, 2), [("p.txt", b"1"), ("q.txt", b"2"), ("p.json", b"{}"), ("q.json", b"{}")])


def duplicates(folder: Path) -> None:
    write_shards(folder, 4)
    write_shard(shard_path(folder, 2), caption_samples(1, 3))


def not_utf8(folder: Path) -> None:
    write_shards(folder, 4)
    write_tar(shard_path(folder, 2), [("caf\udce9.txt", b"1"), ("caf\udce9.json", b"{}")])


def hidden_in_a_folder(folder: Path) -> None:
    write_shards(folder, 4)
    write_tar(shard_path(folder, 2), [("d/a.txt", b"1"), ("d/.DS_Store", b"2"), ("d/a.json", b"{}")])


def duplicates_with_long_names(folder: Path) -> None:
    long_names(folder)
    write_shard(shard_path(folder, 2), caption_samples(1, 3, prefix=LONG))


EXPRESSIBLE = [flat, long_names, pax, nested, one_shard, differing_parts, with_an_empty_shard, ignored_members]
INEXPRESSIBLE = [scattered, duplicates, not_utf8, duplicates_with_long_names, hidden_in_a_folder]
every_shape = pytest.mark.parametrize("shape", EXPRESSIBLE + INEXPRESSIBLE)
every_inexpressible = pytest.mark.parametrize("shape", INEXPRESSIBLE)


def excluded_of(folder: Path) -> tuple[str, ...]:
    split = folder_at(folder).documents.split
    assert split is not None
    return split.exclude


def expected_contents(folder: Path) -> dict[str, dict[str, bytes]]:
    """Read the shards with Python's tarfile, without the index."""
    found: dict[str, dict[str, bytes]] = {}
    for path in sorted(folder.rglob("*.tar"), key=lambda path: path.relative_to(folder).parts):
        with tarfile.open(path, encoding="utf-8", errors="surrogateescape") as tar:
            for member in tar:
                stem, dot, part = member.name.rpartition("/")[2].partition(".")
                if not dot or not stem or member.name.startswith("__"):
                    continue
                key = member.name[: len(member.name) - len(part) - 1]
                file = tar.extractfile(member)
                assert file is not None
                found.setdefault(f"{path.relative_to(folder).as_posix()}/{key}", {})[part] = file.read()
    return found


@every_shape
def test_the_index_gives_what_the_shards_hold(tmp_path: Path, shape: Callable[[Path], None]) -> None:
    shape(tmp_path)
    report = prepare(tmp_path)
    expected = expected_contents(tmp_path)
    assert contents(tmp_path) == expected
    assert (report.samples, report.parts) == (len(expected), sum(map(len, expected.values())))
    assert sum(samples for _, samples in report.split.values()) == report.samples
    assert report.changed
    assert report.scanned == report.shards == len(list(tmp_path.rglob("*.tar")))


WITH_WORKERS = {"four workers": (flat, with_an_empty_shard), "resumed": (duplicates_with_long_names,)}
"""Shapes that are prepared by worker processes in the quick tests, too; each process imports the library."""


@pytest.mark.parametrize(
    ("shape", "other"),
    [
        *((shape, other) for other in ("again", "forced") for shape in EXPRESSIBLE + INEXPRESSIBLE),
        *(
            pytest.param(shape, other, marks=() if shape in quick else pytest.mark.slow)
            for other, quick in WITH_WORKERS.items()
            for shape in EXPRESSIBLE + INEXPRESSIBLE
        ),
    ],
)
@pytest.mark.sampled(6)
def test_the_same_shards_give_the_same_bytes(tmp_path: Path, shape: Callable[[Path], None], other: str) -> None:
    shape(tmp_path / "one")
    copy_of(tmp_path / "one", tmp_path / "two")
    prepare(tmp_path / "one")
    if other == "resumed":
        stop_after(tmp_path / "two", shards=1)
        report = prepare(tmp_path / "two", workers=4)
        assert (report.resumed, report.scanned) == (1, report.shards - 1)
    elif other == "forced":
        prepare(tmp_path / "two", compat=False)
        report = prepare(tmp_path / "two", force=True)
        assert report.scanned == report.shards
    else:
        prepare(tmp_path / "two", workers=4 if other == "four workers" else 1)
    assert written(tmp_path / "one") == written(tmp_path / "two")


def stop_after(folder: Path, *, shards: int) -> None:
    """Interrupt a prepare like Ctrl-C, once some shards are scanned."""

    def stop(now: PrepareProgress) -> None:
        if now.shards_done == shards:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_prepare(PreparePlan(path=str(folder), split=RATIO), on_progress=stop)


@every_shape
@pytest.mark.parametrize("compat", [None, False])
@pytest.mark.sampled(5)
def test_a_run_with_nothing_to_do_writes_nothing(
    tmp_path: Path, shape: Callable[[Path], None], compat: bool | None
) -> None:
    shape(tmp_path)
    first = prepare(tmp_path, compat=compat)
    before = times_of_change(tmp_path)
    again = prepare(tmp_path, compat=compat)
    assert times_of_change(tmp_path) == before
    assert (again.changed, again.scanned, again.reused) == (False, 0, first.shards)
    assert (again.uuid, again.samples, again.split) == (first.uuid, first.samples, first.split)


def test_a_run_with_nothing_to_do_leaves_what_an_interrupted_one_left_to_be_removed(tmp_path: Path) -> None:
    write_shards(tmp_path)
    prepare(tmp_path)
    fresh = written(tmp_path)

    def stop(now: PrepareProgress) -> None:
        if now.shards_done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_prepare(PreparePlan(path=str(tmp_path), force=True), on_progress=stop)
    assert not prepare(tmp_path).changed
    assert written(tmp_path) == fresh


# ------------------------------------------------------------------------------------------------------ changes


def change_one(folder: Path) -> int:
    write_shard(shards_of(folder)[1], caption_samples(100, 2, prefix="new"))
    return 1


def change_one_to_equal_size(folder: Path) -> int:
    path = shards_of(folder)[1]
    stat = path.stat()
    data = path.read_bytes()
    path.write_bytes(data)
    os.utime(path, ns=(stat.st_mtime_ns, stat.st_mtime_ns + 5))
    return 1


def add_first(folder: Path) -> int:
    write_shard(folder / "0.tar", caption_samples(200, 2, prefix="new"))
    return 1


def add_in_the_middle(folder: Path) -> int:
    path = shards_of(folder)[1]
    write_shard(path.with_name(path.name.removesuffix(".tar") + "+.tar"), caption_samples(200, 2, prefix="new"))
    return 1


def add_at_the_end(folder: Path) -> int:
    write_shard(folder / "zz" / "zz.tar", caption_samples(300, 2, prefix="new"))
    return 1


def remove_first(folder: Path) -> int:
    shards_of(folder)[0].unlink()
    return 0


def remove_last(folder: Path) -> int:
    shards_of(folder)[-1].unlink()
    return 0


def rename_one(folder: Path) -> int:
    shards_of(folder)[0].rename(folder / "yy.tar")
    return 1


def swap_two(folder: Path) -> int:
    first, second = shards_of(folder)[:2]
    first.rename(folder / "swap")
    second.rename(first)
    (folder / "swap").rename(second)
    return 2


def remove_two_and_change_one(folder: Path) -> int:
    for path in shards_of(folder)[-2:]:
        path.unlink()
    return change_one(folder)


def empty_one(folder: Path) -> int:
    write_tar(shards_of(folder)[1], [])
    return 1


def shards_of(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.tar"), key=lambda path: path.relative_to(folder).parts)


CHANGES = [
    change_one,
    change_one_to_equal_size,
    add_first,
    add_in_the_middle,
    add_at_the_end,
    remove_first,
    remove_last,
    rename_one,
    swap_two,
    remove_two_and_change_one,
    empty_one,
]
every_change = pytest.mark.parametrize("change", CHANGES)


@pytest.mark.parametrize(
    ("change", "shape"),
    every_value_once(CHANGES, [flat, long_names, pax, nested, differing_parts, with_an_empty_shard]),
)
@pytest.mark.sampled(2)
def test_a_changed_folder_is_prepared_as_from_the_start(
    tmp_path: Path, shape: Callable[[Path], None], change: Callable[[Path], int]
) -> None:
    shape(tmp_path / "one")
    prepare(tmp_path / "one")
    to_scan = change(tmp_path / "one")
    report = prepare(tmp_path / "one")
    assert (report.changed, report.compat) == (True, True)
    assert (report.scanned, report.reused) == (to_scan, report.shards - to_scan)
    fresh = prepare(copy_of(tmp_path / "one", tmp_path / "two"))
    assert written(tmp_path / "one", sqlite_as_rows=True) == written(tmp_path / "two", sqlite_as_rows=True)
    assert (report.samples, report.parts, report.size_bytes, report.split, report.warnings) == (
        fresh.samples,
        fresh.parts,
        fresh.size_bytes,
        fresh.split,
        fresh.warnings,
    )


@pytest.mark.parametrize("shape", [flat, long_names, pax, scattered])
def test_a_changed_folder_without_compat_files_is_prepared_as_from_the_start(
    tmp_path: Path, shape: Callable[[Path], None]
) -> None:
    shape(tmp_path / "one")
    prepare(tmp_path / "one", compat=False)
    to_scan = CHANGES[0](tmp_path / "one")
    report = prepare(tmp_path / "one", compat=False)
    assert (report.changed, report.compat, report.scanned) == (True, False, to_scan)
    prepare(copy_of(tmp_path / "one", tmp_path / "two"), compat=False)
    assert written(tmp_path / "one") == written(tmp_path / "two")


@pytest.mark.parametrize(("change", "shape"), every_value_once(CHANGES, INEXPRESSIBLE))
@pytest.mark.sampled(4)
def test_a_changed_folder_that_compat_files_cannot_express_is_prepared_as_from_the_start(
    tmp_path: Path, shape: Callable[[Path], None], change: Callable[[Path], int]
) -> None:
    shape(tmp_path / "one")
    prepare(tmp_path / "one")
    change(tmp_path / "one")
    prepare(tmp_path / "one")
    prepare(copy_of(tmp_path / "one", tmp_path / "two"))
    assert written(tmp_path / "one", sqlite_as_rows=True) == written(tmp_path / "two", sqlite_as_rows=True)


@every_change
@pytest.mark.sampled(4)
def test_without_compat_no_change_leaves_stale_compat_files(tmp_path: Path, change: Callable[[Path], int]) -> None:
    write_shards(tmp_path / "one")
    prepare(tmp_path / "one")
    to_scan = change(tmp_path / "one")
    report = prepare(tmp_path / "one", compat=False)
    assert (report.scanned, report.compat) == (to_scan, False)
    fresh = copy_of(tmp_path / "one", tmp_path / "two")
    prepare(fresh)
    left = written(tmp_path / "one")
    assert ".nv-meta/index.sqlite" not in left
    right = written(fresh)
    assert {name: data for name, data in left.items() if name in right} == left  # the remaining files are correct


def test_several_changes_in_a_row_end_as_from_the_start(tmp_path: Path) -> None:
    write_shards(tmp_path / "one")
    prepare(tmp_path / "one")
    for change in (change_one, add_in_the_middle, remove_last, swap_two, rename_one, add_at_the_end):
        change(tmp_path / "one")
        prepare(tmp_path / "one")
    prepare(copy_of(tmp_path / "one", tmp_path / "two"))
    assert written(tmp_path / "one", sqlite_as_rows=True) == written(tmp_path / "two", sqlite_as_rows=True)
    assert (
        len(list((tmp_path / "one/.nv-meta/index").iterdir())) == 2
    )  # the new one, and the previous one for running jobs


def test_the_index_before_stays_for_running_jobs_until_the_next_prepare(tmp_path: Path) -> None:
    write_shards(tmp_path)
    folders = []
    for change in (None, change_one, remove_last):
        if change:
            change(tmp_path)
        prepare(tmp_path)
        folders.append(index_uuid(tmp_path))
        remaining = {path.name for path in (tmp_path / ".nv-meta/index").iterdir()}
        assert remaining == set(folders[-2:])


# ------------------------------------------------------------------------------------------------- compat files


def test_compat_files_come_when_they_are_asked_for_later(tmp_path: Path) -> None:
    flat(tmp_path / "one")
    prepare(tmp_path / "one", compat=False)
    assert compat_files(tmp_path / "one") == set()
    report = prepare(tmp_path / "one")
    assert (report.changed, report.scanned, report.compat) == (True, 0, True)
    prepare(copy_of(tmp_path / "one", tmp_path / "two"))
    assert written(tmp_path / "one") == written(tmp_path / "two")
    before = written(tmp_path / "one")
    assert not prepare(tmp_path / "one", compat=False).changed
    assert written(tmp_path / "one") == before


def test_headers_are_read_again_where_the_index_does_not_say_where_samples_start(tmp_path: Path) -> None:
    long_names(tmp_path / "one")
    prepare(tmp_path / "one", compat=False)
    assert prepare(tmp_path / "one").scanned == 4
    prepare(copy_of(tmp_path / "one", tmp_path / "two"))
    assert written(tmp_path / "one") == written(tmp_path / "two")


@pytest.mark.parametrize("damage", ["sqlite gone", "idx gone", "idx cut", "sqlite garbage"])
def test_missing_compat_files_are_written_again(tmp_path: Path, damage: str) -> None:
    long_names(tmp_path)
    prepare(tmp_path)
    before = written(tmp_path, sqlite_as_rows=True)
    if damage == "sqlite gone":
        (tmp_path / ".nv-meta/index.sqlite").unlink()
    elif damage == "idx gone":
        (tmp_path / "shard_002.tar.idx").unlink()
    elif damage == "idx cut":
        os.truncate(tmp_path / "shard_002.tar.idx", 24)
    else:
        (tmp_path / ".nv-meta/index.sqlite").write_bytes(b"no database" * 1000)
        change_one_to_equal_size(tmp_path)
    report = prepare(tmp_path)
    assert report.changed
    after = written(tmp_path, sqlite_as_rows=True)
    if damage == "sqlite garbage":  # a shard has another modification time too
        del before[".nv-meta/index/UUID/layout.json"], after[".nv-meta/index/UUID/layout.json"]
    assert after == before


def execute(folder: Path, *statements: str) -> None:
    with closing(sqlite3.connect(folder / ".nv-meta/index.sqlite")) as database, database:
        for statement in statements:
            database.execute(statement)


def test_another_tool_s_index_sqlite_is_written_anew(tmp_path: Path) -> None:
    flat(tmp_path / "one")
    prepare(tmp_path / "one")
    execute(tmp_path / "one", "DROP TABLE sample_parts", "CREATE TABLE sample_parts (tar_file_id, sample_index)")
    change_one(tmp_path / "one")
    assert prepare(tmp_path / "one").scanned == 1
    prepare(copy_of(tmp_path / "one", tmp_path / "two"))
    assert written(tmp_path / "one") == written(tmp_path / "two")


def test_an_index_sqlite_with_a_damaged_page_is_written_anew(tmp_path: Path) -> None:
    write_shards(tmp_path / "one", samples=100)
    prepare(tmp_path / "one")
    with (tmp_path / "one/.nv-meta/index.sqlite").open("r+b") as file:
        for page in range(4096, file.seek(0, os.SEEK_END), 4096):
            file.seek(page)
            file.write(b"\xff" * 64)
    change_one(tmp_path / "one")
    assert prepare(tmp_path / "one").compat
    prepare(copy_of(tmp_path / "one", tmp_path / "two"))
    assert written(tmp_path / "one") == written(tmp_path / "two")


def test_an_index_sqlite_with_wrong_keys_is_not_kept(tmp_path: Path) -> None:
    flat(tmp_path)
    prepare(tmp_path)
    change_one(tmp_path)
    execute(tmp_path, "UPDATE samples SET sample_key = 'new00100' WHERE sample_key = '00000'")
    with pytest.raises(FormatError) as caught:
        prepare(tmp_path, compat=True)
    assert caught.value.hint == "rewrite it: energon prepare --force-overwrite"
    report = prepare(tmp_path)
    assert (report.compat, report.duplicate_keys) == (False, 0)
    assert any("has other keys than the shards" in warning for warning in report.warnings)
    assert prepare(tmp_path).compat


REASONS: dict[Callable[[Path], None], str] = {
    scattered: "shard_002.tar: 2 samples have parts that are not neighbours in the shard",
    duplicates: "key '00001' occurs in two shards",
    not_utf8: "shard_002.tar: it has member names that are not UTF-8",
    hidden_in_a_folder: "shard_002.tar: other tools would read 1 hidden file",
    duplicates_with_long_names: f"key '{LONG}00001' occurs in two shards",
}


@every_inexpressible
def test_compat_files_that_cannot_be_are_left_out_with_a_warning(tmp_path: Path, shape: Callable[[Path], None]) -> None:
    shape(tmp_path)
    report = prepare(tmp_path)
    assert not report.compat
    assert any(REASONS[shape] in warning for warning in report.warnings)
    assert compat_files(tmp_path) == set()


@every_inexpressible
def test_compat_files_go_when_they_can_no_longer_be_true(tmp_path: Path, shape: Callable[[Path], None]) -> None:
    flat(tmp_path)
    prepare(tmp_path)
    assert len(compat_files(tmp_path)) == 7
    shape(tmp_path)
    report = prepare(tmp_path)
    assert not report.compat
    left = compat_files(tmp_path)
    assert ".nv-meta/index.sqlite" not in left
    assert "shard_002.tar.idx" not in left
    dataset = folder_at(tmp_path)
    for shard in dataset.index.shards:
        if f"{shard.name}.idx" in left:
            offsets = np.fromfile(tmp_path / f"{shard.name}.idx", "<u8")
            firsts = [tar_index(dataset).parts(sample)[0].offset - 512 for sample in dataset.index.samples_of(shard)]
            assert offsets.tolist()[:-1] == firsts


@every_inexpressible
def test_asking_for_compat_files_that_cannot_be_changes_nothing(tmp_path: Path, shape: Callable[[Path], None]) -> None:
    flat(tmp_path)
    prepare(tmp_path)
    shape(tmp_path)
    before = written(tmp_path)
    with pytest.raises(FormatError, match=r"index\.sqlite and \.tar\.idx cannot express this dataset"):
        prepare(tmp_path, compat=True)
    after = written(tmp_path)
    assert {name: data for name, data in after.items() if not name.startswith(".nv-meta/.prepare/scans/")} == before


@every_inexpressible
def test_compat_files_come_back_once_they_can_be(tmp_path: Path, shape: Callable[[Path], None]) -> None:
    shape(tmp_path / "one")
    prepare(tmp_path / "one")
    write_shard(shard_path(tmp_path / "one", 2), caption_samples(300, 3))
    assert prepare(tmp_path / "one").compat
    prepare(copy_of(tmp_path / "one", tmp_path / "two"))
    assert written(tmp_path / "one", sqlite_as_rows=True) == written(tmp_path / "two", sqlite_as_rows=True)


def test_a_key_that_moves_to_another_shard_is_no_duplicate(tmp_path: Path) -> None:
    write_shards(tmp_path / "one", 6)
    prepare(tmp_path / "one")
    write_shard(shard_path(tmp_path / "one", 1), caption_samples(6, 3))
    write_shard(shard_path(tmp_path / "one", 2), caption_samples(3, 3))
    report = prepare(tmp_path / "one")
    assert (report.compat, report.duplicate_keys, report.scanned) == (True, 0, 2)
    prepare(copy_of(tmp_path / "one", tmp_path / "two"))
    assert written(tmp_path / "one", sqlite_as_rows=True) == written(tmp_path / "two", sqlite_as_rows=True)


def test_most_rows_of_an_earlier_sqlite_file_are_kept(tmp_path: Path) -> None:
    write_shards(tmp_path, 6)
    prepare(tmp_path)
    change_one(tmp_path)
    prepare(tmp_path)
    rows = sqlite_rows(tmp_path)
    assert [row[0] for row in rows["samples"]] == [0] * 3 + [1] * 2 + [2] * 3 + [3] * 3 + [4] * 3 + [5] * 3
    assert len(rows["sample_parts"]) == 2 * len(rows["samples"])


def test_duplicate_keys_are_fixed_on_request_and_excluded_samples_stay_so(tmp_path: Path) -> None:
    duplicates(tmp_path)
    before = expected_contents(tmp_path)
    prepare(tmp_path)
    file = tmp_path / ".nv-meta/split.yaml"
    file.write_text(file.read_text().partition("exclude")[0] + "exclude: [shard_002.tar/00001, shard_000.tar/00001]\n")
    report = prepare(tmp_path, split=None, fix_duplicates=True)
    assert (report.changed, report.compat, report.duplicate_keys, report.scanned) == (True, True, 0, 1)
    fixed = {key + "#2" if key.startswith("shard_002") else key: parts for key, parts in before.items()}
    assert contents(tmp_path) == expected_contents(tmp_path) == fixed
    assert set(excluded_of(tmp_path)) == {"shard_002.tar/00001#2", "shard_000.tar/00001"}
    assert not prepare(tmp_path, split=None, fix_duplicates=True).changed


def test_fixing_duplicate_keys_heeds_what_split_json_excludes(tmp_path: Path) -> None:
    duplicates(tmp_path)
    prepare(tmp_path)
    meta = tmp_path / ".nv-meta"
    document = yaml.safe_load((meta / "split.yaml").read_text()) | {"exclude": ["shard_002.tar/00001"]}
    (meta / "split.json").write_text(json.dumps(document))
    (meta / "split.yaml").unlink()
    prepare(tmp_path, split=None, fix_duplicates=True)
    assert excluded_of(tmp_path) == ("shard_002.tar/00001#2",)


# ----------------------------------------------------------------------------------------------- split and files


def test_a_split_is_kept_unless_another_is_asked_for(tmp_path: Path) -> None:
    write_shards(tmp_path)
    prepare(tmp_path, files={"dataset.yaml": "a: 1\n"})
    split = (tmp_path / ".nv-meta/split.yaml").read_bytes()
    assert not prepare(tmp_path, split=None).changed
    assert (tmp_path / ".nv-meta/split.yaml").read_bytes() == split
    report = prepare(tmp_path, split=SplitRequest(ratio={"train": 1.0}))
    assert (report.changed, report.scanned, report.split) == (True, 0, {"train": (6, 18)})
    assert (tmp_path / ".nv-meta/dataset.yaml").read_text() == "a: 1\n"
    assert prepare(tmp_path, files={"dataset.yaml": "a: 2\n"}).changed
    assert (tmp_path / ".nv-meta/dataset.yaml").read_text() == "a: 2\n"


def test_a_kept_split_that_misses_shards_is_warned_of(tmp_path: Path) -> None:
    write_shards(tmp_path)
    prepare(tmp_path)
    add_at_the_end(tmp_path)
    remove_first(tmp_path)
    warnings = "\n".join(prepare(tmp_path, split=None).warnings)
    assert "1 shard is in no part of split.yaml, first zz/zz.tar" in warnings
    assert "split.yaml names 1 shard that does not exist, first shard_000.tar" in warnings


def test_excludes_survive_a_new_split_while_their_shard_is_there(tmp_path: Path) -> None:
    write_shards(tmp_path)
    prepare(tmp_path)
    file = tmp_path / ".nv-meta/split.yaml"
    excluded = "exclude: [shard_001.tar/00004, shard_005.tar, shard_000.tar/00001]\n"
    file.write_text(file.read_text().partition("exclude")[0] + excluded)
    remove_first(tmp_path)
    prepare(tmp_path, split=SplitRequest(ratio={"train": 1.0}))
    assert set(excluded_of(tmp_path)) == {"shard_001.tar/00004", "shard_005.tar"}


def test_a_split_file_that_is_replaced_may_be_broken(tmp_path: Path) -> None:
    write_shards(tmp_path)
    prepare(tmp_path)
    (tmp_path / ".nv-meta/split.yaml").write_text("split_parts: [")
    with pytest.raises(ConfigError):
        prepare(tmp_path, split=None)
    assert prepare(tmp_path).changed


def test_a_first_prepare_without_a_split_says_so(tmp_path: Path) -> None:
    write_shards(tmp_path)
    assert "the dataset has no split.yaml, and no split was given" in prepare(tmp_path, split=None).warnings


@pytest.mark.parametrize(
    "request_",
    [SplitRequest(patterns=(("train", "shard_{000..003}.tar"),)), SplitRequest(parts={"train": ("shard_000.tar",)})],
)
def test_splits_by_patterns_and_as_listed(tmp_path: Path, request_: SplitRequest) -> None:
    write_shards(tmp_path)
    expected = {"train": (4, 12)} if request_.patterns else {"train": (1, 3)}
    assert prepare(tmp_path, split=request_).split == expected


def test_a_pattern_that_matches_nothing_writes_nothing(tmp_path: Path) -> None:
    write_shards(tmp_path)
    with pytest.raises(ConfigError):
        prepare(tmp_path, split=SplitRequest(patterns=(("train", "nothing_.*"),)))
    assert not (tmp_path / ".nv-meta").exists()


def test_excluded_shards_are_no_part_of_the_dataset(tmp_path: Path) -> None:
    write_shards(tmp_path)
    assert prepare(tmp_path, exclude=r"_00[12]\.tar$").shards == 4
    assert list(folder_at(tmp_path).shard_counts) == [f"shard_00{number}.tar" for number in (0, 3, 4, 5)]
    assert prepare(tmp_path).scanned == 2


def test_odd_shards_are_warned_of(tmp_path: Path) -> None:
    with_an_empty_shard(tmp_path)
    ignored_members(tmp_path / "odd")
    (tmp_path / "old.tar.gz").write_bytes(b"\x1f\x8b")
    many = {f"{number}": dict.fromkeys(map(str, range(400)), b"") for number in range(2)}
    write_shard(tmp_path / "many.tar", many)
    warnings = "\n".join(prepare(tmp_path).warnings)
    assert "1 compressed shard is skipped, first old.tar.gz" in warnings
    assert "1 shard has no samples, first shard_001.tar" in warnings
    assert "odd/shard_000.tar: 1 member whose file name starts with a dot: in no sample" in warnings
    assert "the tar file has no members" in warnings


def test_file_names_with_a_dot_too_many_are_warned_of(tmp_path: Path) -> None:
    write_tar(tmp_path / "a.tar", [(f"v1.{number:03d}.txt", b"") for number in range(60)])
    assert any("there are 60 parts a sample" in warning for warning in prepare(tmp_path).warnings)


def test_only_ten_odd_shards_are_named(tmp_path: Path) -> None:
    for number in range(13):
        write_tar(shard_path(tmp_path, number), [(f"{number}.txt", b"1"), (".hidden.txt", b"2")])
    warnings = prepare(tmp_path).warnings
    assert sum("starts with a dot" in warning for warning in warnings) == 10
    assert any("and 3 more such warnings" in warning for warning in warnings)


def test_a_damaged_journal_is_scanned_anew(tmp_path: Path) -> None:
    write_shards(tmp_path / "one")
    copy_of(tmp_path / "one", tmp_path / "two")
    prepare(tmp_path / "two")
    stop_after(tmp_path / "one", shards=3)
    journal = sorted((tmp_path / "one/.nv-meta/.prepare/scans").iterdir())
    os.truncate(journal[0], 10)
    os.truncate(journal[1], journal[1].stat().st_size - 8)
    journal[2].write_bytes(b"")
    prepare(tmp_path / "one")
    assert written(tmp_path / "one") == written(tmp_path / "two")


@pytest.mark.parametrize("damage", ["layout", "column", "column gone", "info", "uuid gone", "folder gone"])
def test_a_damaged_dataset_is_prepared_anew(tmp_path: Path, damage: str) -> None:
    write_shards(tmp_path)
    prepare(tmp_path)
    fresh = written(tmp_path)
    index = tmp_path / ".nv-meta/index" / index_uuid(tmp_path)
    actions: dict[str, Callable[[], object]] = {
        "layout": lambda: (index / "layout.json").write_text("{}"),
        "column": lambda: os.truncate(index / "part_size.npy", 150),
        "column gone": (index / "key_hash.npy").unlink,
        "info": lambda: (tmp_path / ".nv-meta/.info.json").write_text("{"),
        "uuid gone": (tmp_path / ".nv-meta/index.uuid").unlink,
        "folder gone": lambda: shutil.rmtree(index),
    }
    actions[damage]()
    report = prepare(tmp_path)
    assert written(tmp_path) == fresh
    assert contents(tmp_path) == expected_contents(tmp_path)
    assert report.scanned == (0 if damage == "uuid gone" else 6)
