"""Datasets as objects: what they select, show and hand over. All formats: tests/remote/test_dataset_contract.py."""

from __future__ import annotations

import gc
import gzip
import io
import os
import pickle
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from click.testing import CliRunner
from PIL import Image
from torch.utils.data import DataLoader

from energon_cli.main import cli
from loader import (
    Batch,
    CaptioningSample,
    ConfigError,
    FormatError,
    SampleError,
    StorageError,
    TrustError,
    edataclass,
    load_dataset,
    open_dataset,
    random_access,
)
from loader.dataset.open_files import OpenFiles
from loader.dataset.opening import folder_at
from loader.format.columns.column_files import write_column
from loader.format.dataset_ref import DatasetRef
from loader.format.filters.build import build_filter_index
from loader.format.jsonl.index import prepare_jsonl
from loader.inspect import PreviewRequest, open_views
from loader.notebook.shown import BrowseFrame
from loader.prepare.plan import PreparePlan, SplitRequest
from loader.prepare.run import run_prepare
from loader.samples.sample_format import MAX_PAGE_BYTES
from loader.storage import open_parent, open_storage
from tests.e2e.dataset_tree import write_shard, write_tar
from tests.e2e.text_dataset import CRUDE, exclude, write_texts
from tests.tables import write_lines
from tests.token_files import write_tokens

SAMPLES = 12
TRAIN, VAL = range(8), range(8, 12)


def png(colour: tuple[int, int, int] = (255, 0, 0), side: int = 32) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (side, side), colour).save(file, "PNG")
    return file.getvalue()


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """12 texts: 8 for training in two shards, 4 for validation; with columns and a filter."""
    folder = write_texts(tmp_path_factory.mktemp("opened") / "texts", train=(5, 3), val=(4,))
    dataset = folder_at(folder)
    storage, index = dataset.storage, dataset.index
    write_column(storage, index, "width", np.arange(SAMPLES) * 100)
    write_column(storage, index, "score", np.where(np.arange(SAMPLES) == 3, np.nan, np.arange(SAMPLES) / 2))
    write_column(storage, index, "rank", np.where(np.arange(SAMPLES) == 4, -1, np.arange(SAMPLES)), missing=-1)
    write_column(storage, index, "kind", np.arange(SAMPLES) % 3 - 1, missing=-1, categories=("art", "photo"))
    build_filter_index(folder, "even", range(0, SAMPLES, 2))
    return folder


@pytest.fixture
def copied(texts: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(texts, tmp_path / "texts"))


def numbers_in(dataset: Any) -> list[int]:
    return [int(dataset.key(number)[-5:]) for number in range(len(dataset))]


# ------------------------------------------------------------------------------------------------------- selections


def test_a_selection_is_what_all_criteria_choose(texts: Path) -> None:
    dataset = open_dataset(texts)
    assert numbers_in(dataset) == list(range(SAMPLES))
    assert numbers_in(dataset.select(split_part="val")) == list(VAL)
    assert numbers_in(dataset.select(where="width >= 300 and width < 600")) == [3, 4, 5]
    assert numbers_in(dataset.select(where='shard == "train_1.tar"')) == [5, 6, 7]
    assert numbers_in(dataset.select(filter="even")) == [0, 2, 4, 6, 8, 10]
    assert numbers_in(dataset.select(split_part="train", where="width > 100", filter="even")) == [2, 4, 6]
    assert numbers_in(dataset.select(keys=["00011", "train_0.tar/00001", "train_1.tar"])) == [1, 5, 6, 7, 11]
    assert len(dataset.select(where="width > 10_000")) == 0


