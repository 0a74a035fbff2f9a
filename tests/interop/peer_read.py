"""Print what megatron-energon reads from a dataset, as JSON; run by the *peer's* Python.

usage: python peer_read.py WHAT ARGUMENT...

crude PATH SPLIT_PART [DATASET_CONFIG]   the key of every sample, and the sha256 of its parts
fields PATH SPLIT_PART                   every sample decoded through dataset.yaml
lookup PATH NAME...                      a look-up of each ``key.part`` through index.sqlite
media PATH NAME...                       the media metadata of each ``key.part``, or file of a folder
all PATH SPLIT_PART DATASET_CONFIG       crude, and a look-up of every part it found
join PATH PATH SPLIT_PART                two captioning datasets joined by key
lookup-timed PATH COUNT                  the seconds of COUNT look-ups of random parts

Uses only public names of ``megatron.energon``. Imports no module of this project, since the peer is installed in
another virtual environment.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import random
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from megatron.energon import (
    Cooker,
    DefaultTaskEncoder,
    Sample,
    SystemFileStore,
    WorkerConfig,
    basic_sample_keys,
    edataclass,
    get_loader,
    get_train_dataset,
    get_val_dataset,
    prepare_metadataset,
    stateless,
)
from megatron.energon.epathlib import EPath

WORKERS = WorkerConfig(rank=0, world_size=1, num_workers=0)


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@edataclass
class Parts(Sample):
    """A sample with the digests of its parts."""

    parts: dict[str, str]


@stateless
def cook_parts(sample: dict[str, Any]) -> Parts:
    parts = {name: digest(value) for name, value in sample.items() if isinstance(value, bytes)}
    return Parts(**basic_sample_keys(sample), parts=parts)


class PartsEncoder(DefaultTaskEncoder):
    """Task encoder that returns raw parts: no decoder, one sample for each batch."""

    decoder = None
    cookers = [Cooker(cook_parts)]

    @stateless
    def batch(self, samples: list[Any]) -> Any:
        return samples[0]


class FieldsEncoder(DefaultTaskEncoder):
    """Task encoder that returns typed samples, one for each batch."""

    @stateless
    def batch(self, samples: list[Any]) -> Any:
        return samples[0]


def one_pass(path: str, part: str, encoder: DefaultTaskEncoder, **options: Any) -> Any:
    """Return all samples of a split part in order, once."""
    dataset = get_val_dataset(
        path, split_part=part, worker_config=WORKERS, batch_size=1, task_encoder=encoder, **options
    )
    return get_loader(dataset)


def training_keys(path: str, part: str, **options: Any) -> list[str]:
    """Return the keys of one shuffled epoch, sorted."""
    dataset = get_train_dataset(
        path,
        split_part=part,
        worker_config=WORKERS,
        batch_size=1,
        shuffle_buffer_size=10,
        max_samples_per_sequence=5,
        repeat=False,
        task_encoder=PartsEncoder(),
        **options,
    )
    return sorted(sample.__key__ for sample in get_loader(dataset))


def read_crude(path: str, part: str, dataset_config: str = "dataset.yaml") -> dict[str, Any]:
    options = {"dataset_config": dataset_config}
    samples = [[sample.__key__, sample.parts] for sample in one_pass(path, part, PartsEncoder(), **options)]
    return {"samples": samples, "training_keys": training_keys(path, part, **options)}


def plain(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return {"shape": list(value.shape), "dtype": str(value.dtype), "sha256": digest(value.numpy().tobytes())}
    if isinstance(value, bytes):
        return {"bytes": digest(value)}
    return value


def read_fields(path: str, part: str) -> dict[str, Any]:
    samples = []
    for sample in one_pass(path, part, FieldsEncoder()):
        fields = {
            field.name: plain(getattr(sample, field.name))
            for field in dataclasses.fields(sample)
            if not field.name.startswith("__")
        }
        samples.append([sample.__key__, type(sample).__name__, fields])
    return {"samples": samples}


def with_store(path: str, work: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
    """Call ``work(store)`` with the peer's random-access store of a dataset, which cookers receive as ``aux``."""
    results: list[dict[str, Any]] = []

    @stateless
    def cook(sample: dict[str, Any], store: Any) -> Parts:
        if not results:
            results.append(work(store))
        return Parts(**basic_sample_keys(sample), parts={})

    class StoreEncoder(PartsEncoder):
        cookers = [Cooker(cook)]

    # The primary is a dataset of one sample, created here; the given dataset is its auxiliary source.
    with tempfile.TemporaryDirectory() as folder:
        lines = Path(folder, "one.jsonl")
        lines.write_text('{"x": 1}\n')
        lines.with_name("one.jsonl.idx").write_bytes((0).to_bytes(8, "little") + (9).to_bytes(8, "little"))
        meta = Path(folder, "meta.yaml")
        meta.write_text(
            json.dumps(
                {
                    "__module__": "megatron.energon",
                    "__class__": "MetadatasetV2",
                    "splits": {"val": {"path": str(lines), "aux": {"store": str(Path(path).resolve())}}},
                }
            )
        )
        for _ in one_pass(str(meta), "val", StoreEncoder()):
            pass
    return results[0]


