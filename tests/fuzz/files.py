"""Small files of every kind that this library reads, for the fuzzer to change."""

from __future__ import annotations

import gzip
import io
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from loader import build_filter_index, build_filter_index_from_shard_indexes
from loader.dataset.opening import folder_at
from loader.format.index.journal import save_scans
from loader.format.index.shard_index import index_shard
from loader.format.media.metadata import MediaFilter
from loader.metadataset.joins.files import open_join
from loader.metadataset.joins.peer_index import write_peer_rows
from loader.metadataset.joins.prepare_metadataset import prepare_metadataset
from loader.metadataset.plans.plan_leaves import plan_leaves
from loader.prepare.plan import PreparePlan, SplitRequest
from loader.prepare.run import run_prepare
from loader.storage import LocalStorage
from tests.e2e.dataset_tree import write_shard
from tests.fuzz.steps import command, load, rank_states
from tests.tables import prepare_parts, write_lines, write_rows
from tests.token_files import numbered, write_tokens
from tests.unit.av.encoded_media import encode

__all__ = ["write_files"]

_CRUDE = "__module__: megatron.energon\n__class__: CrudeWebdataset\n"
_CAPTIONED = (
    "sample_type:\n  __module__: megatron.energon\n  __class__: CaptioningSample\n"
    "field_map:\n  image: jpg\n  caption: json[texts][0]\nsubflavors: {kind: photo}\n"
)
_CODED = (
    "sample_type:\n  __module__: megatron.energon\n  __class__: TextSample\n"
    "sample_loader: sample_loader.py:sample_loader\npart_filter: sample_loader.py:part_filter\n"
)
_CODE = (
    "import os\nos.system('touch owned')\n\n\ndef sample_loader(sample):\n    return {'text': sample['txt']}\n\n\n"
    "def part_filter(name):\n    return name == 'txt'\n"
)
_JOINER = {"__module__": "tests.fuzz.steps", "__function__": "join_samples"}
_JOIN = [{"path": "texts"}, {"path": "others", "nonmatch": "none"}]


def write_files(folder: Path) -> None:
    """Write datasets of all kinds, metadatasets, joins, filters and states into a folder."""
    for name in ("texts", "others"):
        _dataset(folder / name, {"txt": b"a text", "json": b'{"id": 3, "turns": [{"from": "human"}]}'}, _CRUDE)
    _dataset(folder / "photos", {"jpg": _picture("JPEG"), "png": _picture("PNG"), **_CAPTIONS}, _CAPTIONED, media=True)
    _dataset(folder / "media", _media(), _CRUDE, media=True, samples=1)
    _dataset(folder / "coded", {"txt": b"a text"}, _CODED, files={"sample_loader.py": _CODE})
    _dataset(folder / "ranges", {"txt": b"a text"}, _CRUDE, by_samples=True)
    with (folder / "ranges/.nv-meta/split.yaml").open("a") as file:
        file.write('exclude: ["0.tar/01", "1.tar/12"]\n')
    _shards(folder / "bare", {"txt": b"a text", "jpg": _picture("WEBP")})
    _shards(folder / "packed", {"txt": b"a text"})
    for shard in (folder / "packed").iterdir():
        _compress(shard)
    _interrupt(folder / "interrupted")
    _shards(folder / "outside", {"txt": b"a text", "gif": _picture("GIF")})
    command("prepare", str(folder / "outside"), "--yes", "--meta-folder", str(folder / "outside-meta"))
    for name, data in {**_media(), "bmp": _picture("BMP"), "tiff": _picture("TIFF")}.items():
        (folder / "plain").mkdir(exist_ok=True)
        (folder / f"plain/a.{name}").write_bytes(data)
    command("prepare-media", str(folder / "plain"), "--media-metadata-by-header", "--num-workers", "1")
    _write_records(folder)
    _write_metadatasets(folder)
    _write_states(folder)


_CAPTIONS = {"json": b'{"texts": ["a cat", "a dog"]}', "txt": b"a cat"}


def _shards(folder: Path, parts: Mapping[str, bytes], samples: int = 5) -> None:
    for shard in range(2):
        write_shard(folder / f"{shard}.tar", {f"{shard}{number}": parts for number in range(samples)})


def _dataset(
    folder: Path,
    parts: Mapping[str, bytes],
    document: str,
    *,
    samples: int = 5,
    media: bool = False,
    by_samples: bool = False,
    files: Mapping[str, str] = {},
) -> None:
    _shards(folder, parts, samples)
    run_prepare(
        PreparePlan(
            path=str(folder),
            split=SplitRequest(ratio={"train": 1.0, "val": 1.0}, by_samples=by_samples),
            files={"dataset.yaml": document, **files},
            media=MediaFilter(strategy="HEADER") if media else None,
            workers=1,
        )
    )


