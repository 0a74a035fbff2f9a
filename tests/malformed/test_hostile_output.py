"""Commands print names, captions and values with terminal escapes as text, and as ASCII in JSON."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from energon_cli.main import main
from loader import build_filter_index
from loader.prepare.plan import SplitRequest
from tests.e2e.dataset_tree import prepare, write_shard
from tests.malformed.test_hostile_names import EVIL, YAML_EVIL, as_yaml, assert_safe
from tests.token_files import numbered, write_tokens

_CRUDE = f"__module__: megatron.energon\n__class__: CrudeWebdataset\nsubflavors: {{{YAML_EVIL}: {YAML_EVIL}}}\n"


def _shards(folder: Path) -> Path:
    parts = {"txt": f"a\n{EVIL}".encode(), "json": json.dumps({EVIL: EVIL}).encode(), f"x{EVIL}.bin": b"0", "jpg": b"0"}
    write_shard(folder / f"s{EVIL}.tar", {f"k{EVIL}{number}": parts for number in range(3)})
    return folder


def _dataset(folder: Path) -> Path:
    prepare(
        _shards(folder), split=SplitRequest(parts={f"part{EVIL}": (f"s{EVIL}.tar",)}), files={"dataset.yaml": _CRUDE}
    )
    build_filter_index(folder, "some", [0, 1])
    return folder


def _mix(path: Path) -> Path:
    folder = as_yaml(str(_dataset(path / "data")))
    document = path / f"mix{EVIL}.yaml"
    document.write_text(
        f"__module__: megatron.energon\n__class__: MetadatasetV2\nsplits:\n  {YAML_EVIL}:\n    path: {folder}\n"
        f"    split_part: {as_yaml(f'part{EVIL}')}\n    aux: {{{YAML_EVIL}: {folder}}}\n  train:\n    blend:\n"
        f"    - {{path: {folder}, subflavors: {{{YAML_EVIL}: 1}}}}\n    - {{path: '${{EVIL_PATH}}'}}\n"
    )
    return document


def _join(path: Path) -> Path:
    member = f"{{path: {as_yaml(str(_dataset(path / 'data')))}, split_part: {as_yaml(f'part{EVIL}')}}}"
    document = path / f"join{EVIL}.yaml"
    document.write_text(
        f"__module__: megatron.energon\n__class__: MetadatasetV2\nsplits:\n  train:\n"
        f"    join: {{{YAML_EVIL}: {member}, other: {member}}}\n"
        f"    joiner: {{__module__: {YAML_EVIL}, __class__: {YAML_EVIL}}}\n"
    )
    return document


def _lines(path: Path) -> Path:
    path = path / f"a{EVIL}.jsonl"
    path.write_text(json.dumps({EVIL: EVIL}) + "\n")
    return path


def _table(path: Path) -> Path:
    path = path / f"a{EVIL}.parquet"
    parquet.write_table(pa.table({f"c{EVIL}": [EVIL]}), path)
    return path


def _tokens(path: Path) -> Path:
    return write_tokens(path / f"a{EVIL}", numbered(3))


def _packed(path: Path) -> Path:
    shard = next(_shards(path).iterdir())
    (path / f"z{EVIL}.tar.gz").write_bytes(gzip.compress(shard.read_bytes()))
    (path / f"y{EVIL}.tar.gz").write_bytes(b"no gzip")
    shard.unlink()
    return path


def _files(path: Path) -> Path:
    (path / f"a{EVIL}.mp4").write_bytes(b"\0\0\0\x18ftypisom" + b"x" * 99)
    return path


@pytest.mark.parametrize("write", [_dataset, _mix, _join, _lines, _table, _tokens, _packed, _files])
def test_no_command_prints_what_a_terminal_would_interpret(
    tmp_path: Path, write: Callable[[Path], Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("EVIL_PATH", EVIL)
    (tmp_path / EVIL).mkdir()
    path = str(write(tmp_path / EVIL))
    for command in (
        "prepare --num-workers 1 --yes --force-overwrite" if write is _dataset else "prepare --num-workers 1",
        "prepare --num-workers 1 --yes --dry-run",
        "prepare --num-workers 1 --yes --decompress",
        "prepare-media --num-workers 1 --media-metadata-by-header",
        *("info", "info --json", "lint --parallel 1", "lint --parallel 1 --all", "lint --parallel 1 --json"),
        *("preview -n 5", "preview -n 5 --crude", "preview -n 5 --json", "preview no"),
    ):
        name, *options = command.split()
        main([name, path, *options])
        printed = capsys.readouterr()
        for text in (printed.out, printed.err):
            if text:
                assert_safe(text, quoted="")
        if "--json" in options and printed.out:
            assert printed.out.isascii()
            for document in [printed.out] if name != "preview" else printed.out.splitlines():
                json.loads(document)
