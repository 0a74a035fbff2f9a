"""The functions and commands of the page on maps run as they are there."""

from __future__ import annotations

import io
import re
import subprocess
from pathlib import Path

import pytest
from PIL import Image

from loader import open_dataset
from loader.prepare.plan import SplitRequest
from tests.e2e.dataset_tree import prepare, write_shard
from tests.pages import blocks, commands, put_energon_on_path
from tests.source_tree import ROOT

PAGE = (ROOT / "docs/how-to/run-your-own-function.md").read_text(encoding="utf-8")
CRUDE = "__module__: megatron.energon\n__class__: CrudeWebdataset\n"


@pytest.fixture
def coco(tmp_path: Path) -> Path:
    """Twelve pictures with texts, from dark to bright, in three shards."""
    folder = tmp_path / "coco"
    for shard in range(3):
        samples = {}
        for sample in range(4 * shard, 4 * shard + 4):
            file = io.BytesIO()
            Image.new("RGB", (64, 48), (20 * sample,) * 3).save(file, "jpeg")
            samples[f"{sample:06d}"] = {"jpg": file.getvalue(), "txt": f"picture {sample}".encode()}
        write_shard(folder / f"shard_{shard}.tar", samples)
    prepare(folder, split=SplitRequest(ratio={"train": 1.0}), files={"dataset.yaml": CRUDE})
    return folder


def test_the_page_runs(
    coco: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    put_energon_on_path(tmp_path, monkeypatch)
    for name, text in re.findall(r'^```python title="(.*?)"\n(.*?)^```$', PAGE, flags=re.MULTILINE | re.DOTALL):
        (tmp_path / name).write_text(text)
    lines = [line for block in blocks(PAGE, "console") for line in commands(block)]
    script = "\n".join(lines).replace("/data/", f"{tmp_path}/")
    done = subprocess.run(["sh", "-euxc", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    [program] = blocks(PAGE, "python")
    exec(program.replace("/data/", f"{tmp_path}/"), {})
    assert capsys.readouterr().out.startswith("12 0")
    # The results are what the page says.
    dataset = open_dataset(coco)
    assert len(dataset.select(filter="bright")) == 8
    assert len(dataset.select(where="length > 0")) == 11
    assert dataset.columns["score"][:].tolist() == dataset.columns["brightness"][:].tolist()
    small = open_dataset(tmp_path / "coco-small")
    assert small[0]["jpg"].shape == (3, 24, 32)
    assert small[5]["txt"] == "picture 5"
    assert open_dataset(tmp_path / "coco-captions.yaml")[11]["caption.txt"] == "a bright picture"