def test_a_condition_on_values_that_are_no_column_reads_the_samples(texts: Path, tmp_path: Path) -> None:
    lengths = [len(open_dataset(texts).parts(number)["txt"]) for number in range(SAMPLES)]
    longer = [number for number, length in enumerate(lengths) if length > min(lengths)]
    assert 0 < len(longer) < SAMPLES
    assert numbers_in(open_dataset(texts).select(where=f"txt.chars > {min(lengths)}")) == longer
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"text": "four"}\n{"text": "longer"}\n')
    prepare_jsonl(*open_parent(str(rows)))
    assert len(open_dataset(rows).select(where="text.chars > 4")) == 1
    with pytest.raises(ConfigError, match=r"no sample has the value 'txt\.width'"):
        open_dataset(texts).select(where="txt.width > 4")


def test_numbers_are_those_of_preview(texts: Path) -> None:
    dataset = open_dataset(texts)
    total, view = open_views(PreviewRequest(ref=DatasetRef(str(texts))))
    assert total == len(dataset)
    assert [view(number).key for number in range(total)] == [dataset.key(number) for number in range(total)]
    of_val = dataset.select(split_part="val")
    _, view = open_views(PreviewRequest(ref=DatasetRef(str(texts)), split_parts=("val",)))
    assert [view(number).key for number in range(4)] == [of_val.key(number) for number in range(4)]


def test_options_of_opening_are_those_of_training(texts: Path) -> None:
    assert open_dataset(texts, key_format="key")[5].__key__ == "00005"
    assert open_dataset(texts, decoder=None)[5].text == b"text 5"
    with pytest.raises(ConfigError, match=r"gone\.yaml"):
        open_dataset(texts, dataset_config="gone.yaml")
    with pytest.raises(ConfigError, match=r"gone\.yaml"):
        open_dataset(texts, split_config="gone.yaml")
    with pytest.raises(ConfigError, match="endpoint"):
        open_dataset(texts, storage_options={"endpoint": "http://127.0.0.1"})


def test_a_selection_of_a_selection_is_in_both(texts: Path) -> None:
    even = open_dataset(texts).select(filter="even")
    some = even.select(where="width >= 400")
    assert numbers_in(some) == [4, 6, 8, 10]
    assert [some[number].text for number in (0, -1)] == ["text 4", "text 10"]
    assert [sample.text for sample in some] == ["text 4", "text 6", "text 8", "text 10"]
    assert some.find("00006") == [1]
    assert some.find("00007") == []
    with pytest.raises(KeyError):
        some["00007"]
    assert "selected: 4 samples by filter='even', where='width >= 400'" in repr(some)
    assert numbers_in(even) == [0, 2, 4, 6, 8, 10]  # the first one is as it was


