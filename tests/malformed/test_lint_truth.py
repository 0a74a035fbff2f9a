"""Lint finds nothing in a clean dataset; in a damaged one it finds each fault at its place, and nothing else."""

from __future__ import annotations

import io
import os
import pickle
import shutil
import sqlite3
import sys
import tarfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
import simplejpeg
import tifffile
from PIL import Image

from loader import random_access
from loader.dataset.opening import folder_at
from loader.dataset.tar import tar_index
from loader.errors import ConfigError, StorageError, WorkerError
from loader.format.compat.sqlite_index import open_sqlite
from loader.format.dataset_ref import DatasetRef
from loader.format.documents.dataset_config import DatasetConfig
from loader.format.documents.split_config import SplitConfig
from loader.format.index.dataset_index import DatasetIndex, PartLocation
from loader.format.index.layout import ShardEntry
from loader.format.index.sample_bytes import read_sample
from loader.inspect.broken_samples import exclude_broken_samples
from loader.lint import contents as lint_contents, metadata as lint_metadata, run as lint_run
from loader.lint.metadata import Split
from loader.lint.report import LintPlan, LintProgress, LintReport, SampleCheck
from loader.lint.rule import Finding
from loader.lint.run import lint_dataset
from loader.lint.samples import SampleFaults
from loader.lint.shard import Shards
from loader.prepare.plan import SplitRequest
from loader.samples.building.check import DecodeCheck
from loader.samples.building.dataset_code import DatasetCode
from loader.storage import FileInfo, LocalStorage, ReadableFile
from tests.e2e.dataset_tree import (
    caption_samples,
    index_uuid,
    prepare as prepare_split,
    shard_path,
    write_shard,
    write_shards,
    write_tar,
)
from tests.tables import CRUDE_YAML

prepare = partial(prepare_split, split=SplitRequest(ratio={"train": 1.0}))

DATASET_YAML = """\
sample_type:
  __module__: megatron.energon
  __class__: CaptioningSample
field_map:
  image: jpg
  caption: txt
"""


SampleParts: TypeAlias = dict[str, dict[str, bytes]]
"""The parts of samples, by key."""


def make_check(config: DatasetConfig | None, meta_folder: str, trust_code: bool = False) -> DecodeCheck:
    return DecodeCheck(config, DatasetCode(Path(meta_folder), trust_code=trust_code))


def lint(
    folder: Path,
    *,
    level: str = "decode",
    workers: int = 1,
    trust_code: bool = False,
    split_config: str | None = None,
    dataset_config: str | None = None,
    **options: Any,
) -> LintReport:
    check = partial(make_check, trust_code=trust_code)
    plan = LintPlan(
        ref=DatasetRef(str(folder), split_config, dataset_config),
        level=level,
        workers=workers,
        make_sample_check=check,
        **options,
    )
    report = lint_dataset(plan)
    assert all("tar shards" in finding.rule.kinds for finding in report.findings)
    return report


def places(findings: Iterable[Finding]) -> list[tuple[str, str | None, str | None, str | None, int | None]]:
    return [(each.code, each.shard, each.key, each.part, each.offset) for each in findings]


def codes(report: LintReport) -> list[str]:
    return sorted(finding.code for finding in report.findings)


def offset_of(folder: Path, shard: str, member: str) -> int:
    with tarfile.open(folder / shard) as tar:
        return tar.getmember(member).offset_data


def overwrite(path: Path, offset: int, data: bytes, *, keep_time: bool = True) -> None:
    stat = path.stat()
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)
    if keep_time:
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


# ------------------------------------------------------------------------------------- two thousand pictures


