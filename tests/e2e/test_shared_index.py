"""An index that is pushed, pulled, wrong, stale or forged: samples are exact, or refused."""

from __future__ import annotations

import json
import random
import shutil
import tarfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loader import WorkerConfig, get_loader, get_train_dataset, open_dataset
from loader.dataset import shared_index
from loader.dataset.opening import folder_at
from loader.dataset.shared_index import pull_index, push_index
from loader.dataset.split_parts import open_filter
from loader.errors import ConfigError, EnergonError, FormatError
from loader.format.columns.column_files import open_column, write_column
from loader.format.dataset_ref import DatasetRef
from loader.format.filters.build import build_filter_index
from loader.format.meta_folder import note_index
from loader.storage import FileInfo
from tests.e2e.dataset_tree import caption_samples, prepare, write_shard, write_tar
from tests.e2e.text_dataset import write_texts

PUSHED = "coco.energon-index"


def batches(path: Path, **options: Any) -> list[list[str]]:
    config = WorkerConfig(rank=0, world_size=1, num_workers=0)
    train = get_train_dataset(
        path, worker_config=config, batch_size=4, shuffle_buffer_size=8, max_samples_per_sequence=5, **options
    )
    return [batch.text for _, batch in zip(range(9), get_loader(train), strict=False)]


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    return write_texts(tmp_path / "texts")


@pytest.fixture
def bare(texts: Path, tmp_path: Path) -> Path:
    """The shards alone, and next to their folder the index file that was pushed."""
    push_index(DatasetRef(str(texts)), str(tmp_path / PUSHED))
    shutil.copytree(texts, tmp_path / "bare", ignore=shutil.ignore_patterns(".nv-meta", "*.idx"))
    return tmp_path / "bare"


def test_a_pulled_index_gives_the_same_batches(texts: Path, bare: Path, tmp_path: Path) -> None:
    pulled = pull_index(str(tmp_path / PUSHED), str(tmp_path / "meta"), with_split=True)
    assert pulled.files == ["split.yaml", "dataset.yaml"]
    assert (pulled.samples, pulled.shards, pulled.left) == (218, 9, [])
    assert batches(bare, meta_folder=tmp_path / "meta") == batches(texts)
    # All columns are equal, and the index keeps its name, by which states know it.
    made, found = folder_at(str(texts)), folder_at(DatasetRef(str(bare), meta_folder=str(tmp_path / "meta")))
    assert found.index.uuid == made.index.uuid
    for name in ("part_ends", "key_ends", "key_bytes", "part_name", "part_offset", "part_size", "key_hash"):
        assert (getattr(found.index, name) == getattr(made.index, name)).all()


