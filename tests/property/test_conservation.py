"""Random trees lose no byte without a name in import, prepare, reshard, merge and export."""

from __future__ import annotations

import io
import json
import os
import tarfile
import tempfile
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

import pytest
from hypothesis import given, settings, strategies as st

from loader.convert.exporting import ExportRequest, export_samples
from loader.convert.importing import ImportPlan, run_import
from loader.convert.merging import MergePlan, run_merge
from loader.convert.resharding import ReshardPlan, run_reshard
from loader.convert.rows.shard_layout import ShardLayout
from loader.convert.sources import SourceOptions, open_sources
from loader.dataset.opening import folder_at
from loader.engine import Account
from loader.errors import ConfigError, FormatError, SampleError
from loader.format.dataset_ref import DatasetRef

TREES = 1000 if settings.get_current_profile_name() == "thorough" else 25

Form = Literal["folder", "zip", "tar"]


class File(NamedTuple):
    """A file of a tree, or a link to another one."""

    name: str
    contents: bytes
    target: int | None = None  # of a link: the number of a file


class Tree(NamedTuple):
    files: tuple[File, ...]
    form: Form
    has_table: bool  # metadata.jsonl names some of the files


FOLDERS = ("", "", "a/", "a/b.c/", "train/", "A/", ".git/", "__MACOSX/", "é/", "images/", "labels/")
STEMS = (
    "x",
    "x",
    "y",
    "x.v2",
    "X",
    "é",
    "e\u0301",
    "two words",
    "_z",
    ".hidden",
    "._x",
    "x\\y",
    "README",
    "LICENSE",
    "007",
)
ENDINGS = (".txt", ".txt", ".TXT", ".json", ".bin", "", ".seg.txt", ".md", ".py", ".tar", ".csv", ".txt.gz")
KINDS = ("text", "text", "text", "empty", "link")


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    names = draw(
        st.lists(
            st.builds("".join, st.tuples(*map(st.sampled_from, (FOLDERS, STEMS, ENDINGS)))),
            min_size=1,
            max_size=14,
            unique_by=str.casefold,
        )
    )
    files: list[File] = []
    for number, name in enumerate(names):
        kind = draw(st.sampled_from(KINDS))
        if kind == "link" and files:
            files.append(File(name, b"", draw(st.integers(0, len(files) - 1))))
        else:
            files.append(File(name, b"" if kind == "empty" else json.dumps({"file": number}).encode()))
    return Tree(tuple(files), draw(st.sampled_from(("folder", "zip", "tar"))), draw(st.booleans()))


def write(tree: Tree, path: Path) -> tuple[Path, Counter[bytes]]:
    """Write a tree; return its path, and the contents of the files that count."""
    contents = [file.contents for file in tree.files]
    for number, file in enumerate(tree.files):
        if file.target is not None:
            contents[number] = contents[file.target]
    visible = Counter(data for file, data in zip(tree.files, contents, strict=True) if not is_hidden(file.name))
    table = "".join(
        json.dumps({"file_name": file.name, "text": f"caption {number}"}) + "\n"
        for number, file in enumerate(tree.files)
        if number % 3 == 0 and not is_hidden(file.name)
    )
    extra = {"metadata.jsonl": table.encode()} if tree.has_table and table else {}
    if tree.form == "folder":
        for file, data in zip(tree.files, contents, strict=True):
            target = path / file.name
            target.parent.mkdir(parents=True, exist_ok=True)
            if file.target is None:
                target.write_bytes(data)
            else:
                target.symlink_to(os.path.relpath(path / tree.files[file.target].name, target.parent))
        for name, data in extra.items():
            (path / name).write_bytes(data)
        return path, visible
    target = path / f"data.{tree.form}"
    if tree.form == "zip":
        with zipfile.ZipFile(target, "w") as archive:
            for file, data in zip(tree.files, contents, strict=True):
                archive.writestr(file.name, data)
            for name, data in extra.items():
                archive.writestr(name, data)
        return target, visible
    with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as tar:
        for file in (*tree.files, *(File(name, data) for name, data in extra.items())):
            member = tarfile.TarInfo(file.name)
            if file.target is not None:
                member.type, member.linkname = tarfile.LNKTYPE, tree.files[file.target].name
                tar.addfile(member)
            else:
                member.size = len(file.contents)
                tar.addfile(member, io.BytesIO(file.contents))
    return target, visible


def is_hidden(name: str) -> bool:
    """Return True for files that are not counted."""
    *folders, base = name.split("/")
    is_of_the_system = base.startswith("._") or "__MACOSX" in folders
    return any(folder.startswith(".") for folder in folders) or (base.startswith(".") and not is_of_the_system)


def contents_of(dataset: Path) -> Counter[bytes]:
    folder = folder_at(str(dataset))
    try:
        return Counter(
            bytes(data) for number in range(len(folder.index)) for data in folder.read_parts(number).values()
        )
    finally:
        folder.close()


def not_used(account: Account, *, tables: int = 0) -> range:
    """Return the possible numbers of files that are not in the output.

    A failed row has one or all of its parts. A table becomes rows, or is left out itself.
    """
    account.check()
    left = sum(entry.count for entry in account.left_out if entry.unit in ("files", "members"))
    rows, parts = (sum(entry.count for entry in account.failed if entry.unit == unit) for unit in ("rows", "parts"))
    return range(left + rows - tables, left + parts + 1)


@pytest.fixture(scope="module")
def memory() -> Iterator[Path]:
    """A folder in memory where the system has one, so that a dataset appears in milliseconds."""
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=place) as folder:
        yield Path(folder)


@settings(max_examples=TREES)
@given(tree=trees())
def test_no_byte_is_lost_without_a_name(memory: Path, tree: Tree) -> None:
    with tempfile.TemporaryDirectory(dir=memory) as name:
        work = Path(name)
        (work / "in").mkdir()
        source, visible = write(tree, work / "in")
        kind = "tar" if tree.form == "tar" else None
        try:
            sources = open_sources([str(source)], kind=kind, options=SourceOptions())
            report = run_import(ImportPlan(sources=sources, output=str(work / "out"), max_failures=100))
        except (ConfigError, FormatError, SampleError):
            return  # several kinds of data, a damaged tar, or no row that is not: refused as a whole, by name
        # Every file is in the dataset, or counted.
        written = contents_of(work / "out")
        lost = visible - written
        assert lost.total() in not_used(report.account, tables=tree.has_table), (lost, report.account.to_document())
        # A reshard, a merge and an export keep everything.
        done = run_reshard(
            ReshardPlan(
                ref=DatasetRef(str(work / "out")), output=str(work / "again"), layout=ShardLayout(shuffle_seed=1)
            )
        )
        assert contents_of(work / "again") == written
        assert done.written.account.is_complete
        run_merge(MergePlan(inputs=(str(work / "out"), str(work / "again")), output=str(work / "both")))
        assert contents_of(work / "both") == written + written
        export_samples(ExportRequest(refs=[DatasetRef(str(work / "out"))], output=str(work / "files")))
        exported = Counter(path.read_bytes() for path in (work / "files").iterdir())
        assert exported == written
        # The export is a tree, too.
        if all(path.suffix == ".csv" for path in (work / "files").iterdir()):
            return  # tables alone are refused by name
        sources = open_sources([str(work / "files")], kind="folder", options=SourceOptions())
        report = run_import(ImportPlan(sources=sources, output=str(work / "back")))
        assert (exported - contents_of(work / "back")).total() in not_used(report.account)