@pytest.mark.parametrize(
    ("criteria", "message"),
    [
        ({"split_part": "vla"}, "no split part 'vla'; there are: train, val; did you mean 'val'"),
        ({"where": "widht > 3"}, "no column 'widht'; did you mean 'width'"),
        ({"where": "width >"}, "width >"),
        ({"filter": "evne"}, "evne"),
        ({"keys": ["00011", "train_0.tar/0001"]}, "no sample 'train_0.tar/0001'; did you mean 'train_0.tar/00001'"),
    ],
)
def test_a_criterion_that_names_nothing_is_an_error(texts: Path, criteria: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        open_dataset(texts).select(**criteria)


def test_a_misspelt_key_is_an_error_that_guesses(texts: Path) -> None:
    with pytest.raises(KeyError, match=r"key 'train_0.tar/0001', found none; did you mean 'train_0.tar/00001'\?"):
        open_dataset(texts)["train_0.tar/0001"]


def test_a_split_of_a_metadataset_is_that_of_random_access(texts: Path, tmp_path: Path) -> None:
    other = write_texts(tmp_path / "other", train=(2, 2), val=(1,), first=50)
    exclude(other, "train_0.tar/00051")
    mix = tmp_path / "mix.yaml"
    mix.write_text(
        "__module__: megatron.energon\n__class__: MetadatasetV2\nsplits:\n  train:\n    blend:\n"
        f"      - {{path: {other}, weight: 1}}\n      - {{path: {texts}, weight: 9, filter: even}}\n"
        f"  val: {{path: {texts}}}\n"
    )
    dataset = open_dataset(mix)
    assert dataset.split_parts == ["train", "val"]
    assert numbers_in(dataset) == [50, 51, 52, 53, 0, 2, 4, 6, *VAL]
    assert dataset.excluded.tolist() == [1]
    train = dataset.select(split_part="train")
    assert [sample.text for sample in train] == [sample.text for sample in random_access(mix, "train")]
    assert numbers_in(dataset.select(keys=["00052", "00002"])) == [52, 2]
    with pytest.raises(ConfigError, match="no split 'tran'; there are: train, val; did you mean 'train'"):
        dataset.select(split_part="tran")
    assert "train: 7 samples in 2 datasets" in repr(dataset)


# ---------------------------------------------------------------------------------------------------------- columns


def test_columns_are_memory_mapped_arrays(texts: Path) -> None:
    columns = open_dataset(texts).columns
    assert sorted(columns) == ["kind", "rank", "score", "width"]
    assert "width" in columns
    assert "height" not in columns
    width = columns["width"]
    assert not width.flags.writeable
    assert is_mapped(width)
    assert width.tolist() == [100 * number for number in range(SAMPLES)]
    assert np.flatnonzero(np.isnan(columns["score"])).tolist() == [3]
    rank: Any = columns["rank"]
    assert isinstance(rank, np.ma.MaskedArray)
    assert (np.flatnonzero(rank.mask).tolist(), rank.sum()) == ([4], sum(range(SAMPLES)) - 4)
    assert columns["kind"].tolist() == [None, "art", "photo"] * 4
    with pytest.raises(ConfigError, match="no column 'widht'; did you mean 'width'"):
        columns["widht"]


def is_mapped(array: Any) -> bool:
    """Return True if the numbers of an array are in no memory of numpy, but in that of a file."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return not array.flags.owndata


def test_columns_of_a_selection_have_its_order(texts: Path, copied: Path, tmp_path: Path) -> None:
    assert open_dataset(texts).select(filter="even").columns["width"].tolist() == list(range(0, 1200, 200))
    of_val = open_dataset(texts).select(split_part="val").columns["width"]
    assert of_val.tolist() == [800, 900, 1000, 1100]
    assert is_mapped(of_val)  # neighbours are not copied
    mix = tmp_path / "mix.yaml"
    mix.write_text(
        "__module__: megatron.energon\n__class__: MetadatasetV2\nsplits:\n  train:\n    blend:\n"
        f"      - {{path: {copied}, weight: 1, filter: even}}\n      - {{path: {texts}, split_part: val, weight: 1}}\n"
    )
    columns: Any = open_dataset(mix).columns
    assert columns["width"].tolist() == [0, 200, 400, 600, *of_val.tolist()]
    assert columns["rank"].mask.nonzero()[0].tolist() == [2]


def test_a_single_file_has_no_columns(tmp_path: Path) -> None:
    write_lines(tmp_path / "a.jsonl", range(3))
    prepare_jsonl(open_storage(str(tmp_path)), "a.jsonl")
    dataset = open_dataset(tmp_path / "a.jsonl")
    assert list(dataset.columns) == []
    assert dataset.to_arrow(parts=["json"]).num_rows == 3
    with pytest.raises(ConfigError, match="no column 'width': a single file has no columns"):
        dataset.columns["width"]


def test_a_table_has_columns_parts_and_keys(texts: Path) -> None:
    dataset = open_dataset(texts).select(where="width >= 200 and width <= 500")
    table = dataset.to_arrow(["width", "rank", "kind"], parts=["txt"], keys=True)
    assert table.to_pydict() == {
        "key": ["train_0.tar/00002", "train_0.tar/00003", "train_0.tar/00004", "train_1.tar/00005"],
        "width": [200, 300, 400, 500],
        "rank": [2, 3, None, 5],
        "kind": ["photo", None, "art", "photo"],
        "txt": ["text 2", "text 3", "text 4", "text 5"],
    }
    frame: Any = pl.from_arrow(table)
    assert frame["width"].sum() == 1400
    assert table.to_pandas()["width"].tolist() == [200, 300, 400, 500]
    assert open_dataset(texts).to_arrow().column_names == sorted(open_dataset(texts).columns)


def test_a_table_takes_no_parts_that_are_no_texts(tmp_path: Path) -> None:
    samples = {"0": {"png": png(), "txt": b"a"}, "1": {"png": png()}, "2": {"txt": b"x" * (1 << 21)}}
    write_shard(tmp_path / "ds" / "a.tar", samples)
    dataset = open_dataset(tmp_path / "ds")
    assert dataset.select(keys=["0", "1"]).to_arrow(parts=["txt"])["txt"].to_pylist() == ["a", None]
    with pytest.raises(SampleError, match="expected text in part 'png'"):
        dataset.to_arrow(parts=["png"])
    with pytest.raises(SampleError, match=r"at most 1,048,576 bytes, found 2,097,152 in part 'txt'"):
        dataset.to_arrow(parts=["txt"])


# ------------------------------------------------------------------------------------------------ other processes


def test_torchs_loader_reads_in_processes_of_any_start_method(texts: Path) -> None:
    chosen = open_dataset(texts).select(split_part="train")
    loader: Any = DataLoader(chosen, batch_size=3, num_workers=1, multiprocessing_context="spawn")
    assert [text for batch in loader for text in batch.text] == [f"text {number}" for number in TRAIN]
    with get_context("fork").Pool(1) as pool:
        assert pool.apply(chosen.parts, (2,)) == {"txt": b"text 2"}


def test_a_batch_is_located_by_one_search(texts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = open_dataset(texts)
    searches: list[int] = []
    locate = dataset.locate

    def counted(positions: Any) -> Any:
        searches.append(len(positions))
        return locate(positions)

    monkeypatch.setattr(dataset, "locate", counted)
    batch = next(iter(DataLoader(dataset, batch_size=6)))
    assert (batch.text[5], searches) == ("text 5", [6])


def test_an_index_of_tar_files_lives_as_long_as_the_dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    write_shard(tmp_path / "ds" / "a.tar", {f"{n}": {"txt": b"text %d" % n} for n in range(5)})
    dataset = open_dataset(tmp_path / "ds")
    pickled = pickle.dumps(dataset.select(keys=["3", "4"]))
    some = pickle.loads(pickled)
    del dataset
    gc.collect()
    assert some.parts(0) == {"txt": b"text 3"}
    child = os.fork()
    if not child:
        del some
        gc.collect()
        os._exit(0)
    os.waitpid(child, 0)
    assert some.parts(1) == {"txt": b"text 4"}  # the child removed nothing
    del some
    gc.collect()
    assert os.listdir(tmp_path / "temporary") == []
    assert os.listdir(tmp_path / "ds") == ["a.tar"]
    assert pickle.loads(pickled).parts(1) == {"txt": b"text 4"}  # scanned again


# ----------------------------------------------------------------------------------------------------------- faults


def test_a_deleted_shard_is_an_error_of_its_samples(copied: Path) -> None:
    dataset = open_dataset(copied)
    (copied / "train_0.tar").unlink()
    assert dataset[5].text == "text 5"
    with pytest.raises(StorageError, match=r"train_0\.tar"):
        dataset[0]
    with pytest.raises(StorageError, match=r"train_0\.tar"):
        dataset.parts(0)
    with pytest.raises(StorageError, match=r"train_0\.tar"):
        list(dataset)
    assert "STALE: 1 shard missing (train_0.tar)" in repr(dataset)


def test_a_changed_shard_is_an_error_of_its_samples(copied: Path) -> None:
    dataset = open_dataset(copied)
    write_shard(copied / "train_0.tar", {f"{n:05d}": {"txt": b"longer text %d" % n * 200} for n in range(5)})
    for read in (lambda: dataset[0], lambda: dataset.read(0, "txt"), lambda: dataset[0:2]):
        with pytest.raises(FormatError, match="changed"):
            read()
    assert dataset[5].text == "text 5"


def test_a_meta_folder_describes_the_folder_of_a_tar_file_and_not_the_file(tmp_path: Path) -> None:
    write_shard(tmp_path / "ds" / "a.tar", {f"{n}": {"txt": b"text %d" % n} for n in range(3)})
    meta = str(tmp_path / "meta")
    run_prepare(PreparePlan(path=str(tmp_path / "ds"), meta_folder=meta))
    assert open_dataset(tmp_path / "ds", meta_folder=meta).parts(2) == {"txt": b"text 2"}
    with pytest.raises(ConfigError, match=r"expected no meta_folder: these data have no \.nv-meta") as caught:
        open_dataset(tmp_path / "ds" / "a.tar", meta_folder=meta)
    assert caught.value.hint == "run energon prepare, and open the folder"
    assert len(open_dataset(tmp_path / "ds" / "a.tar")) == 3


FEW_FILES = """
import os, resource, sys
from loader import WorkerConfig, get_savable_loader, get_train_dataset, open_dataset
open_files = len(os.listdir("/proc/self/fd"))
resource.setrlimit(resource.RLIMIT_NOFILE, (open_files + 40, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
dataset = open_dataset(sys.argv[1])
assert [dataset.parts(number)["txt"] for number in range(len(dataset))] == [b"%03d" % n for n in range(120)]
config = WorkerConfig(rank=0, world_size=1, num_workers=0)
options = dict(batch_size=4, shuffle_buffer_size=None, max_samples_per_sequence=None, repeat=False)
batches = get_savable_loader(get_train_dataset(sys.argv[1], worker_config=config, **options))
print(sorted(int(text) for batch in batches for text in batch["txt"]) == [*range(120)])
"""


def test_a_mix_has_more_datasets_than_a_process_may_open_files(tmp_path: Path) -> None:
    lines = ["__module__: megatron.energon", "__class__: MetadatasetV2", "splits:", "  train:", "    blend_epochized:"]
    write_shard(tmp_path / "000" / "a.tar", {"0": {"txt": b"000"}})
    crude = {"dataset.yaml": "__module__: megatron.energon\n__class__: CrudeWebdataset\n"}
    split = SplitRequest(ratio={"train": 1.0})
    run_prepare(PreparePlan(path=str(tmp_path / "000"), workers=1, split=split, files=crude))
    prepared = (tmp_path / "000" / "a.tar").read_bytes()
    for number in range(120):
        folder = shutil.copytree(tmp_path / "000", tmp_path / f"{number}")
        (folder / "a.tar").write_bytes(prepared[:512] + b"%03d" % number + prepared[515:])
        shutil.copystat(tmp_path / "000" / "a.tar", folder / "a.tar")
        lines += [f"      - path: ./{number}", "        repetitions: 1"]
    (tmp_path / "mix.yaml").write_text("\n".join(lines))
    command = [sys.executable, "-c", FEW_FILES, str(tmp_path / "mix.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr[-2000:]) == ("True\n", "")


def test_a_damaged_tar_file_that_is_not_prepared_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    write_tar(tmp_path / "ds" / "a.tar", [("0.txt", b"x"), ("1.txt", b"y")])
    data = bytearray((tmp_path / "ds/a.tar").read_bytes())
    data[1024 + 148 : 1024 + 156] = b"9999999\0"
    (tmp_path / "ds/a.tar").write_bytes(data)
    with pytest.raises(FormatError, match="checksum"):
        open_dataset(tmp_path / "ds")
    assert os.listdir(tmp_path / "temporary") == []


@pytest.mark.parametrize("name", ["gone", "gone.tar", "gone.jsonl", "gone.yaml", "empty"])
def test_a_path_without_samples_is_an_error_that_names_it(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(StorageError, match=re.escape(str(tmp_path / name))):
        open_dataset(tmp_path / name)


def test_code_of_a_dataset_needs_trust(tmp_path: Path) -> None:
    write_texts(
        tmp_path / "ds",
        train=(2,),
        val=(1,),
        config=CRUDE.replace("CrudeWebdataset", "CaptioningWebdataset") + "sample_loader: sample_loader.py:load\n"
        "part_filter: sample_loader.py:parts\n",
    )
    dataset = open_dataset(tmp_path / "ds")
    assert dataset.parts(0) == {"txt": b"text 0"}
    with pytest.raises(TrustError):
        dataset[0]
    assert "shown as parts" in dataset._repr_html_()


def test_a_dataset_may_be_empty_or_wholly_excluded(copied: Path) -> None:
    exclude(copied, "train_0.tar", "train_1.tar", "val_0.tar")
    dataset = open_dataset(copied)
    assert len(dataset.excluded) == len(dataset) == SAMPLES
    assert list(dataset) == []
    assert dataset[3].text == "text 3"
    none = dataset.select(where="width > 10_000")
    assert (len(none), list(none), none.columns["width"].tolist(), none.to_arrow().num_rows) == (0, [], [], 0)
    assert "selected: 0 samples" in repr(none)
    assert "</pre>" in none._repr_html_()


# ------------------------------------------------------------------------------------------------------------ shown


def test_it_prints_what_info_prints(texts: Path, tmp_path: Path) -> None:
    write_shard(tmp_path / "raw" / "a.tar", {"0": {"txt": b"a\x1b[31m"}})
    mix = tmp_path / "mix.yaml"
    mix.write_text(f"__module__: megatron.energon\n__class__: MetadatasetV2\nsplits:\n  train: {{path: {texts}}}\n")
    for path in (texts, mix, tmp_path / "raw"):
        shown = CliRunner().invoke(cli, ["info", str(path)])
        assert shown.exit_code == 0, shown.output
        assert str(open_dataset(path)) == shown.stdout.rstrip("\n")


def test_a_dataset_that_is_gone_still_prints(copied: Path) -> None:
    dataset = open_dataset(copied)
    shutil.rmtree(copied)
    assert "12 samples" in repr(dataset)
    assert "not find" in repr(dataset) or "does not exist" in repr(dataset) or "no such" in repr(dataset).lower()


def test_a_page_shows_samples_with_pictures_and_escapes_them(tmp_path: Path) -> None:
    hostile = b"<script>alert(1)</script><img src='http://evil.example/x.png'>\x1b[31m"
    samples = {f"<b>{n}": {"png": png((n, 0, 0)), "txt": hostile, "json": b'{"<i>": 1}'} for n in range(12)}
    write_shard(tmp_path / "ds" / "a.tar", samples)
    page = open_dataset(tmp_path / "ds")._repr_html_()
    assert page.count("<img src='data:image/jpeg;base64,") == 8
    assert re.findall(r"<(?:img|script|i|b) ?[^>]{,10}|\x1b", page) == ["<b", "<img src='data:"] * 8
    assert "&lt;script&gt;alert(1)" in page
    assert "a.tar/&lt;b&gt;7" in page
    assert "a.tar/&lt;b&gt;8" not in page.partition("</pre>")[2]
    assert_is_balanced(page)


def assert_is_balanced(page: str) -> None:
    for tag in ("div", "table", "tr", "td", "th", "pre", "p", "b"):
        assert len(re.findall(f"<{tag}[ >]", page)) == page.count(f"</{tag}>"), tag


def test_a_page_stays_small_whatever_the_samples_hold(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (8, 400, 400, 3), np.uint8)
    samples = {}
    for number in range(8):
        files = {f"{place}.png": encoded(noise[number]) for place in range(6)}
        samples[f"{number}"] = {**files, **{f"{place}.txt": b"<" * 100_000 for place in range(40)}}
    write_shard(tmp_path / "ds" / "a.tar", samples)
    page = open_dataset(tmp_path / "ds")._repr_html_()
    assert len(page.encode()) <= MAX_PAGE_BYTES == 200_000
    assert "the rest is omitted" in page
    assert_is_balanced(page)


def encoded(pixels: Any) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def test_samples_and_batches_show_their_pictures() -> None:
    @edataclass
    class ImageBatch(Batch):
        image: torch.Tensor
        clips: list[torch.Tensor]
        boxes: torch.Tensor

    sample = CaptioningSample(__key__="a<b", image=torch.rand(3, 40, 30), caption="a & b")
    page = sample._repr_html_()
    assert page.count("<img src='data:image/jpeg;base64,") == 1
    assert "a &amp; b" in page
    assert "Tensor(float32, [3, 40, 30])" in page
    batch = ImageBatch(
        __key__=["a", "b"], image=torch.rand(2, 3, 20, 20), clips=[torch.rand(3, 3, 9, 9)], boxes=torch.rand(2, 4, 5)
    )
    assert batch._repr_html_().count("<img") == 2 + 3  # numbers are no pictures
    assert_is_balanced(batch._repr_html_())


def test_a_sample_whose_part_does_not_decode_is_shown_with_its_error(tmp_path: Path) -> None:
    write_shard(tmp_path / "ds" / "a.tar", {"0": {"png": b"<no picture>"}, "1": {"png": png()}})
    page = open_dataset(tmp_path / "ds")._repr_html_()
    assert "part &#x27;png&#x27; is not an image" in page
    assert page.count("<img") == 1


def test_a_page_names_parts_that_take_too_much_memory_to_be_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = io.BytesIO()
    Image.new("1", (9000, 8000)).save(file, "PNG")
    large = b"[%s1]" % (b"1," * (9 << 20))
    samples = {"0": {"png": file.getvalue()}, "1": {"json": large}, "2": {"json.gz": gzip.compress(large, 1)}}
    write_shard(tmp_path / "ds" / "a.tar", {**samples, "3": {"png": png()}})
    (tmp_path / "rows.jsonl").write_bytes(b'{"text": "a"}\n{"text": %s}\n' % large)
    prepare_jsonl(*open_parent(str(tmp_path / "rows.jsonl")))
    page = open_dataset(tmp_path / "ds")._repr_html_()
    assert "part &#x27;png&#x27; is not shown: expected at most 67,108,864 pixels" in page
    assert page.count("more than --max-json-bytes 16,777,216, so it is not parsed") == 2
    assert page.count("<img") == 1
    assert "so it is not parsed" in open_dataset(tmp_path / "rows.jsonl")._repr_html_()
    assert open_dataset(tmp_path / "ds", decoder=None)._repr_html_().count("<img") == 1
    monkeypatch.setenv("ENERGON_MAX_PIXELS", "80000000")
    assert open_dataset(tmp_path / "ds")._repr_html_().count("<img") == 2


def test_excluded_samples_are_marked(copied: Path) -> None:
    exclude(copied, "train_0.tar/00001")
    dataset = open_dataset(copied)
    assert "1   train_0.tar/00001, excluded" in dataset._repr_html_()
    assert "excluded    0 shards, 1 single sample" in repr(dataset)


def test_the_loader_of_a_path_names_open_dataset(texts: Path) -> None:
    assert f"open_dataset({str(texts)!r}) shows its samples" in repr(load_dataset(texts))


# ----------------------------------------------------------------------------------------------------------- browse


def test_a_frame_shows_browse_until_it_is_closed(texts: Path) -> None:
    frame = open_dataset(texts).browse(height=300)
    page = frame._repr_html_()
    assert isinstance(frame, BrowseFrame)
    assert '<iframe src="http://localhost:' in page
    assert 'height="300"' in page
    with urllib.request.urlopen(request_with_cookie(frame.url)) as answer:
        policy = answer.headers["Content-Security-Policy"]
    assert "frame-ancestors http://127.0.0.1:* http://localhost:*" in policy
    frame.close()
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(frame.url)


def request_with_cookie(url: str) -> urllib.request.Request:
    place, _, token = url.partition("?token=")
    return urllib.request.Request(place, headers={"Authorization": f"Bearer {token}"})


def test_a_frame_of_a_broken_dataset_is_an_error(copied: Path) -> None:
    dataset = open_dataset(copied)
    shutil.rmtree(copied)
    with pytest.raises(ConfigError, match="energon browse does not start: "):
        dataset.browse()


KILLED = """
import os, signal, sys, loader
frame = loader.open_dataset(sys.argv[1]).browse()
child = os.fork()
if child == 0:
    sys.exit(0)
os.waitpid(child, 0)
print(frame.url, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_browse_server_ends_with_its_program_and_forks_end_without_it(texts: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILLED, texts], stdout=subprocess.PIPE, text=True, check=False, timeout=60
    )
    assert done.returncode == -signal.SIGKILL
    url = done.stdout.strip()
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            urllib.request.urlopen(url, timeout=5).close()
        except urllib.error.HTTPError:
            time.sleep(0.05)
        except OSError:
            return  # the port is closed
    raise AssertionError(f"{url} is served after its program was killed")


def test_a_copy_of_a_copy_scans_tar_files_again_after_their_first_reader(tmp_path: Path) -> None:
    write_shard(tmp_path / "raw" / "a.tar", {"0": {"txt": b"a"}})
    dataset = open_dataset(tmp_path / "raw")
    code = "import pickle, sys; sys.stdout.buffer.write(pickle.dumps(pickle.load(sys.stdin.buffer)))"
    copied = subprocess.run(
        [sys.executable, "-c", code], input=pickle.dumps(dataset), stdout=subprocess.PIPE, check=True
    ).stdout
    del dataset
    gc.collect()
    assert pickle.loads(copied).parts(0) == {"txt": b"a"}


def test_data_without_documents_refuse_requested_ones(tmp_path: Path) -> None:
    write_shard(tmp_path / "raw" / "a.tar", {"0": {"txt": b"a"}})
    prepare_jsonl(*open_parent(str(write_lines(tmp_path / "x.jsonl", range(3)))))
    for path in (tmp_path / "raw", tmp_path / "raw" / "a.tar", tmp_path / "x.jsonl"):
        with pytest.raises(ConfigError, match="expected no dataset_config"):
            open_dataset(path, dataset_config="nope.yaml")
    with pytest.raises(ConfigError, match="they have no split part 'train'"):
        open_dataset(tmp_path / "raw").select(split_part="train")


def test_names_of_a_table_are_unique_and_tokens_are_lists(tmp_path: Path) -> None:
    tokens = open_dataset(write_tokens(tmp_path / "x", [[0, 1, 2]]))
    assert tokens.to_arrow(parts=["tokens"]).to_pydict() == {"tokens": ["[0, 1, 2]"]}
    with pytest.raises(ConfigError, match="two columns of the table would be named 'tokens'"):
        tokens.to_arrow(parts=["tokens", "tokens"])


def test_many_datasets_share_the_files_that_a_process_may_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (1024, 1 << 20))
    pools = [OpenFiles() for _ in range(200)]
    for pool in pools:
        for number in range(100):
            pool.add(number, io.BytesIO())  # type: ignore[arg-type] # any object
    assert sum(map(len, pools)) <= 1024 // 16