def _picture(form: str) -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.arange(12 * 16 * 3, dtype=np.uint8).reshape(12, 16, 3)).save(file, form)
    return file.getvalue()


def _media() -> dict[str, bytes]:
    sound: dict[str, Any] = {"video": None, "frames": 4}
    return {
        "wav": encode(**sound, container="wav", audio="pcm_s16le", sample_format="s16"),
        "mp3": encode(**sound, container="mp3", audio="mp3"),
        "flac": encode(**sound, container="flac", audio="flac", sample_format="s16"),
        "mp4": encode(frames=6, audio="aac", rate=16000),
        "mkv": encode(frames=6, container="matroska"),
        "avi": encode(frames=6, container="avi", video="mpeg4"),
    }


def _compress(shard: Path) -> None:
    Path(f"{shard}.gz").write_bytes(gzip.compress(shard.read_bytes(), 1))
    shard.unlink()


def _interrupt(folder: Path) -> None:
    """Write shards, and the journal of a prepare that was killed after it had scanned them."""
    _shards(folder, {"txt": b"a text", "json": b"{}"})
    storage = LocalStorage(folder)
    save_scans(storage, [(storage.stat(name), index_shard(storage, name)) for name in ("0.tar", "1.tar")])


def _write_records(folder: Path) -> None:
    write_tokens(folder / "tokens", numbered(9))
    write_rows(folder / "rows.parquet", range(20))
    write_lines(folder / "lines.jsonl", range(9))
    command("prepare", str(folder / "lines.jsonl"))
    for number in range(2):
        write_rows(folder / f"tables/{number}.parquet", range(10))
        write_lines(folder / f"pages/{number}.jsonl", range(5))
    prepare_parts(folder / "tables", {"train": 1, "val": 1})
    prepare_parts(folder / "pages", {"train": 1, "val": 1})
    for path, kept in (("texts", 5), ("tables", 9), ("lines.jsonl", 4), ("tokens.bin", 4), ("rows.parquet", 9)):
        if path == "texts":
            build_filter_index_from_shard_indexes(folder / path, "some", {"0.tar": [0, 2], "1.tar": [1, 4]})
        else:
            build_filter_index(folder / path, "some", list(range(kept)))


def _write_metadatasets(folder: Path) -> None:
    aux = {"photos": "photos", "facts": "lines.jsonl", "tokens": "tokens.bin", "files": "filesystem://plain"}
    texts = {"path": "texts", "filter": "some", "subflavors": {"a": 1}, "aux": aux}
    others = {"path": "others", "subset": {"range": ["20%", "100%"]}}
    for name, split in {
        "mix": {"blend": [{**texts, "weight": 2}, {**others, "weight": 1}]},
        "epochs": {"blend_epochized": [{**texts, "repetitions": 2}, {**others, "repetitions": 0.5}]},
        "nested": {"blend": [{"path": "mix.yaml", "weight": 1}, {"path": "epochs.yaml", "split_part": "val"}]},
        "records": {"blend": [{"path": path} for path in ("tokens", "rows.parquet", "lines.jsonl", "tables")]},
        "join": {"join": _JOIN, "joiner": _JOINER},
        "peer": {"join": _JOIN, "joiner": _JOINER},
    }.items():
        splits = {"train": split, "val": {"path": "texts"}}
        _document(folder / f"{name}.yaml", "MetadatasetV2", splits)
    first = {"datasets": [{"path": "texts", "weight": 3, "subflavors": {"b": "x"}}, {"path": "others"}]}
    _document(folder / "first.yaml", "Metadataset", {"train": first, "val": first})
    prepare_metadataset(folder / "join.yaml")
    prepare_metadataset(folder / "peer.yaml")
    for leaf in plan_leaves(folder / "peer.yaml", split_part="train", training=True):
        if leaf.join is not None:
            members = [folder_at(member.ref) for member in leaf.join.members]
            if write_peer_rows(leaf.join, members, open_join(leaf.join)) is None:
                raise AssertionError("there is no file of megatron-energon")
    shutil.rmtree(folder / "peer.yaml.joins")


def _document(path: Path, kind: str, splits: Mapping[str, Any]) -> None:
    document = {"__module__": "megatron.energon", "__class__": kind, "splits": splits}
    path.write_text(json.dumps(document, indent=1))


def _write_states(folder: Path) -> None:
    load(folder / "texts")
    states = rank_states(folder / "texts", 2)
    for rank, state in enumerate(states):
        torch.save(state, folder / f"state_{rank}.pt")
    torch.save({"step": 3, "states": states}, folder / "states.pt")
    torch.save({"callbacks": {"loader": states[0]}}, folder / "old.pt", _use_new_zipfile_serialization=False)
    (folder / "states.json").write_text(json.dumps(states))
