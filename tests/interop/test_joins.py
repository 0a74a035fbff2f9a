"""Each tool reads the join index that the other one has prepared."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import WHOLE, Peer, Program
from .shapes import END, pair, write

ROOT = Path(__file__).parents[2]
JOIN = """\
__module__: megatron.energon
__class__: MetadatasetV2
splits:
  train:
    join:
      - {path: ./p}
      - {path: ./q, nonmatch: skip}
    joiner: {__module__: pairs_of_the_user, __class__: Pair}
"""
MODULE = """\
from megatron.energon import Sample, edataclass

@edataclass
class Pair(Sample):
    first: object
    second: object

    @classmethod
    def from_joined(cls, first, second):
        return cls.derive_from(first, first=first.text, second=second.text)
"""
SCRIPT = """\
import pairs_of_the_user
from megatron.energon import WorkerConfig, get_loader, get_val_dataset
one = WorkerConfig(rank=0, world_size=1, num_workers=0)
dataset = get_val_dataset("join.yaml", split_part="train", batch_size=None, worker_config=one)
print("found", [(s.__key__.rpartition("/")[2], s.first, s.second) for s in get_loader(dataset)])
"""


@pytest.fixture
def folder(ours: Program, tmp_path: Path) -> Path:
    keys = [f"{number:03d}" for number in range(12)]
    p = {f"p{shard}.tar": b"".join(pair(key, int(key)) for key in keys[shard::2]) + END for shard in range(2)}
    q = {"q0.tar": b"".join(pair(key, int(key) + 50) for key in reversed(keys) if key != "005") + END}
    texts = ("--sample-type", "TextSample", "--field-map", '{"text": "txt"}')
    for name, shape in (("p", p), ("q", q)):
        ours.prepare(write(tmp_path / name, shape), *WHOLE, *texts, "--compat")
    (tmp_path / "join.yaml").write_text(JOIN)
    (tmp_path / "pairs_of_the_user.py").write_text(MODULE)
    return tmp_path


def load(python: str, folder: Path) -> str:
    done = subprocess.run(
        [python, "-c", SCRIPT], cwd=folder, capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return next(line for line in done.stdout.splitlines() if line.startswith("found"))


def index_of(folder: Path) -> Path:
    (file,) = (folder / "join.yaml.cache").iterdir()
    return file


def test_both_write_the_same_bytes_and_ours_reads_those_of_the_peer(ours: Program, peer: Peer, folder: Path) -> None:
    peer.run("prepare", folder / "join.yaml")
    of_peer = index_of(folder)
    written = of_peer.read_bytes()
    read_here = load(sys.executable, folder)
    assert not (folder / "join.yaml.joins").exists()
    of_peer.unlink()
    ours.run("prepare", folder / "join.yaml")
    assert index_of(folder) == of_peer
    assert of_peer.read_bytes() == written
    assert read_here == load(sys.executable, folder)
    assert read_here.count("(") == 11
