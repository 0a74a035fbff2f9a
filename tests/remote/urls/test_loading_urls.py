"""Training, validation and single samples from URLs, with auxiliary stores, code and media metadata next to them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from loader import (
    Cooker,
    CrudeSample,
    DefaultDecoderWebdatasetFactory,
    DefaultTaskEncoder,
    EnergonError,
    EPath,
    FileStore,
    SystemFileStore,
    TextSample,
    WorkerConfig,
    basic_sample_keys,
    get_savable_loader,
    get_train_dataset,
    get_val_dataset,
    load_dataset,
    random_access,
)
from loader.format.media.metadata import ImageMetadata
from loader.stores import DatasetFileStore, JsonlFileStore, MissingFileError, open_aux_store
from tests.cli.run_energon import RunEnergon
from tests.remote.urls.bucket import Bucket
from tests.token_files import ids_of, numbered, write_tokens

ALONE = WorkerConfig(rank=0, world_size=1, num_workers=0)


def cook(sample: CrudeSample, **stores: FileStore[Any]) -> TextSample:
    key = sample["__key__"].rpartition("/")[2]
    text = sample["txt"] if "txt" in sample else sample["json"]["text"]
    for name in sorted(stores):
        found, source = stores[name][{"files": "note.txt", "lines": "1"}.get(name, f"{key}.txt")]
        text += f"|{name}:{found if isinstance(found, str) else bytes(found).decode()}@{source.dataset_path}"
    return TextSample(**basic_sample_keys(sample), text=text)


class Cooking(DefaultTaskEncoder[Any, Any, Any, Any]):
    cookers = (Cooker(cook),)


def texts(path: Path | str, workers: int = 0, batches: int = 4, **options: Any) -> list[list[str]]:
    config = WorkerConfig(rank=0, world_size=1, num_workers=workers)
    arguments = {"batch_size": 2, "shuffle_buffer_size": 4, "max_samples_per_sequence": 3, "task_encoder": Cooking()}
    dataset = get_train_dataset(path, worker_config=config, **{**arguments, **options})
    with get_savable_loader(dataset) as loader:
        return [list(batch.text) for _, batch in zip(range(batches), loader, strict=False)]


@pytest.fixture
def crude(bucket: Bucket) -> Bucket:
    """Crude datasets, files and a metadataset that uses all of them."""
    for name in ("a", "b"):
        (bucket.folder / name / ".nv-meta/dataset.yaml").unlink()
    (bucket.folder / "files/note.txt").write_text("a note")
    aux = {"files": "filesystem://./files", "other": "./b", "lines": "texts.jsonl"}
    entries = [{"path": "./a", "weight": 1, "aux": aux}, {"path": "texts.jsonl", "weight": 1}]
    bucket.write_mix("mix.yaml", train={"blend": entries}, val={"path": "a", "split_part": "val"})
    return bucket


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("name", ["a", "texts.jsonl", "mix.yaml"])
@pytest.mark.sampled(2)
def test_a_url_trains_on_the_samples_of_its_files(crude: Bucket, name: str, workers: int) -> None:
    here = texts(crude.folder / name, workers)
    there = texts(f"{crude.url}/{name}", workers)
    assert json.loads(json.dumps(here).replace(str(crude.folder), crude.url)) == there
    if name == "mix.yaml":
        assert any(
            "|files:a note@s3://b/files|lines:" in text and "@s3://b/b" in text for batch in there for text in batch
        )


def test_local_and_remote_sources_and_stores_are_mixed(crude: Bucket, tmp_path: Path) -> None:
    shutil.copytree(crude.folder / "b", tmp_path / "b")
    mix = tmp_path / "mix.yaml"
    aux = {"files": f"filesystem+{crude.url}/files", "other": str(tmp_path / "b")}
    entries = [{"path": f"{crude.url}/a", "weight": 1, "aux": aux}, {"path": "./b", "weight": 1}]
    document = {"__module__": "megatron.energon", "__class__": "MetadatasetV2", "splits": {"train": {"blend": entries}}}
    mix.write_text(json.dumps(document))
    found = [text for batch in texts(mix) for text in batch]
    assert any(f"files:a note@{crude.url}/files|other:" in text for text in found)
    assert any("|" not in text for text in found)


def test_a_run_is_saved_and_resumed(crude: Bucket) -> None:
    def loader(workers: int) -> Any:
        config = WorkerConfig(rank=0, world_size=1, num_workers=workers)
        return get_savable_loader(
            get_train_dataset(
                f"{crude.url}/mix.yaml",
                worker_config=config,
                batch_size=2,
                shuffle_buffer_size=4,
                max_samples_per_sequence=3,
                task_encoder=Cooking(),
            )
        )

    with loader(0) as whole:
        iterator = iter(whole)
        expected = [next(iterator).text for _ in range(9)]
    with loader(2) as first:
        iterator = iter(first)
        assert [next(iterator).text for _ in range(4)] == expected[:4]
        state = json.loads(json.dumps(first.save_state_rank()))
    assert "planted" not in json.dumps(state)
    with loader(0) as second:
        second.restore_state_rank(state)
        iterator = iter(second)
        assert [next(iterator).text for _ in range(5)] == expected[4:]


def test_single_samples_of_a_url(bucket: Bucket) -> None:
    url = f"{bucket.url}/a"
    samples = random_access(url, "val")
    local = random_access(bucket.folder / "a", "val")
    assert [sample.__key__ for sample in samples] == [sample.__key__ for sample in local]
    assert all(torch.equal(one.image, other.image) for one, other in zip(samples, local, strict=True))
    source = samples[0].__sources__[0]
    assert (source.dataset_path, source.dataset_path / source.shard_name) == (
        EPath(url), EPath(f"{url}/{source.shard_name}"),
    )  # fmt: skip
    dataset = get_train_dataset(
        url, worker_config=ALONE, batch_size=None, shuffle_buffer_size=None, max_samples_per_sequence=None
    )
    with get_savable_loader(dataset) as loader:
        sample = next(iter(loader))
        again = loader.restore_sample(sample.__restore_key__)
        assert (again.__key__, again.caption) == (sample.__key__, sample.caption)
    validation = get_val_dataset(url, worker_config=ALONE, batch_size=2)
    with get_savable_loader(validation) as loader:
        assert [key for batch in loader for key in batch.__key__] == [sample.__key__ for sample in local]
    assert load_dataset(url).path == url or EPath(load_dataset(url).path) == EPath(url)


def test_a_batch_is_read_without_asking_for_sizes(bucket: Bucket) -> None:
    samples = random_access(f"{bucket.url}/a", "train")
    requests = bucket.requests(lambda: [samples[number] for number in range(6)])
    shards = [request for request in requests if request.endswith(".tar")]
    assert shards
    assert all(request.startswith("GET") for request in shards)


# -------------------------------------------------------------------------------------------------------------- files


def test_token_files_are_read_by_ranges(bucket: Bucket) -> None:
    write_tokens(bucket.folder / "tokens", numbered(5000))
    big = bucket.folder / "tokens.bin"
    bucket.server.requests.clear()
    samples = random_access(f"{bucket.url}/tokens.bin", "train")
    assert ids_of([samples[number] for number in (0, 17, 4999)]) == [0, 17, 4999]
    sent = sum(one.sent_bytes for one in bucket.server.requests if one.key == "b/tokens.bin")
    assert sent < big.stat().st_size / 10
    assert texts_of_tokens(f"{bucket.url}/tokens.bin") == texts_of_tokens(big)


def texts_of_tokens(path: Path | str) -> list[int]:
    dataset = get_train_dataset(
        path, worker_config=ALONE, batch_size=None, shuffle_buffer_size=10, max_samples_per_sequence=4
    )
    with get_savable_loader(dataset) as loader:
        return ids_of([sample for _, sample in zip(range(50), loader, strict=False)])


def test_lines_are_read_by_ranges(bucket: Bucket, energon: RunEnergon) -> None:
    lines = bucket.folder / "long.jsonl"
    lines.write_text("".join(json.dumps({"text": f"{number} " + "x" * 1000}) + "\n" for number in range(2000)))
    assert energon("prepare", lines).code == 0
    bucket.server.requests.clear()
    samples = random_access(f"{bucket.url}/long.jsonl", "train")
    assert [samples[number]["json"]["text"][:4] for number in (0, 999, 1999)] == ["0 xx", "999 ", "1999"]
    sent = sum(one.sent_bytes for one in bucket.server.requests if one.key == "b/long.jsonl")
    assert sent < lines.stat().st_size / 100
    heads = [one.key for one in bucket.server.requests if one.method == "HEAD"]
    assert heads == ["b/long.jsonl", "b/long.jsonl.idx"]


def test_a_file_that_changes_while_it_is_read_is_an_error(bucket: Bucket) -> None:
    write_tokens(bucket.folder / "tokens", numbered(10))
    samples = random_access(f"{bucket.url}/tokens.bin", "train")
    assert ids_of([samples[3]]) == [3]
    data = (bucket.folder / "tokens.bin").read_bytes()
    (bucket.folder / "tokens.bin").write_bytes(bytes(len(data)))
    with pytest.raises(Exception, match="this object changed"):
        samples[4]


def test_parquet_files_are_read_by_ranges(bucket: Bucket) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    rows = 20_000
    noise = np.random.default_rng(0).integers(0, 1 << 60, rows)
    table = pa.table({"number": list(range(rows)), "noise": noise})
    pyarrow.parquet.write_table(table, bucket.folder / "rows.parquet", row_group_size=500, compression="none")
    bucket.server.requests.clear()
    samples = random_access(f"{bucket.url}/rows.parquet", "train")
    assert [samples[number]["number"] for number in (0, 499, 19_999)] == [0, 499, 19_999]
    found = [one for one in bucket.server.requests if one.key == "b/rows.parquet"]
    assert sum(one.sent_bytes for one in found) < (bucket.folder / "rows.parquet").stat().st_size / 2
    assert len(found) < 16


# ------------------------------------------------------------------------------------------------------------- stores


def test_stores_at_urls_read_what_they_read_here(bucket: Bucket, energon: RunEnergon) -> None:
    (bucket.folder / "files/deep").mkdir()
    (bucket.folder / "files/deep/note.txt").write_bytes(b"a note")
    store = DatasetFileStore(f"{bucket.url}/a")
    assert store["000003.txt"][0] == b"picture number 3"
    assert store["shard_001.tar/000003.txt"][1].shard_name == "shard_001.tar"
    files = open_aux_store(f"filesystem+{bucket.url}/files")
    assert files["deep/note.txt"][0] == files["shard_000.tar/deep/note.txt"][0] == b"a note"
    assert files["./deep/../deep/note.txt"][1].dataset_path == EPath(f"{bucket.url}/files")
    assert JsonlFileStore(f"{bucket.url}/texts.jsonl")[1][0] == b'{"text": "two"}'
    assert SystemFileStore()[f"{bucket.url}/files/deep/note.txt"][0] == b"a note"
    for wrong in ("no.txt", "deep"):
        with pytest.raises(MissingFileError):
            files[wrong]
    for outside in ("../a/shard_000.tar", "/etc/passwd"):
        with pytest.raises(Exception, match="leads out of this folder"):
            files[outside]
    with pytest.raises(Exception, match="no file below this URL"):
        open_aux_store(f"filesystem+{bucket.url}/gone")
    with pytest.raises(Exception, match="not a prepared dataset"):
        open_aux_store(f"{bucket.url}/raw")


def test_media_metadata_is_read_from_a_copy(bucket: Bucket, energon: RunEnergon) -> None:
    assert energon("prepare", bucket.folder / "a", "--yes", "--media-metadata-by-extension").code == 0
    found = DatasetFileStore(f"{bucket.url}/a").get_media_metadata("000000.jpg")
    assert isinstance(found, ImageMetadata)
    assert found.width == 24
    assert "24" in energon("info", f"{bucket.url}/a").out


# --------------------------------------------------------------------------------------------------------------- code

LOADER = "def load(raw):\n    return {'__key__': raw['__key__'], 'text': raw['txt'].upper()}\n"


def test_code_at_a_url_runs_only_if_it_is_trusted(bucket: Bucket) -> None:
    meta = bucket.folder / "a/.nv-meta"
    (meta / "sample_loader.py").write_text(LOADER)
    (meta / "dataset.yaml").write_text(
        "__module__: megatron.energon\n__class__: TextWebdataset\n"
        "sample_loader: sample_loader.py:load\npart_filter: [txt]\n"
    )
    url = f"{bucket.url}/a"
    with pytest.raises(EnergonError, match="asks to run load"):
        random_access(url, "train")[0]
    samples = random_access(url, "train", trust_code=True)
    assert samples[0].text.startswith("PICTURE NUMBER")


class Own(DefaultDecoderWebdatasetFactory[TextSample]):
    __sample_type__ = TextSample

    def __init__(self, path: EPath, **options: Any) -> None:
        self.given = path
        assert isinstance(path, EPath)
        assert (path / ".nv-meta/own.txt").read_text() == "of this dataset"
        super().__init__(path, **options)

    def load_sample(self, raw: dict[str, Any]) -> TextSample:
        return TextSample(**basic_sample_keys(raw), text=f"own {raw['txt'].decode()}")


def test_the_class_of_a_user_gets_a_path_to_read_from(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "own_classes", sys.modules[__name__])
    meta = bucket.folder / "a/.nv-meta"
    (meta / "own.txt").write_text("of this dataset")
    (meta / "dataset.yaml").write_text("__module__: own_classes\n__class__: Own\n")
    assert random_access(f"{bucket.url}/a", "train", trust_code=True)[0].text.startswith("own picture number")


# ------------------------------------------------------------------------------------------------------- checkpoints


def test_checkpoints_at_urls_are_described_and_redistributed(
    bucket: Bucket, energon: RunEnergon, tmp_path: Path
) -> None:
    folder = bucket.folder / "run"
    folder.mkdir()
    for rank in range(2):
        config = WorkerConfig(rank=rank, world_size=2, num_workers=0)
        dataset = get_train_dataset(
            f"{bucket.url}/a", worker_config=config, batch_size=1, shuffle_buffer_size=4, max_samples_per_sequence=3
        )
        with get_savable_loader(dataset) as loader:
            next(iter(loader))
            weights = torch.zeros(1 << 20)
            torch.save({"loader": loader.save_state_rank(), "weights": weights}, folder / f"rank_{rank}.pt")
    url = f"{bucket.url}/run"
    for name in ("", "/rank_0.pt"):
        bucket.server.requests.clear()
        done = energon("checkpoint", "info", f"{url}{name}")
        assert sum(one.sent_bytes for one in bucket.server.requests) < 1 << 20, "the weights are not read"
        assert (done.code, "s3://b/a" in done.out) == (0, True), done
    done = energon("checkpoint", "redist", url, f"{bucket.url}/one", "--new-world-size", 1)
    assert done.code == 0, done
    assert [path.name for path in (bucket.folder / "one").iterdir()] == ["rank_0.pt"]
    assert energon("checkpoint", "info", f"{url}/gone.pt").code == 1