def test_data_find_their_index_in_the_folders_of_indexes(
    texts: Path, bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENERGON_INDEX", f"{tmp_path / 'mine'}:{tmp_path / 'shared'}")
    with pytest.raises(EnergonError, match="not a prepared dataset"):
        batches(bare)
    pulled = pull_index(str(tmp_path / PUSHED), data=str(bare), with_split=True)
    assert pulled.path.startswith(f"{tmp_path}/mine/bare-")
    assert batches(bare) == batches(texts)
    # One of others comes after the folder next to the data, and the user's own before it.
    shutil.move(tmp_path / "mine", tmp_path / "shared")
    assert batches(bare) == batches(texts)
    assert DatasetRef(str(bare)).find_meta().path.startswith(str(tmp_path / "shared"))
    shutil.copytree(texts / ".nv-meta", bare / ".nv-meta")
    assert DatasetRef(str(bare)).find_meta().path == ".nv-meta"
    shutil.move(tmp_path / "shared", tmp_path / "mine")
    assert DatasetRef(str(bare)).find_meta().path.startswith(str(tmp_path / "mine"))


def test_shards_with_any_names_have_a_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENERGON_INDEX", str(tmp_path))
    shard = FileInfo(name="\udcff.tar", size_bytes=1, mtime_ns=0, etag="1")
    note_index(str(tmp_path / "cats"), "0", [shard])
    (entry,) = (tmp_path / "by-shards").iterdir()
    assert entry.read_text() == "cats/index/0/layout.json"


def test_decisions_of_others_are_taken_on_request_alone(bare: Path, tmp_path: Path) -> None:
    meta = tmp_path / "meta"
    pulled = pull_index(str(tmp_path / PUSHED), str(meta))
    assert (pulled.files, pulled.left) == ([], ["split.yaml", "dataset.yaml"])
    assert "TextSample" in pulled.documents["dataset.yaml"]
    assert open_dataset(bare, meta_folder=meta).parts(3) == {"txt": b"text 3"}
    # What the user has written there stays.
    (meta / "split.yaml").write_text("split_parts: {train: ['train_0.tar']}\n")
    assert pull_index(str(tmp_path / PUSHED), str(meta), with_split=True).left == ["split.yaml"]
    assert "val" not in (meta / "split.yaml").read_text()
    pull_index(str(tmp_path / PUSHED), str(meta), with_split=True, force=True)
    assert "val" in (meta / "split.yaml").read_text()


def test_code_stays_where_it_is(texts: Path, tmp_path: Path) -> None:
    (texts / ".nv-meta/sample_loader.py").write_text("raise SystemExit\n")
    assert "sample_loader.py" not in push_index(DatasetRef(str(texts)), f"{tmp_path}/{PUSHED}").files
    assert b"SystemExit" not in (tmp_path / PUSHED).read_bytes()


def test_columns_and_filters_belong_to_the_index(texts: Path, tmp_path: Path) -> None:
    folder = folder_at(str(texts))
    write_column(folder.storage, folder.index, "score", np.arange(218.0))
    build_filter_index(texts, "few", [3, 5, 8])
    pushed = push_index(DatasetRef(str(texts)), f"{tmp_path}/")
    assert {"columns/score.npy", "columns/score.json", "filter_few.idx"} < {*pushed.files}
    pull_index(pushed.path, str(tmp_path / "meta"), with_split=True)
    found = folder_at(DatasetRef(str(texts), meta_folder=str(tmp_path / "meta")))
    assert open_filter(found, "few").numbers(np.arange(3)).tolist() == [3, 5, 8]
    assert open_column(found.storage, found.index, "score").values.tolist() == list(range(218))


def test_a_column_that_is_too_large_is_named(texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = folder_at(str(texts))
    write_column(folder.storage, folder.index, "score", np.arange(218.0))
    monkeypatch.setattr(shared_index, "MAX_PART_BYTES", 1000)
    pushed = push_index(DatasetRef(str(texts)), f"{tmp_path}/")
    assert (pushed.left, "columns/score.npy" in pushed.files) == (["columns/score.npy"], False)


def test_parquet_files_are_compared_with_their_footers(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    folder = tmp_path / "table"
    folder.mkdir()
    for part in range(2):
        table = pyarrow.table({"n": np.arange(50_000) + part, "text": [f"{row:06d}" for row in range(50_000)]})
        parquet.write_table(table, folder / f"{part}.parquet")
    prepare(folder)
    pushed = push_index(DatasetRef(str(folder)), f"{tmp_path}/")
    assert pushed.size_bytes / pushed.samples <= 0.1
    meta = str(tmp_path / "meta")
    pull_index(pushed.path, meta)
    ref = DatasetRef(str(folder), meta_folder=meta)
    assert folder_at(ref).read_parts(60_000) == {"n": 10_001, "text": "010000"}
    # A file of the same size and number of rows is another one.
    shutil.copyfile(folder / "0.parquet", folder / "1.parquet")
    with pytest.raises(FormatError, match=r"has changed since it was prepared|expected a footer with the checksum"):
        folder_at(ref).read_parts(60_000)


# ------------------------------------------------------------------------------------- wrong, stale or forged


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_names_and_sizes_of_extension_headers_are_compared(tmp_path: Path, form: int) -> None:
    folder = tmp_path / "long"
    long = {"x" * 90 + f"/{number:040d}": {"txt": b"%d" % number, "é.bin": b""} for number in range(7)}
    write_shard(folder / "a.tar", {**caption_samples(0, 4), **long}, form=form)
    write_tar(folder / "b.tar", [("README", b"z" * 70_000), ("1.txt", b"one"), ("notes", b"n"), ("2.txt", b"two")])
    prepare(folder)
    meta = shutil.move(folder / ".nv-meta", tmp_path / "meta")
    found = folder_at(DatasetRef(str(folder), meta_folder=str(meta)))
    assert found.read_parts(0)["txt"] == b"text 0"
    for number in range(7):
        parts = found.read_parts(4 + number)
        assert (parts["txt"], parts["é.bin"]) == (b"%d" % number, b"")
        assert found.read(4 + number, "txt", 0, 1) == b"%d" % number
    assert [found.read_parts(number) for number in (11, 12)] == [{"txt": b"one"}, {"txt": b"two"}]
    # A shard of the same size with other names is noticed, whatever says the names.
    write_shard(
        folder / "a.tar", {**caption_samples(0, 4), **{f"{key[:-1]}x": it for key, it in long.items()}}, form=form
    )
    stale = folder_at(DatasetRef(str(folder), meta_folder=str(meta)))
    for number in range(7):
        for names in (["txt"], ["é.bin"]):
            with pytest.raises(FormatError, match=r"expected the header of|has changed since|expected a tar header"):
                stale.read_parts(4 + number, names)


def test_an_index_of_earlier_shards_is_refused(bare: Path, tmp_path: Path) -> None:
    meta = tmp_path / "energon-index-cats"  # its name is like those of temporary folders, which need no comparison
    pull_index(str(tmp_path / PUSHED), str(meta), with_split=True)
    first, second = (bare / f"train_{number}.tar" for number in (0, 1))
    data = bytearray(first.read_bytes())
    header = data.index(b"00007.txt")
    data[header : header + 9] = b"99999.txt"
    data[header + 148 : header + 154] = b"%06o" % (
        sum(data[header : header + 512]) - sum(data[header + 148 : header + 156]) + 256
    )
    first.write_bytes(data)
    opened = open_dataset(bare, meta_folder=meta)
    with pytest.raises(FormatError, match=r"sample '00007' has its part 'txt' at byte \d+") as caught:
        opened.parts(7)
    assert "expected the header of '00007.txt', 6 bytes; found '99999.txt', 6 bytes" in caught.value.message
    assert "energon index pull" in (caught.value.hint or "")
    second.write_bytes(second.read_bytes()[:-512])
    with pytest.raises(FormatError, match="has changed since it was indexed"):
        opened.parts(45)


@pytest.mark.parametrize("mutations", [24, pytest.param(200, marks=pytest.mark.slow)])
def test_mutations_of_the_index_give_no_wrong_bytes(tmp_path: Path, mutations: int) -> None:
    samples = {
        f"{number:03d}": {"txt": b"text %d" % number * (number % 5), "cls": b"%d" % number} for number in range(60)
    }
    folder = tmp_path / "data"
    write_shard(folder / "a.tar", dict([*samples.items()][:25]), form=tarfile.PAX_FORMAT)
    write_shard(folder / "b.tar", dict([*samples.items()][25:]))
    prepare(folder)
    meta = Path(shutil.move(folder / ".nv-meta", tmp_path / "meta"))
    index = folder_at(DatasetRef(str(folder), meta_folder=str(meta))).index
    columns = {
        name: np.array(getattr(index, name))
        for name in ("part_ends", "key_ends", "key_bytes", "part_name", "part_offset", "part_size")
    }
    layout = json.loads((meta / "index" / index.uuid / "layout.json").read_text())
    refused = exact = 0
    chooser = random.Random(0)
    for round_number in range(mutations):
        # Give a sample the offset, size or key of another one, or change any number of the index.
        forged = {name: column.copy() for name, column in columns.items()}
        changed = json.loads(json.dumps(layout))
        row, other = chooser.sample(range(120), 2)
        kind = round_number % 8
        if kind < 3:
            forged["part_offset"][row] = forged["part_offset"][other]
            if kind:
                forged["part_size"][row] = forged["part_size"][other]
            if kind == 2:
                forged["part_offset"][other], forged["part_size"][other] = (
                    columns["part_offset"][row],
                    columns["part_size"][row],
                )
        elif kind < 6:
            name = chooser.choice([*forged])
            at = chooser.randrange(len(forged[name]))
            limit = 1 << (8 * forged[name].dtype.itemsize)
            value = int(forged[name][at]) + chooser.choice([-1, 1, 512, -512, 7, 1 << 40])
            forged[name][at] = value % limit
        else:
            shard = chooser.choice(changed["shards"])
            key = chooser.choice(["plain", "size_bytes", "samples", "first_sample", "end_offset", "name", "mtime_ns"])
            if key in ("plain", "name"):
                shard[key] = {"plain": not shard["plain"], "name": "b.tar"}[key]
            else:
                shard[key] += chooser.choice([-512, 1, 512])
            changed["part_stats"] = changed["part_stats"][:: chooser.choice([1, -1])]
        for name, column in forged.items():
            np.save(meta / "index" / index.uuid / f"{name}.npy", column)
        (meta / "index" / index.uuid / "layout.json").write_text(json.dumps(changed))
        # Each sample that can be read is the one that its key names.
        for number in range(60):
            try:
                opened = folder_at(DatasetRef(str(folder), meta_folder=str(meta)))
                found, key = opened.read_parts(number), opened.index.key(number)
            except EnergonError:
                refused += 1
                continue
            for part, data in found.items():
                assert samples[key][part] == data, (round_number, number)
            exact += 1
    assert refused > 10 * mutations
    assert exact > 10 * mutations


def test_200_mutations_of_the_file_are_refused_or_exact(texts: Path, bare: Path, tmp_path: Path) -> None:
    data = (tmp_path / PUSHED).read_bytes()
    chooser = random.Random(1)
    for number in range(200):
        forged = bytearray(data)
        for _ in range(chooser.choice([1, 1, 3])):
            forged[chooser.randrange(len(forged))] ^= 1 << chooser.randrange(8)
        if number % 5 == 0:
            forged = forged[: chooser.randrange(len(forged))]
        (tmp_path / "forged").write_bytes(forged)
        with pytest.raises(FormatError, match="not an index file, or a damaged one"):
            pull_index(str(tmp_path / "forged"), str(tmp_path / "meta"))
        assert not (tmp_path / "meta/.info.json").exists()


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda table: table["layout"]["shards"][0].update(name="../x.tar"), "expected the name of a"),
        (
            lambda table: table["files"].update({"../../evil.yaml": table["files"].pop("split.yaml")}),
            "an index has no file",
        ),
        (
            lambda table: table["files"].update({"sample_loader.py": table["files"].pop("split.yaml")}),
            "an index has no file",
        ),
        (lambda table: table.update(uuid="../../x"), "badly formed"),
        (lambda table: table["columns"].pop(), "it has columns of 8 of 9 shards"),
        (lambda table: table["columns"].reverse(), "expected"),
        (lambda table: table["columns"][0].__setitem__(2, 1 << 40), "Expected `int` <= "),
        (lambda table: table["columns"][0].__setitem__(2, 5), "its checksum or size is wrong"),
        (lambda table: table["columns"][0].__setitem__(0, 1 << 49), "is cut off"),
        (lambda table: table["layout"]["shards"][0].update(end_offset=512), "values outside of"),
    ],
)
def test_a_forged_table_leads_nowhere(bare: Path, tmp_path: Path, change: Any, fault: str) -> None:
    data = (tmp_path / PUSHED).read_bytes()
    start = int.from_bytes(data[-44:-36], "little")
    table = json.loads(zlib.decompress(data[start:-44]))
    change(table)
    text = json.dumps(table).encode()
    packed = zlib.compress(text)
    numbers = [(start, 8), (len(packed), 8), (len(text), 8), (zlib.crc32(packed), 4)]
    trailer = b"".join(number.to_bytes(width, "little") for number, width in numbers)
    (tmp_path / "forged").write_bytes(data[:start] + packed + trailer + data[-16:])
    with pytest.raises(FormatError, match="not an index file, or a damaged one") as caught:
        pull_index(str(tmp_path / "forged"), str(tmp_path / "meta"))
    assert fault in caught.value.message
    assert [path.name for path in tmp_path.iterdir() if "evil" in path.name] == []


def test_a_folder_with_another_use_is_refused(texts: Path, bare: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="other files"):
        pull_index(str(tmp_path / PUSHED), str(tmp_path))
    other = tmp_path / "other"
    write_shard(other / "z.tar", caption_samples(0, 3))
    prepare(other)
    with pytest.raises(ConfigError, match="has the metadata of another dataset"):
        pull_index(str(tmp_path / PUSHED), str(other / ".nv-meta"))
    with pytest.raises(ConfigError, match="of data at a local path"):
        pull_index(str(tmp_path / PUSHED))
    with pytest.raises(ConfigError, match="expected a folder of this machine"):
        pull_index(str(tmp_path / PUSHED), "s3://bucket/meta")
