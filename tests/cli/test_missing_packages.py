"""Commands where optional packages are not installed: each names the command that installs what it needs."""

from __future__ import annotations

import io
from pathlib import Path

import lz4.frame
import pyarrow as pa
import pytest
from PIL import Image
from pyarrow import parquet

from tests.cli.commands_without_packages import run_without
from tests.cli.make_dataset import write_captions, write_shard
from tests.cli.run_energon import RunEnergon

# module, command, what pip installs
CASES = """
pyarrow info table.parquet | 'energon-toolkit[tables]'
pyarrow preview table.parquet | 'energon-toolkit[tables]'
pyarrow get table.parquet 0 | 'energon-toolkit[tables]'
pyarrow lint table.parquet | 'energon-toolkit[tables]'
pyarrow lint tables | 'energon-toolkit[tables]'
pyarrow import table.parquet imported --yes | 'energon-toolkit[tables]'
pyarrow export data exported.parquet | 'energon-toolkit[tables]'
datasets export data exported --format hf | 'energon-toolkit[hf]'
huggingface_hub info hf://datasets/me/cats | "energon-toolkit[hf]"
obstore info s3://bucket/cats | 'energon-toolkit[remote]'
multistorageclient info msc://profile/cats | 'energon-toolkit[msc]'
lz4 prepare compressed --decompress --yes | 'energon-toolkit[decompress]'
tokenizers stats data --tokenizer tokens.json | 'energon-toolkit[tokens]'
distributed map data functions.py:parts --raw --write a --engine dask | 'energon-toolkit[dask]'
ray map data functions.py:parts --raw --write b --engine ray | 'energon-toolkit[ray]'
uvicorn browse data --no-open | 'energon-toolkit[browse]'
mfusepy mount data mounted | 'energon-toolkit[mount]'
cbor2 map data functions.py:parts --show | cbor2
cbor2 map data functions.py:parts --write c | cbor2
pillow_heif map pictures functions.py:parts --write d | pillow-heif
av stats sounds | 'energon-toolkit[av]'
av prepare-media media --media-metadata-by-extension | 'energon-toolkit[av]'
"""


def test_a_missing_package_is_named_with_the_command_that_installs_it(tmp_path: Path, energon: RunEnergon) -> None:
    heic = io.BytesIO()
    pytest.importorskip("pillow_heif").register_heif_opener()
    Image.new("RGB", (16, 16)).save(heic, "HEIF")
    for table in ("table.parquet", "tables/table.parquet"):
        (tmp_path / table).parent.mkdir(exist_ok=True)
        parquet.write_table(pa.table({"text": ["a", "b"]}), tmp_path / table)
    write_captions(tmp_path / "data", parts=lambda number: {"txt": b"text", "cbor": b"\xa0"})
    write_shard(tmp_path / "pictures" / "a.tar", {"0": {"heic": heic.getvalue(), "txt": b"text"}})
    write_shard(tmp_path / "sounds" / "a.tar", {"0": {"mp3": b"ID3", "txt": b"text"}})
    (tmp_path / "media").mkdir()
    (tmp_path / "media" / "a.mp3").write_bytes(b"ID3")
    for folder in ("data", "pictures", "sounds", "tables"):
        done = energon("prepare", tmp_path / folder, "--yes", "--split-ratio", "1,0,0", "--sample-type", "CrudeSample")
        assert done.code == 0
    (tmp_path / "compressed").mkdir()
    (tmp_path / "compressed" / "a.tar.lz4").write_bytes(lz4.frame.compress(bytes(1024)))
    (tmp_path / "tokens.json").write_text("{}")
    (tmp_path / "functions.py").write_text("def parts(sample):\n    return len(sample)")
    cases = [[text.strip() for text in line.split("|")] for line in CASES.strip().splitlines()]
    lines = [case[0].partition(" ") for case in cases]
    results, *_ = run_without({name for name, _, _ in lines}, [line for _, _, line in lines], tmp_path)
    for (code, text), (line, package) in zip(results, cases, strict=True):
        assert code == 1, (line, text)
        assert f"pip install {package}" in " ".join(text.split()), (line, text)
        assert "this is a bug" not in text, (line, text)
        assert "samples failed" not in text, (line, text)