def photo(number: int, rng: np.random.Generator) -> bytes:
    """Return a JPEG with the grain and soft edges of a photo, so that its entropy-coded data is realistic."""
    y, x = np.mgrid[0:48, 0:48].astype(np.float32)
    angle = number * 0.7
    soft = 110 + 90 * np.sin((x * np.cos(angle) + y * np.sin(angle)) / (5 + number % 9))
    pixels = soft[..., None] + np.array([0, 20, -30]) + rng.normal(0, 9, (48, 48, 3))
    jpeg: bytes = simplejpeg.encode_jpeg(np.ascontiguousarray(np.clip(pixels, 0, 255).astype(np.uint8)), quality=85)
    return jpeg


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write 2,000 captioned images in 4 shards."""
    folder = tmp_path_factory.mktemp("pictures")
    rng = np.random.default_rng(5)
    for shard in range(4):
        samples = {
            f"{number:05d}": {"jpg": photo(number, rng), "txt": f"picture {number}".encode()}
            for number in range(500 * shard, 500 * (shard + 1))
        }
        write_shard(shard_path(folder, shard), samples)
    prepare_split(folder, files={"dataset.yaml": DATASET_YAML})
    return folder


@pytest.fixture
def pictures(pristine: Path, tmp_path: Path) -> Path:
    return shutil.copytree(pristine, tmp_path / "pictures")


@pytest.fixture
def in_a_thread() -> Iterable[None]:
    """Run a second thread, so that workers are spawned instead of forked."""
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    yield
    done.set()
    thread.join()


@pytest.mark.parametrize(
    ("level", "workers"),
    [
        *((level, 1) for level in ("headers", "bytes", "decode")),
        *(pytest.param(level, 2, marks=pytest.mark.slow) for level in ("headers", "bytes", "decode")),
    ],
)
def test_a_clean_dataset_has_no_findings(pictures: Path, level: str, workers: int) -> None:
    report = lint(pictures, level=level, workers=workers)
    assert (report.findings, report.complete, report.errors) == ((), True, 0)
    assert (report.shards, report.samples) == (4, 2000)


def break_entropy_data(jpeg: bytes) -> bytes:
    start = jpeg.index(b"\xff\xda") + 40
    return jpeg[:start] + b"\xff\xd9" + jpeg[start + 2 :]


def cut(jpeg: bytes) -> bytes:
    return jpeg[: len(jpeg) // 2] + bytes(len(jpeg) - len(jpeg) // 2)


def truncate(jpeg: bytes) -> bytes:
    return jpeg[: len(jpeg) * 2 // 3]


def make_html(jpeg: bytes) -> bytes:
    return b"<!DOCTYPE html>" + bytes(len(jpeg) - 15)


@pytest.mark.parametrize(
    ("damage", "workers"),
    [
        (break_entropy_data, "one"),
        (cut, "forked"),
        *(
            pytest.param(damage, workers, marks=pytest.mark.slow)
            for damage, workers in [
                (break_entropy_data, "forked"),
                (break_entropy_data, "spawned"),
                (cut, "one"),
                (cut, "spawned"),
                (make_html, "spawned"),
                (make_html, "one"),
                (make_html, "forked"),
            ]
        ),
    ],
)
@pytest.mark.sampled(2)
def test_one_broken_picture_of_two_thousand_is_named(
    pictures: Path, damage: Callable[[bytes], bytes], workers: str, request: pytest.FixtureRequest
) -> None:
    if workers == "spawned":
        request.getfixturevalue("in_a_thread")
    shard = shard_path(pictures, 2)
    offset = offset_of(pictures, shard.name, "01234.jpg")
    with tarfile.open(shard) as tar:
        file = tar.extractfile("01234.jpg")
        assert file is not None
        jpeg = file.read()
    overwrite(shard, offset, damage(jpeg))
    report = lint(pictures, workers=1 if workers == "one" else 2)
    assert places(report.findings) == [("E302", "shard_002.tar", "01234", "jpg", offset)]
    assert report.complete
    assert codes(lint(pictures, level="bytes")) == []  # only decoding finds it


def test_a_picture_that_was_cut_before_it_was_packed_is_named(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    samples = {f"{number}": {"jpg": photo(number, rng), "txt": b"text"} for number in range(6)}
    samples["4"]["jpg"] = truncate(samples["4"]["jpg"])
    write_shard(tmp_path / "a.tar", samples)
    prepare(tmp_path, files={"dataset.yaml": DATASET_YAML})
    assert places(lint(tmp_path).findings) == [("E302", "a.tar", "4", "jpg", offset_of(tmp_path, "a.tar", "4.jpg"))]


def test_texts_with_a_byte_order_mark_are_named_and_arrive_without_it(tmp_path: Path) -> None:
    marked = {"txt": b"\xef\xbb\xbfhello", "json": b'\xef\xbb\xbf{"n": 1}', "bin": b"\xef\xbb\xbf"}
    write_shard(tmp_path / "a.tar", {"1": {"txt": b"hello", "json": b"{}", "bin": b"x"}, "2": marked, "3": marked})
    prepare(tmp_path, files={"dataset.yaml": CRUDE_YAML})
    assert [(finding.code, finding.key, finding.part) for finding in lint(tmp_path).findings] == [
        ("W311", key, part) for key in "23" for part in ("txt", "json")
    ]
    samples = random_access(tmp_path)
    assert [samples[number]["txt"] for number in range(3)] == ["hello"] * 3
    assert samples[2]["json"] == {"n": 1}


def test_many_kinds_of_damage_are_all_named_in_order_and_fix_leaves_a_clean_dataset(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    samples = {f"{number:02d}": {"jpg": photo(number, rng), "txt": b"text"} for number in range(12)}
    samples["02"]["jpg"] = cut(samples["02"]["jpg"])
    del samples["04"]["txt"]
    del samples["05"]["jpg"]
    samples["06"]["jpg"] = b""
    samples["07"]["txt"] = b""
    samples["08"]["txt"] = b"caf\xe9"
    write_shard(shard_path(tmp_path, 0), {key: parts for key, parts in samples.items() if key < "06"})
    write_shard(shard_path(tmp_path, 1), {key: parts for key, parts in samples.items() if key >= "06"})
    write_tar(shard_path(tmp_path, 2), [("12.jpg", photo(1, rng)), ("12.jpg", photo(2, rng)), ("12.txt", b"text")])
    prepare(tmp_path, files={"dataset.yaml": DATASET_YAML})
    report = lint(tmp_path, workers=2)

    def at(shard: int, member: str) -> int:
        return offset_of(tmp_path, f"shard_00{shard}.tar", member)

    assert places(report.findings) == [
        ("E302", "shard_000.tar", "02", "jpg", at(0, "02.jpg")),
        ("E301", "shard_000.tar", "04", "txt", at(0, "04.jpg") - 512),
        ("E301", "shard_000.tar", "05", "jpg", at(0, "05.txt") - 512),
        ("E303", "shard_001.tar", "06", "jpg", at(1, "06.jpg")),
        ("W308", "shard_001.tar", "07", "txt", at(1, "07.txt")),
        ("E302", "shard_001.tar", "08", "txt", at(1, "08.txt")),
        ("E306", "shard_002.tar", "12", "jpg", at(2, "12.jpg")),
    ]
    messages = {finding.key: finding.message for finding in report.findings}
    assert messages["04"] == "field 'caption' needs part txt; the sample has jpg"
    assert messages["05"] == "field 'image' needs part jpg; the sample has txt"

    before = (tmp_path / ".nv-meta/split.yaml").read_bytes()
    dataset = folder_at(tmp_path)
    assert exclude_broken_samples(dataset, report.findings) == 6
    assert (tmp_path / ".nv-meta/split.yaml.bak").read_bytes() == before
    for level in ("headers", "decode"):
        assert codes(lint(tmp_path, level=level)) == ["W308"]
    after = (tmp_path / ".nv-meta/split.yaml").read_bytes()
    assert exclude_broken_samples(folder_at(tmp_path), report.findings) == 0
    assert (tmp_path / ".nv-meta/split.yaml").read_bytes() == after
    assert not prepare(tmp_path, split=None).changed  # excluding samples does not change the data


def tiff(shape: tuple[int, ...], kind: str, **layout: Any) -> bytes:
    data = io.BytesIO()
    tifffile.imwrite(data, np.ones(shape, kind), photometric="minisblack", **layout)
    return data.getvalue()


def jpeg_of_12_bits() -> bytes:
    jpeg = bytearray(photo(1, np.random.default_rng(1)))
    jpeg[jpeg.index(b"\xff\xc0") + 4] = 12
    return bytes(jpeg)


def jpeg_2000_of_13_channels() -> bytes:
    data = io.BytesIO()
    Image.new("RGB", (40, 30)).save(data, "JPEG2000", no_jp2=True)
    code = bytearray(data.getvalue())
    code[40:42] = (13).to_bytes(2, "big")
    return bytes(code)


UNREAD_PICTURES: dict[str, tuple[bytes, str]] = {
    "bands": (tiff((13, 20, 30), "u2", planarconfig="separate"), "a TIFF picture with 13 bands of 16 bits"),
    "pixels": (tiff((20, 30, 13), "u2", planarconfig="contig"), "13 bands of 16 bits, unsigned integers"),
    "tiles": (tiff((32, 32, 5), "i4", planarconfig="contig", tile=(16, 16)), "5 bands of 32 bits, signed integers"),
    "big": (tiff((6, 20, 30), "u1", planarconfig="separate", bigtiff=True), "6 bands of 8 bits"),
    "big-endian": (tiff((2, 20, 30), "f4", planarconfig="separate", byteorder=">"), "2 bands of 32 bits, floats"),
    "half": (tiff((20, 30), "f2"), "1 band of 16 bits, floats"),
    "floats": (tiff((20, 30), "f4"), "its pixels are floats"),
    "jpeg": (jpeg_of_12_bits(), "a JPEG picture with 12 bits a channel"),
    "jpeg-2000": (jpeg_2000_of_13_channels(), "a JPEG 2000 code stream with 13 channels of 8 bits"),
    "exr": (b"v/1\x01" + bytes(100), "an OpenEXR picture"),
    "jxl": (b"\xff\x0a\x4d" + bytes(100), "pip install pillow-jxl-plugin"),
}


def test_whole_pictures_that_pillow_does_not_read_are_no_damage_and_fix_keeps_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pillow_jxl", None)
    monkeypatch.delitem(Image.OPEN, "JXL", raising=False)
    monkeypatch.setattr(Image, "ID", [name for name in Image.ID if name != "JXL"])  # as other tests may add it
    whole = {f"{name}": {"jpg": data, "txt": b"text"} for name, (data, _) in UNREAD_PICTURES.items()}
    cut_off = {
        f"cut-{name}": {"jpg": data[: len(data) * 2 // 3], "txt": b"text"}
        for name, (data, _) in UNREAD_PICTURES.items()
        if name not in ("exr", "jxl")  # which are not looked into
    }
    write_shard(tmp_path / "a.tar", {**whole, **cut_off})
    prepare(tmp_path, files={"dataset.yaml": DATASET_YAML})
    report = lint(tmp_path)
    found = {str(finding.key): finding for finding in report.findings}
    assert {key: finding.code for key, finding in found.items()} == {
        **dict.fromkeys(whole, "W312"),
        **dict.fromkeys(cut_off, "E302"),
    }
    for name, (_, text) in UNREAD_PICTURES.items():
        assert text in found[name].message
    assert exclude_broken_samples(folder_at(tmp_path), report.findings) == len(cut_off)
    assert set(codes(lint(tmp_path))) == {"W312"}


def test_fix_needs_a_split_file(tmp_path: Path) -> None:
    write_shards(tmp_path, 2)
    prepare(tmp_path, split=None)
    broken = Finding(SampleFaults.E302, "", shard="shard_000.tar", key="00000")
    with pytest.raises(ConfigError, match="this dataset has no split file"):
        exclude_broken_samples(folder_at(tmp_path), [broken])
    prepare(tmp_path)
    assert exclude_broken_samples(folder_at(tmp_path), [Finding(Shards.E105, "", shard="x", key="y")]) == 0
    assert not (tmp_path / ".nv-meta/split.yaml.bak").exists()


def test_levels_find_what_they_promise(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    samples = {f"{number}": {"jpg": photo(number, rng), "txt": b"text"} for number in range(4)}
    samples["1"]["jpg"] = cut(samples["1"]["jpg"])
    del samples["2"]["txt"]
    write_shard(tmp_path / "a.tar", samples)
    prepare(tmp_path, files={"dataset.yaml": DATASET_YAML})
    assert codes(lint(tmp_path, level="headers")) == ["E301"]
    assert codes(lint(tmp_path, level="bytes")) == ["E301"]
    assert codes(lint(tmp_path, level="decode")) == ["E301", "E302"]


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_max_findings_stops_early_and_says_so(tmp_path: Path, workers: int) -> None:
    samples = {f"{number}": {"jpg": b"no picture", "txt": b"text"} for number in range(1000)}
    write_shard(tmp_path / "a.tar", samples)
    prepare(tmp_path, files={"dataset.yaml": DATASET_YAML})
    report = lint(tmp_path, max_findings=7, workers=workers)
    assert (len(report.findings), report.complete) == (7, False)
    report = lint(tmp_path, max_findings=1000)
    assert (len(report.findings), report.complete) == (1000, True)
    (tmp_path / ".nv-meta/split.yaml").unlink()
    (tmp_path / ".nv-meta/dataset.yaml").unlink()
    report = lint(tmp_path, max_findings=1)
    assert (codes(report), report.complete) == (["W004"], False)
    report = lint(tmp_path, max_findings=2, level="headers")
    assert (codes(report), report.complete) == (["E002", "W004"], False)


def test_max_findings_keeps_the_first_ones_of_the_data_whichever_worker_is_faster(tmp_path: Path) -> None:
    for name in "ab":
        samples = {f"{name}{number}": {"jpg": b"no picture", "txt": b"text"} for number in range(4)}
        write_shard(tmp_path / f"{name}.tar", samples)
    prepare(tmp_path, files={"dataset.yaml": DATASET_YAML})
    check = partial(broken_but_late_in_the_first_shard, tmp_path / "done")
    plan = LintPlan(
        ref=DatasetRef(str(tmp_path)), workers=2, max_findings=3, make_sample_check=lambda config, folder: check
    )
    report = lint_dataset(plan)
    assert [finding.key for finding in report.findings] == ["a0", "a1", "a2"]
    assert not report.complete


def broken_but_late_in_the_first_shard(done: Path, key: str, parts: object) -> list[tuple[str | None, str]]:
    deadline = time.monotonic() + 20
    while key == "a0" and not done.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    if key == "a0":
        time.sleep(0.3)  # until the other worker has sent its findings
    if key == "b3":
        done.touch()
    return [("jpg", "broken")]


@pytest.mark.parametrize(("level", "unit", "total"), [("headers", "shards", 4), ("decode", "samples", 2000)])
def test_progress_counts_up_to_the_total(pictures: Path, level: str, unit: str, total: int) -> None:
    seen: list[LintProgress] = []
    plan = LintPlan(ref=DatasetRef(str(pictures)), level=level, make_sample_check=make_check)
    lint_dataset(plan, on_progress=seen.append)
    assert {(now.total, now.unit) for now in seen} == {(total, unit)}
    assert [now.done for now in seen] == sorted(now.done for now in seen)
    assert seen[-1].done == total


def test_only_the_chosen_split_parts_are_checked(pictures: Path) -> None:
    split = folder_at(pictures).documents.split
    assert split is not None
    parts = split.split_parts
    offset = offset_of(pictures, parts["val"][0], f"{500 * int(parts['val'][0][8]):05d}.jpg")
    overwrite(pictures / parts["val"][0], offset, bytes(100))
    assert codes(lint(pictures, split_parts=("train",))) == []
    assert lint(pictures, split_parts=("train",)).shards == len(parts["train"])
    assert codes(lint(pictures, split_parts=("val",))) == ["E302"]
    with pytest.raises(ConfigError, match="there is no split part 'nonsense'; there are: train, val"):
        lint(pictures, split_parts=("train", "nonsense"))
    (pictures / ".nv-meta/split.yaml").unlink()
    report = lint(pictures, split_parts=("train",))
    assert (codes(report), report.samples) == (["E002"], 0)


@pytest.mark.parametrize(
    ("plan", "fault"),
    [
        ({"level": "byte", "make_sample_check": make_check}, "no lint level 'byte'; did you mean 'bytes'"),
        ({}, "found none"),
        ({"level": "decode"}, "found none"),
    ],
)
def test_a_plan_that_would_check_less_than_it_says_is_refused(plan: dict[str, Any], fault: str) -> None:
    with pytest.raises(ConfigError, match=fault):
        LintPlan(ref=DatasetRef("anywhere"), **plan)


def test_excluded_shards_and_samples_are_not_checked(pictures: Path) -> None:
    overwrite(shard_path(pictures, 1), offset_of(pictures, "shard_001.tar", "00501.jpg"), bytes(100))
    overwrite(shard_path(pictures, 2), offset_of(pictures, "shard_002.tar", "01001.jpg"), bytes(100))
    assert codes(lint(pictures)) == ["E302", "E302"]
    edit_split(pictures, exclude="[shard_001.tar, shard_002.tar/01001]")
    report = lint(pictures)
    assert (codes(report), report.shards) == ([], 3)


def test_a_check_that_fails_hides_no_other_sample(pictures: Path) -> None:
    plan = LintPlan(ref=DatasetRef(str(pictures)), make_sample_check=lambda config, folder: crash_on_one)
    report = lint_dataset(plan)
    assert places(report.findings) == [
        ("E307", "shard_002.tar", "01007", None, offset_of(pictures, "shard_002.tar", "01007.jpg"))
    ]
    assert (
        report.findings[0].message
        == "the check of this sample failed: ZeroDivisionError: integer division or modulo by zero"
    )


def crash_on_one(key: str, parts: Mapping[str, bytes]) -> list[tuple[str | None, str]]:
    return [] if key != "01007" else [(None, str(1 // 0))]


def test_a_killed_worker_is_named_with_its_samples(pictures: Path) -> None:
    plan = LintPlan(ref=DatasetRef(str(pictures)), workers=2, make_sample_check=make_killing_check)
    with pytest.raises(WorkerError, match=r"while it worked on shard_002\.tar, samples range\(1000, 1256\)"):
        lint_dataset(plan)


def make_killing_check(config: DatasetConfig | None, folder: str) -> SampleCheck:
    return kill_on_one


def kill_on_one(key: str, parts: Mapping[str, bytes]) -> list[tuple[str | None, str]]:
    if key == "01007":
        os.kill(os.getpid(), 9)
    return []


def test_a_checker_is_picklable_in_use(pictures: Path) -> None:
    check = partial(lint_run.check_shard, read_bytes=False, config=None, sqlite_numbers={})
    checker = lint_run.OnDataset(partial(folder_at, pictures), check)
    shard = folder_at(pictures).index.shards[0]
    assert checker(shard) == []
    assert pickle.loads(pickle.dumps(checker))(shard) == []


def test_a_shard_that_is_cut_while_it_is_checked_gives_no_part_to_the_check(pictures: Path) -> None:
    dataset = folder_at(pictures)
    entry = dataset.index.shards[0]
    offset = offset_of(pictures, entry.name, "00000.jpg")
    os.truncate(pictures / entry.name, offset + 10)
    lint = lint_contents.SampleLint(must_not_be_called)
    [finding] = lint_run.decode_samples(dataset, lint_run.LintTask(entry, range(1)), lint=lint)[0]
    assert (finding.code, finding.shard, finding.key, finding.offset) == ("E104", entry.name, "00000", offset)
    assert "the shard ends after 10 of them" in finding.message


def must_not_be_called(key: str, parts: Mapping[str, bytes]) -> list[tuple[str | None, str]]:
    raise AssertionError


def shard_entry(name: str, first: int, samples: int) -> ShardEntry:
    return ShardEntry(
        name=name, size_bytes=0, mtime_ns=0, samples=samples, first_sample=first, end_offset=0, plain=True
    )


def test_tasks_are_made_when_they_are_asked_for() -> None:
    shards = [shard_entry(f"{number}.tar", 10**9 * number, 10**9 if number != 1 else 0) for number in range(3)]
    tasks = lint_run.DecodeTasks(shards)
    assert len(tasks) == 2 * 3_906_250
    assert tasks[0] == lint_run.LintTask(shards[0], range(256))
    assert tasks[3_906_250] == lint_run.LintTask(shards[2], range(2 * 10**9, 2 * 10**9 + 256))
    few = [shard_entry("a.tar", 0, 600), shard_entry("b.tar", 600, 0), shard_entry("c.tar", 600, 256)]
    assert [each.samples for each in lint_run.DecodeTasks(few)] == [
        range(256), range(256, 512), range(512, 600), range(600, 856),
    ]  # fmt: skip
    assert list(lint_run.DecodeTasks([])) == []


# ------------------------------------------------------------------------------------------------ damaged shards


@pytest.fixture(scope="module")
def pristine_small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_shards(tmp_path_factory.mktemp("pristine") / "small")
    prepare(folder, files={"dataset.yaml": "__module__: megatron.energon\n__class__: CrudeWebdataset\n"})
    assert lint(folder).findings == ()
    return folder


@pytest.fixture
def small(pristine_small: Path, tmp_path: Path) -> Path:
    """Copy 6 shards of 3 crude samples."""
    return Path(shutil.copytree(pristine_small, tmp_path / "small"))


@pytest.fixture
def one_large_gap(tmp_path: Path) -> Path:
    """Write a sample with some hundred KiB of other parts between its parts."""
    write_tar(tmp_path / "a.tar", [("a.txt", b"a"), ("b.bin", bytes(200_000)), ("a.json", b"{"), ("b.txt", b"b")])
    prepare(tmp_path, files={"dataset.yaml": "__module__: megatron.energon\n__class__: CrudeWebdataset\n"})
    return tmp_path


def test_scattered_parts_are_warned_of_and_checked(one_large_gap: Path) -> None:
    found = lint(one_large_gap).findings
    assert sorted(places(found), key=str) == [
        ("E302", "a.tar", "a", "json", offset_of(one_large_gap, "a.tar", "a.json")),
        ("W304", "a.tar", "a", None, None),
        ("W304", "a.tar", "b", None, None),
    ]


@pytest.mark.parametrize("size", [100, 512, 1024, 3000])
def test_a_shard_that_was_cut_after_it_was_prepared(small: Path, size: int) -> None:
    os.truncate(shard_path(small, 3), size)
    report = lint(small)
    assert {(each.code, each.shard) for each in report.findings} <= {
        ("E102", "shard_003.tar"),
        ("E104", "shard_003.tar"),
        ("E006", "shard_003.tar"),
        ("E007", "shard_003.tar"),
        ("W106", "shard_003.tar"),
    }
    assert {"E102"} <= set(codes(report))
    assert codes(report).count("E102") == 1


def test_a_shard_that_lost_its_end_blocks_is_stale_and_not_damaged(small: Path) -> None:
    end = offset_of(small, "shard_003.tar", "00011.txt") + 512
    os.truncate(shard_path(small, 3), end)
    assert codes(lint(small)) == ["E102", "W106"]


def test_a_shard_that_was_cut_before_it_was_prepared_between_two_members(tmp_path: Path) -> None:
    write_shards(tmp_path, 2)
    os.truncate(shard_path(tmp_path, 1), offset_of(tmp_path, "shard_001.tar", "00004.txt") + 512)
    prepare(tmp_path)
    found = [finding for finding in lint(tmp_path).findings if finding.code != "W004"]
    assert [(each.code, each.shard) for each in found] == [("W106", "shard_001.tar")]
    assert "the file may have been cut between two members" in found[0].message


@pytest.mark.parametrize("header", ["00010.json", "00011.txt"])
def test_a_damaged_header_is_named_by_its_offset(small: Path, header: str) -> None:
    offset = offset_of(small, "shard_003.tar", header) - 512
    overwrite(shard_path(small, 3), offset + 10, b"garbage")
    [finding] = lint(small).findings
    assert (finding.code, finding.shard, finding.offset) == ("E104", "shard_003.tar", offset)


def test_a_missing_shard_is_named(small: Path) -> None:
    shard_path(small, 2).unlink()
    assert places(lint(small).findings) == [("E101", "shard_002.tar", None, None, None)]


def test_all_shards_missing_are_all_named(small: Path) -> None:
    for path in small.glob("*.tar"):
        path.unlink()
    assert codes(lint(small)) == ["E101"] * 6


def test_a_shard_that_cannot_be_read_is_named(small: Path) -> None:
    shard_path(small, 2).unlink()
    shard_path(small, 2).symlink_to(shard_path(small, 2).name)  # a loop
    assert [(each.code, each.shard) for each in lint(small).findings] == [("E109", "shard_002.tar")]


def test_a_shard_that_becomes_unreadable_while_it_is_checked_is_named(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    real = LocalStorage.open

    def fail_after(opens: int) -> None:
        count = 0

        def failing(self: LocalStorage, name: str, info: FileInfo | None = None) -> ReadableFile:
            nonlocal count
            count += name == "shard_002.tar"
            if name == "shard_002.tar" and count > opens:
                raise StorageError("cannot open this file: Input/output error", path=name)
            return real(self, name, info)

        monkeypatch.setattr(LocalStorage, "open", failing)

    for opens in (0, 1, 2):  # for its headers, for the bytes after the archive, for its samples
        fail_after(opens)
        assert [(each.code, each.shard) for each in lint(small).findings] == [("E109", "shard_002.tar")]
    fail_after(2)
    assert codes(lint(small, level="bytes")) == ["E109"]


def test_a_read_that_fails_is_named_and_the_samples_behind_it_are_checked(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    overwrite(shard_path(small, 2), offset_of(small, "shard_002.tar", "00008.json"), b"?")

    def failing(file: ReadableFile, locations: Sequence[PartLocation], **options: Any) -> dict[str, bytes]:
        if locations[0].offset == offset_of(small, "shard_002.tar", "00007.json"):
            raise StorageError("cannot read bytes: Input/output error")
        return read_sample(file, locations, **options)

    offsets = [offset_of(small, "shard_002.tar", f"0000{number}.json") for number in (7, 8)]
    monkeypatch.setattr(lint_contents, "read_sample", failing)
    found = [each for each in lint(small).findings if each.shard == "shard_002.tar" or each.key]
    assert ("E109", "shard_002.tar", "00007", None, offsets[0]) in places(found)
    assert ("E302", "shard_002.tar", "00008", "json", offsets[1]) in places(found)


def test_a_copy_with_other_times_is_only_a_warning(small: Path) -> None:
    os.utime(shard_path(small, 4))
    assert places(lint(small).findings) == [("W103", "shard_004.tar", None, None, None)]


@pytest.mark.parametrize("where", ["right after it", "far after it"])
def test_bytes_behind_the_archive_are_warned_of(tmp_path: Path, where: str) -> None:
    write_shards(tmp_path, 2)
    first, second = shard_path(tmp_path, 0), shard_path(tmp_path, 1)
    padding = bytes(5 * 1024 * 1024) if where == "far after it" else b""
    size = first.stat().st_size + len(padding)
    first.write_bytes(first.read_bytes() + padding + second.read_bytes())
    second.unlink()
    prepare(tmp_path)
    found = [finding for finding in lint(tmp_path).findings if finding.code != "W004"]
    assert ("W107", "shard_000.tar", None, None, size) in places(found)
    assert {each.code for each in found} <= {"W106", "W107"}  # W106: the warning of prepare


def test_members_that_belong_to_no_sample_are_no_bytes_behind_the_archive(tmp_path: Path) -> None:
    write_tar(tmp_path / "a.tar", [("a.txt", b"a"), ("__meta__.json", b"{}"), ("LICENSE", b"long text" * 200)])
    prepare(tmp_path)
    assert codes(lint(tmp_path)) == ["W004", "W106"]


def test_an_empty_shard_is_warned_of(tmp_path: Path) -> None:
    write_shards(tmp_path, 3)
    write_tar(shard_path(tmp_path, 1), [])
    prepare(tmp_path)
    found = [(each.code, each.shard) for each in lint(tmp_path).findings if each.code != "W004"]
    assert ("W108", "shard_001.tar") in found
    assert {code for code, _ in found} == {"W106", "W108"}


# ------------------------------------------------------------------------------------------------- a stale index


def rewritten(folder: Path, change: Callable[[SampleParts], SampleParts], *, keep_time: bool) -> None:
    """Rewrite shard 3 from its samples, in the same size."""
    path = shard_path(folder, 3)
    stat = path.stat()
    write_shard(path, change(caption_samples(9, 3)))
    assert path.stat().st_size == stat.st_size
    if keep_time:
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def reversed_samples(samples: SampleParts) -> SampleParts:
    return dict(reversed(samples.items()))


def renamed_samples(samples: SampleParts) -> SampleParts:
    return {key.replace("00010", "00077"): parts for key, parts in samples.items()}


def renamed_parts(samples: SampleParts) -> SampleParts:
    return {key: {"json": parts["json"], "text": parts["txt"]} for key, parts in samples.items()}


def longer_text(samples: SampleParts) -> SampleParts:
    return samples | {"00010": samples["00010"] | {"txt": b"text of another length"}}


def other_grouping(samples: SampleParts) -> SampleParts:
    parts = samples["00010"]
    return {"00009": samples["00009"], "00010": {"json": parts["json"]}, "00012b": {"txt": parts["txt"]}} | {
        "00011": samples["00011"]
    }


def fewer_parts(samples: SampleParts) -> SampleParts:
    return samples | {"00010": {"json": samples["00010"]["json"] + b" " * 1024}}


@pytest.mark.parametrize(
    ("change", "key"),
    [
        (reversed_samples, None),
        (renamed_samples, "00077"),
        (renamed_parts, "00009"),
        (longer_text, "00010"),
        (other_grouping, None),
        (fewer_parts, "00010"),
    ],
)
@pytest.mark.parametrize("keep_time", [True, False])
def test_a_shard_rewritten_at_equal_size_makes_the_index_stale_and_blames_no_sample(
    small: Path, change: Callable[[SampleParts], SampleParts], key: str | None, keep_time: bool
) -> None:
    rewritten(small, change, keep_time=keep_time)
    report = lint(small)
    assert {each.shard for each in report.findings} == {"shard_003.tar"}
    assert set(codes(report)) <= {"E105", "E006", "E007", "W103"}
    [stale] = [each for each in report.findings if each.code == "E105"]
    if key is not None:
        assert stale.key == key
    assert "energon prepare --force-overwrite" in stale.message
    assert exclude_broken_samples(folder_at(small), report.findings) == 0
    prepare(small, force=True)
    assert lint(small).findings == ()


def test_a_shard_rewritten_at_another_size(small: Path) -> None:
    write_shard(shard_path(small, 3), caption_samples(9, 30, prefix="new"))
    assert set(codes(lint(small))) <= {"E102", "E006", "E007"}
    assert "E102" in codes(lint(small))
    prepare(small)
    assert lint(small).findings == ()


def column_of(folder: Path, name: str) -> np.memmap[Any, np.dtype[Any]]:
    column: np.memmap[Any, np.dtype[Any]] = np.load(
        folder / ".nv-meta/index" / index_uuid(folder) / f"{name}.npy", mmap_mode="r+"
    )
    return column


COLUMNS = ["part_ends", "key_ends", "key_bytes", "part_name", "part_offset", "part_size", "key_hash", "key_sample"]
CHANGES = [(row, value) for row in (0, 7, -1) for value in ("1 more", "huge", "zero")]


@pytest.mark.parametrize(
    ("name", "row", "value"),
    [
        pytest.param(name, *change, marks=() if (at + turn) % 3 == 0 else pytest.mark.slow)
        for at, name in enumerate(COLUMNS)
        for turn, change in enumerate(CHANGES)
    ],
)
@pytest.mark.sampled(2)
def test_a_changed_column_is_told(small: Path, name: str, row: int, value: str) -> None:
    column = column_of(small, name)
    before = int(column[row])
    after = {"1 more": before + 1, "huge": np.iinfo(column.dtype).max, "zero": 0}[value]
    if after == before:
        return
    column[row] = after
    column.flush()
    report = lint(small)
    assert report.errors > 0
    assert {each.code for each in report.findings} <= {"E005", "E105"}
    advice = [f"{each.message} {each.hint}" for each in report.findings]
    assert all("--force-overwrite" in each or "prepare again" in each for each in advice)
    assert exclude_broken_samples(folder_at(small), report.findings) == 0
    prepare(small, force=True)
    assert lint(small).findings == ()


def test_a_missing_index_column_is_told(small: Path) -> None:
    (small / ".nv-meta/index" / index_uuid(small) / "part_size.npy").unlink()
    assert codes(lint(small)) == ["E005"]


def test_other_numbers_in_info_json_are_told(small: Path) -> None:
    info = small / ".nv-meta/.info.json"
    info.write_text(info.read_text().replace('"shard_003.tar": 3', '"shard_003.tar": 4'))
    report = lint(small)
    assert codes(report) == ["E005"]
    assert str(report.findings[0].at).endswith("shard_003.tar")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"shard_counts": {"a.tar": "x"}}'])
def test_a_damaged_info_json_is_told(small: Path, text: str) -> None:
    (small / ".nv-meta/.info.json").write_text(text)
    assert codes(lint(small)) == ["E001"]


def test_a_folder_that_is_not_prepared_or_not_there_is_told(tmp_path: Path) -> None:
    write_shards(tmp_path, 1)
    assert codes(lint(tmp_path)) == ["E001"]
    assert codes(lint(tmp_path / "nowhere")) == ["E001"]


# -------------------------------------------------------------------------------------------------- compat files


@pytest.mark.parametrize(
    ("statement", "shard", "key", "part"),
    [
        ("UPDATE samples SET byte_offset = byte_offset + 512 WHERE sample_key = '00010'", 3, "00010", None),
        ("UPDATE samples SET byte_size = 1 WHERE sample_key = '00010'", 3, "00010", None),
        ("UPDATE samples SET sample_key = 'other' WHERE sample_key = '00010'", 3, "00010", None),
        ("DELETE FROM samples WHERE sample_key = '00010'", 3, "00010", None),
        ("DELETE FROM samples WHERE sample_key = '00011'", 3, "00011", None),
        ("DELETE FROM samples WHERE tar_file_id = 2", 2, "00006", None),
        ("INSERT INTO samples VALUES (2, 'more', 3, 0, 512)", 2, None, None),
        ("INSERT INTO samples VALUES (6, 'more', 0, 0, 512)", None, None, None),
        ("DROP TABLE samples", None, None, None),
        ("UPDATE sample_parts SET part_name = 'jpg' WHERE tar_file_id = 3 AND part_name = 'txt'", 3, "00009", "txt"),
        (
            "UPDATE sample_parts SET content_byte_size = 0 WHERE tar_file_id = 4 AND sample_index = 2",
            4,
            "00014",
            "json",
        ),
        (
            "DELETE FROM sample_parts WHERE tar_file_id = 4 AND sample_index = 2 AND part_name = 'txt'",
            4,
            "00014",
            "txt",
        ),
        ("INSERT INTO sample_parts VALUES (5, 9, 'txt', 512, 1)", 5, None, None),
    ],
)
def test_changed_rows_of_index_sqlite_are_told(
    small: Path, statement: str, shard: int | None, key: str | None, part: str | None
) -> None:
    with closing(sqlite3.connect(small / ".nv-meta/index.sqlite")) as database, database:
        database.execute(statement)
    [finding] = lint(small).findings
    assert (finding.code, finding.key, finding.part) == ("E006", key, part)
    assert finding.shard == (None if shard is None else shard_path(small, shard).name)
    assert "energon prepare --force-overwrite rebuilds it" in finding.message
    prepare(small, force=True)
    assert lint(small).findings == ()


def test_an_index_sqlite_that_is_none_is_told_once(small: Path) -> None:
    (small / ".nv-meta/index.sqlite").write_bytes(b"garbage" * 4000)
    [finding] = lint(small).findings
    assert (finding.code, finding.shard) == ("E006", None)


def test_an_index_sqlite_with_a_damaged_page_is_told(tmp_path: Path) -> None:
    folder = write_shards(tmp_path, 6, samples=200)
    prepare(folder)
    path = folder / ".nv-meta/index.sqlite"
    for page in range(8, path.stat().st_size // 4096, 3):
        overwrite(path, page * 4096, b"\xff" * 200)
    assert {each.code for each in lint(folder).findings} == {"W004", "E006"}
    prepare(folder, force=True)
    assert codes(lint(folder)) == ["W004"]


def test_a_damaged_table_of_parts_is_told(small: Path) -> None:
    path = small / ".nv-meta/index.sqlite"
    with closing(sqlite3.connect(path)) as database:
        [(page,)] = database.execute("SELECT rootpage FROM sqlite_master WHERE name = 'sample_parts'").fetchall()
    overwrite(path, (page - 1) * 4096, b"\xff" * 4096)
    found = lint(small).findings
    assert [(each.code, each.shard) for each in found] == [("E006", shard_path(small, n).name) for n in range(6)]
    assert "index.sqlite cannot be read" in found[0].message


def test_an_index_sqlite_without_the_table_of_parts_is_one_of_an_older_tool(small: Path) -> None:
    with closing(sqlite3.connect(small / ".nv-meta/index.sqlite")) as database, database:
        database.execute("DROP TABLE sample_parts")
    assert lint(small).findings == ()


@pytest.mark.parametrize("level", ["headers", "decode"])
def test_changed_tar_idx_files_are_told(small: Path, level: str) -> None:
    overwrite(small / "shard_001.tar.idx", 8, (512).to_bytes(8, "little"))
    os.truncate(small / "shard_002.tar.idx", 16)
    (small / "shard_004.tar.idx").unlink()
    assert places(lint(small, level=level).findings) == [
        ("E007", "shard_001.tar", None, None, None),
        ("E007", "shard_002.tar", None, None, None),
        ("W008", "shard_004.tar", None, None, None),
    ]


def test_a_dataset_without_compat_files_needs_none(tmp_path: Path) -> None:
    write_shards(tmp_path, 2)
    prepare(tmp_path, compat=False)
    assert codes(lint(tmp_path)) == ["W004"]


# --------------------------------------------------------------------------------------------------------- yaml


def edit_split(folder: Path, *, parts: str | None = None, exclude: str | None = None) -> None:
    unchanged = (folder / ".nv-meta/split.yaml").read_text().partition("exclude:")[0]
    text = f"split_parts: {parts}\n" if parts is not None else unchanged
    (folder / ".nv-meta/split.yaml").write_text(text + (f"exclude: {exclude}\n" if exclude is not None else ""))


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ("{train: ['shard_{000..003}.tar'], val: ['shard_{003..005}.tar']}", [("E203", "shard_003.tar")]),
        ("{train: ['shard_{000..004}.tar'], val: []}", [("W205", None), ("W201", "shard_005.tar")]),
        ("{train: ['shard_{000..006}.tar']}", [("E202", "shard_006.tar")]),
        ("{train: ['shard_{000..003}.tar'], val: ['shard_{004..005}.tar']}", []),
    ],
)
def test_faults_of_the_split(small: Path, parts: str, expected: list[tuple[str, str | None]]) -> None:
    edit_split(small, parts=parts)
    found = [(each.code, each.shard) for each in lint(small).findings]
    assert sorted(found, key=str) == sorted(expected, key=str)


def test_excluded_names_that_do_not_exist(small: Path) -> None:
    edit_split(small, exclude="[shard_001.tar, shard_009.tar, shard_000.tar/00001, shard_000.tar/nothing]")
    assert places(lint(small).findings) == [
        ("W204", "shard_009.tar", None, None, None),
        ("W204", "shard_000.tar", "nothing", None, None),
    ]


def test_a_shard_that_is_new_on_disk(small: Path) -> None:
    write_shard(small / "new.tar", caption_samples(90, 1))
    [finding] = lint(small).findings
    assert (finding.code, finding.shard) == ("W201", "new.tar")
    assert "not in the index either" in finding.message
    assert finding.blocks_exclusion
    assert not Finding(Split.W201, "training never reads this shard", shard="new.tar").blocks_exclusion


@pytest.mark.parametrize("text", ["split_parts: [", "split_part: {}", "split_parts: {train: 5, val: {}}", "5"])
def test_a_split_that_says_something_wrong(small: Path, text: str) -> None:
    (small / ".nv-meta/split.yaml").write_text(text)
    report = lint(small)
    assert set(codes(report)) == {"E002"}
    if "val" in text:
        assert len(report.findings) == 2
    assert codes(lint(small, split_parts=("train",)))[-1] in ("E001", "E002")


def test_a_missing_split_and_a_missing_dataset_yaml(small: Path) -> None:
    (small / ".nv-meta/split.yaml").unlink()
    (small / ".nv-meta/dataset.yaml").unlink()
    assert codes(lint(small)) == ["E002", "W004"]
    assert "E003" in codes(lint(small, dataset_config="other.yaml"))
    assert "E002" in codes(lint(small, split_config="other.yaml"))


@pytest.mark.parametrize(
    "text",
    [
        "sample_type: [",
        "sample_type: {__module__: megatron.energon, __class__: CaptionSample}\nfield_map: {image: jpg, caption: txt}",
        "sample_type: {__module__: megatron.energon, __class__: CaptioningSample}\nfield_map: {picture: jpg}",
        "nonsense: 1",
    ],
)
def test_a_dataset_yaml_that_says_something_wrong(small: Path, text: str) -> None:
    (small / ".nv-meta/dataset.yaml").write_text(text)
    assert set(codes(lint(small))) == {"E003"}


def test_keys_in_two_shards_are_warned_of(tmp_path: Path) -> None:
    write_shards(tmp_path, 3)
    write_shard(shard_path(tmp_path, 2), caption_samples(1, 3))
    prepare(tmp_path)
    found = [each for each in lint(tmp_path).findings if each.code != "W004"]
    assert sorted((each.code, each.shard, each.key) for each in found) == [
        ("W305", "shard_002.tar", key) for key in ("00001", "00002", "00003")
    ]
    assert {each.message.split()[1] for each in found} == {
        "shard_000.tar/00001",
        "shard_000.tar/00002",
        "shard_001.tar/00003",
    }


def test_of_very_many_equal_keys_the_first_are_named_and_all_are_counted(tmp_path: Path) -> None:
    for number in range(2):
        write_shard(shard_path(tmp_path, number), caption_samples(0, 150))
    prepare(tmp_path)
    found = [each for each in lint(tmp_path, level="headers").findings if each.code == "W305"]
    assert len(found) == 101
    assert [each.message for each in found if each.shard is None] == [
        "150 samples repeat a key: run energon prepare --fix-duplicates"
    ]


# ------------------------------------------------------------------------------------------------ sample loaders

LOADER = "def sample_loader(parts):\n    return dict(image=parts['jpg'], caption=parts['txt'])\n"
LOADER_YAML = (
    "sample_type: {__module__: megatron.energon, __class__: CaptioningSample}\n"
    "sample_loader: sample_loader.py:sample_loader\n"
)


def test_a_part_that_the_sample_loader_misses_is_told_where_its_code_may_run(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    samples = {f"{number}": {"jpg": photo(number, rng), "txt": b"text"} for number in range(4)}
    del samples["2"]["txt"]
    write_shard(tmp_path / "a.tar", samples)
    prepare(tmp_path, files={"dataset.yaml": LOADER_YAML, "sample_loader.py": LOADER})
    [finding] = lint(tmp_path).findings
    assert (finding.code, finding.severity) == ("W009", "warning")
    assert "--trust-code" in finding.message
    report = lint(tmp_path, trust_code=True)
    assert report.errors == 1
    assert [(each.code, each.shard, each.key) for each in report.findings] in (
        [("E307", "a.tar", "2")],
        [("E301", "a.tar", "2")],
    )


def test_a_fault_that_names_a_part_which_no_field_map_asks_for_is_told(tmp_path: Path) -> None:
    write_shard(tmp_path / "a.tar", caption_samples(0, 2))
    prepare(tmp_path, files={"dataset.yaml": LOADER_YAML})
    plan = LintPlan(ref=DatasetRef(str(tmp_path)), make_sample_check=lambda config, folder: lacks_a_picture)
    offset = offset_of(tmp_path, "a.tar", "00001.json")
    assert places(lint_dataset(plan).findings) == [("E301", "a.tar", "00001", "jpg", offset)]


def lacks_a_picture(key: str, parts: Mapping[str, bytes]) -> list[tuple[str | None, str]]:
    return [("jpg", "it is missing")] if key == "00001" else []


def test_a_shard_that_a_prepare_of_another_tool_left_without_our_index_is_checked_too(small: Path) -> None:
    shutil.rmtree(small / ".nv-meta/index")
    assert lint(small).findings == ()


# ------------------------------------------------------------------------------------------- the cost of a lint


def count_calls(monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> list[object]:
    calls: list[object] = []
    real = getattr(owner, name)

    def counted(self: Any, *arguments: Any, **options: Any) -> Any:
        calls.append(arguments)
        return real(self, *arguments, **options)

    monkeypatch.setattr(owner, name, counted)
    return calls


def write_same_keys(folder: Path, shards: int, samples: int) -> Path:
    for shard in range(shards):
        write_shard(shard_path(folder, shard), {f"{number}": {"txt": b"text"} for number in range(samples)})
    prepare(folder, split=SplitRequest(ratio={"train": 1.0}), files={"dataset.yaml": CRUDE_YAML})
    return folder


def test_keys_that_every_shard_has_cost_no_more_look_ups_than_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_same_keys(tmp_path, 20, 30)
    keys_read = count_calls(monkeypatch, DatasetIndex, "_key")
    report = lint(folder, level="headers")
    assert set(codes(report)) == {"W305"}
    assert len(keys_read) < 2000, "600 samples, and a hundred findings that name two of them"
    index = folder_at(folder).index
    keys_read.clear()
    assert index.find("shard_007.tar/11") == [7 * 30 + 11]
    assert len(keys_read) == 1
    assert index.find("11") == [30 * shard + 11 for shard in range(20)]
    assert index.find("shard_999.tar/11") == []


def test_a_look_up_that_misses_one_of_many_equal_keys_is_found(tmp_path: Path) -> None:
    folder = write_same_keys(tmp_path, 5, 3)
    index = tar_index(folder_at(folder))
    row = index.key_sample.tolist().index(7)
    with (folder / ".nv-meta/index" / index_uuid(folder) / "key_sample.npy").open("r+b") as file:
        file.seek(-8 * (len(index) - row), os.SEEK_END)
        file.write((4).to_bytes(8, "little"))  # the sample before it with the same key is now in the table twice
    found = [each for each in lint(folder, level="headers").findings if each.code == "E005"]
    assert [(each.shard, each.key) for each in found] == [("shard_002.tar", "1")]


def test_excluded_shards_are_told_apart_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_shards(tmp_path, 30)
    prepare(tmp_path, split=SplitRequest(patterns=(("train", "shard_000.tar"),)))
    edit_split(tmp_path, exclude="['shard_{002..029}.tar']")
    calls = count_calls(monkeypatch, SplitConfig, "excluded_shards")
    assert codes(lint(tmp_path, level="headers")) == ["W004", "W201"]
    assert len(calls) <= 3
    calls.clear()
    report = prepare(tmp_path, split=None)
    assert [warning for warning in report.warnings if "in no part" in warning] == [
        "1 shard is in no part of split.yaml, first shard_001.tar (--split-ratio or --split-parts makes a new split)"
    ]
    assert len(calls) <= 3


def test_numbers_of_strange_shards_in_sqlite_are_found_without_walking_over_all_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_shards(tmp_path, 3, samples=500)
    prepare(tmp_path)
    steps: list[None] = []

    def watched(path: Path) -> sqlite3.Connection:
        database = open_sqlite(path)
        database.set_progress_handler(lambda: steps.append(None), 1)
        return database

    monkeypatch.setattr(lint_metadata, "open_sqlite", watched)
    assert list(lint_metadata.check_sqlite(folder_at(tmp_path))) == []
    assert len(steps) < 200
    for strange in (3, -1):
        with closing(sqlite3.connect(tmp_path / ".nv-meta/index.sqlite")) as database, database:
            database.execute(f"UPDATE samples SET tar_file_id = {strange} WHERE sample_key = '00007'")
        [finding] = lint_metadata.check_sqlite(folder_at(tmp_path))
        assert f"samples of shard number {strange}, and .info.json has 3 shards" in finding.message