def content(found: Any) -> bytes:
    # The store returns (bytes, source).
    data: bytes = found[0] if isinstance(found, tuple) else found
    return data


def lookup(path: str, *names: str) -> dict[str, Any]:
    def work(store: Any) -> dict[str, Any]:
        answers = {}
        for name in names:
            try:
                answers[name] = digest(content(store[name]))
            except KeyError as error:
                answers[name] = f"KeyError: {error}"
        return answers

    return {"answers": with_store(path, work)}


def media(path: str, *names: str) -> dict[str, Any]:
    def work(store: Any) -> dict[str, Any]:
        answers = {}
        for name in names:
            found = store.get_media_metadata(name)
            known = {field: value for field, value in dataclasses.asdict(found).items() if value is not None}
            answers[name] = [type(found).__name__, known]
        return answers

    if (Path(path) / ".nv-meta/.info.json").exists():
        return with_store(path, work)
    return work(SystemFileStore(EPath(str(Path(path).resolve()))))


def lookup_timed(path: str, count: str) -> dict[str, Any]:
    database = sqlite3.connect(f"file:{Path(path, '.nv-meta/index.sqlite').resolve()}?mode=ro", uri=True)
    rows = database.execute(
        "select sample_key || '.' || part_name from samples join sample_parts using (tar_file_id, sample_index)"
    ).fetchall()
    names = [name for (name,) in random.Random(0).choices(rows, k=int(count))]

    def work(store: Any) -> dict[str, Any]:
        content(store[names[0]])
        start = time.perf_counter()
        size = sum(len(content(store[name])) for name in names)
        return {"seconds": time.perf_counter() - start, "bytes": size, "count": len(names)}

    return with_store(path, work)


@edataclass
class Pair(Sample):
    """A sample joined from two captioned samples."""

    first: str
    second: str

    @staticmethod
    def from_joined(first: Any, second: Any) -> Pair:
        names = "__key__", "__restore_key__", "__subflavors__", "__sources__"
        own = {name: getattr(first, name) for name in names}
        return Pair(**own, first=first.caption, second=second.caption)


def read_join(first: str, second: str, part: str) -> dict[str, Any]:
    """Join two captioning datasets by key, which the peer does through their index.sqlite."""
    paths = [{"path": str(Path(path).resolve())} for path in (first, second)]
    joiner = {"__module__": "__main__", "__class__": "Pair"}
    with tempfile.TemporaryDirectory() as folder:
        meta = Path(folder, "meta.yaml")
        document = {
            "__module__": "megatron.energon",
            "__class__": "MetadatasetV2",
            "splits": {part: {"join": paths, "joiner": joiner}},
        }
        meta.write_text(json.dumps(document))
        prepare_metadataset(EPath(str(meta)))
        samples = [[s.__key__, s.first, s.second] for s in one_pass(str(meta), part, FieldsEncoder())]
    return {"samples": samples}


def read_all(path: str, part: str, dataset_config: str) -> dict[str, Any]:
    answer = read_crude(path, part, dataset_config)
    names = [f"{key}.{name}" for key, parts in answer["samples"] for name in parts]
    return {**answer, **lookup(path, *names)}


COMMANDS: dict[str, Callable[..., dict[str, Any]]] = {
    "all": read_all,
    "crude": read_crude,
    "fields": read_fields,
    "join": read_join,
    "lookup": lookup,
    "lookup-timed": lookup_timed,
    "media": media,
}

if __name__ == "__main__":
    answer = COMMANDS[sys.argv[1]](*sys.argv[2:])
    # The peer prints to stdout while it loads; the answer is the last line.
    print("\n" + json.dumps(answer))
