"""Chunks of mosaicml-streaming and litdata hold the values; tests/interop/movers reads them with these libraries."""

from __future__ import annotations

import io
import itertools
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loader.convert.writing import chunk_writers
from loader.convert.writing.chunk_writers import ChunkWriter, LitdataWriter, MdsWriter
from loader.convert.writing.sample_writers import ExportedSample, cell_kinds
from loader.errors import SampleError


def npy(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def write(writer_type: type[ChunkWriter], path: Path, samples: list[dict[str, bytes]], *, raw: bool = False) -> None:
    with writer_type(str(path), cell_kinds(samples[0]), raw=raw) as writer:
        for number, parts in enumerate(samples):
            writer.write(ExportedSample("a.tar", str(number), "", parts))


def records(data: bytes) -> list[bytes]:
    count = int.from_bytes(data[:4], "little")
    offsets = np.frombuffer(data, "<u4", count + 1, 4).tolist()
    assert offsets[-1] == len(data)
    return [data[start:end] for start, end in itertools.pairwise(offsets)]


SAMPLES = [{"bin": bytes([n] * n), "cls": b"%d" % n, "json": b'{"n": %d}' % n, "txt": b"t"} for n in range(5)]


def test_a_record_of_mds_has_the_sizes_of_all_but_labels(tmp_path: Path) -> None:
    write(MdsWriter, tmp_path / "out", SAMPLES)
    index = json.loads((tmp_path / "out/index.json").read_bytes())
    (shard,) = index["shards"]
    names, encodings, sizes = (shard[f"column_{kind}"] for kind in ("names", "encodings", "sizes"))
    assert names == ["__key__", "bin", "cls", "json", "txt"]
    assert encodings == ["str", "bytes", "int", "json", "str"]
    assert sizes == [None, None, 8, None, None]
    data = (tmp_path / "out" / shard["raw_data"]["basename"]).read_bytes()
    assert (shard["samples"], shard["raw_data"]["bytes"]) == (5, len(data))
    config = {name: value for name, value in shard.items() if name not in ("raw_data", "samples", "zip_data")}
    assert json.loads(data[4 + 4 * 6 : data.index(b"}", 28) + 1]) == config
    record = b"a.tar/3" + b"\3\3\3" + (3).to_bytes(8, "little") + b'{"n": 3}' + b"t"
    assert records(data)[3] == np.array([7, 3, 8, 1], "<u4").tobytes() + record


def test_a_record_of_litdata_has_all_sizes(tmp_path: Path) -> None:
    write(LitdataWriter, tmp_path / "out", SAMPLES)
    index = json.loads((tmp_path / "out/index.json").read_bytes())
    assert index["config"]["data_format"] == ["str", "bytes", "int", "str", "str"]
    assert json.loads(json.loads(index["config"]["data_spec"])[1]["context"]) == [
        "__key__",
        "bin",
        "cls",
        "json",
        "txt",
    ]
    (chunk,) = index["chunks"]
    data = (tmp_path / "out" / chunk["filename"]).read_bytes()
    assert (chunk["chunk_size"], chunk["chunk_bytes"]) == (5, len(data))
    record = b"a.tar/2" + b"\2\2" + (2).to_bytes(8, "little") + b'{"n": 2}' + b"t"
    assert records(data)[2] == np.array([7, 2, 8, 8, 1], "<u4").tobytes() + record


@pytest.mark.parametrize("writer_type", [MdsWriter, LitdataWriter])
def test_chunks_end_before_the_sample_that_would_exceed_their_size(
    tmp_path: Path, writer_type: type[ChunkWriter], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunk_writers, "_CHUNK_BYTES", 100)
    write(writer_type, tmp_path / "out", [{"bin": bytes(size)} for size in (30, 30, 500, 30, 30)])
    chunks = sorted(name for name in os.listdir(tmp_path / "out") if name != "index.json")
    assert [len(records((tmp_path / "out" / name).read_bytes())) for name in chunks] == [2, 1, 2]


@pytest.mark.parametrize("writer_type", [MdsWriter, LitdataWriter])
@pytest.mark.parametrize(
    ("name", "data", "fault"),
    [
        ("cls", b"cat", "expected an integer"),
        ("cls", b"1" + b"0" * 30, "is no value of the type label"),
        ("txt", b"\xff", "expected a text in UTF-8"),
        ("npy", b"no array", "is no value of the type array"),
        ("npy", npy(np.array(["a"])), "is no value of the type array"),
        ("npy", npy(np.arange(3))[:-1], "is no value of the type array"),
    ],
)
def test_a_value_that_a_column_cannot_hold_is_named(
    tmp_path: Path, writer_type: type[ChunkWriter], name: str, data: bytes, fault: str
) -> None:
    with pytest.raises(SampleError, match=fault) as caught:
        write(writer_type, tmp_path / "out", [{name: data}])
    assert "--raw" in str(caught.value.hint)
    assert not (tmp_path / "out").exists()
    write(writer_type, tmp_path / "out", [{name: data}], raw=True)


@pytest.mark.parametrize("data", [b"{", b"[" * 100_000])
def test_mds_takes_no_broken_json(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(SampleError, match="is no value of the type json"):
        write(MdsWriter, tmp_path / "out", [{"json": data}])


@pytest.mark.parametrize("array", [np.float32(1), np.zeros((0, 3))])
def test_mds_holds_no_array_without_axes_or_elements(tmp_path: Path, array: Any) -> None:
    with pytest.raises(SampleError, match="without axes or elements"):
        write(MdsWriter, tmp_path / "out", [{"npy": npy(array)}])
    write(LitdataWriter, tmp_path / "out", [{"npy": npy(array)}])


@pytest.mark.parametrize(("writer_type", "code"), [(MdsWriter, [64 + 1]), (LitdataWriter, [3, 0, 0, 0])])
def test_arrays_are_little_endian(tmp_path: Path, writer_type: type[ChunkWriter], code: list[int]) -> None:
    write(writer_type, tmp_path / "out", [{"npy": npy(np.arange(3, dtype=">i8"))}])
    data = next(path for path in (tmp_path / "out").iterdir() if path.name != "index.json").read_bytes()
    assert data.endswith(np.arange(3, dtype="<i8").tobytes())
    assert bytes(code) in records(data)[0]


def test_a_sample_without_a_part_is_named(tmp_path: Path) -> None:
    samples: list[Mapping[str, bytes]] = [{"txt": b"a", "bin": b"b"}, {"txt": b"a"}]
    with pytest.raises(SampleError, match="part 'bin' is missing") as caught:
        write(MdsWriter, tmp_path / "out", [dict(parts) for parts in samples])
    assert caught.value.key == "a.tar/1"
