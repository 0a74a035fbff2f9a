"""The cells of the page on notebooks run in a real kernel, print what the page says, and show pictures."""

from __future__ import annotations

import io
import json
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from loader.dataset.opening import folder_at
from loader.format.columns.column_files import write_column
from loader.prepare.plan import SplitRequest
from tests.e2e.dataset_tree import prepare, write_shard
from tests.e2e.text_dataset import exclude
from tests.source_tree import ROOT

PAGE = ROOT / "docs/how-to/look-at-data-from-python.md"
CONFIG = (
    "sample_type: {__module__: megatron.energon, __class__: CaptioningSample}\n"
    'field_map: {image: jpg, caption: "json[caption]"}\n'
)


@pytest.fixture
def coco(tmp_path: Path) -> Path:
    """24 pictures with captions, in shards of 8; every second one is wider."""
    folder = tmp_path / "coco"
    widths = [64 + 16 * (number % 2) for number in range(24)]
    for shard in range(3):
        samples = {}
        for number in range(8 * shard, 8 * shard + 8):
            file = io.BytesIO()
            Image.new("RGB", (widths[number], 48), (10 * number, 0, 255 - 10 * number)).save(file, "jpeg")
            caption = json.dumps({"caption": f"picture {number}"}).encode()
            samples[f"{number:06d}"] = {"jpg": file.getvalue(), "json": caption}
        write_shard(folder / f"shard_{shard}.tar", samples)
    split = SplitRequest(patterns=(("train", "shard_[01].*"), ("val", "shard_2.*")))
    prepare(folder, split=split, files={"dataset.yaml": CONFIG})
    dataset = folder_at(folder)
    write_column(dataset.storage, dataset.index, "width", np.array(widths), unit="pixels")
    write_column(dataset.storage, dataset.index, "height", np.full(24, 48), unit="pixels")
    exclude(folder, "shard_0.tar/000007")
    return folder


def test_the_cells_of_the_page_run_in_a_notebook(coco: Path) -> None:
    page = PAGE.read_text(encoding="utf-8")
    cells = re.findall(r"^```python\n(.*?)^```$(?:\n\n^```text\n(.*?)^```$)?", page, flags=re.MULTILINE | re.DOTALL)
    assert page.count("```python") == len(cells) > 8
    form: Any = import_module("nbformat.v4")  # slow to import for those who only collect this test
    notebook = form.new_notebook(
        cells=[form.new_code_cell(source.replace("/data/coco", str(coco))) for source, _ in cells]
    )
    import_module("nbclient").NotebookClient(notebook, timeout=120, kernel_name="python3").execute(cwd=str(coco.parent))
    shown: dict[str, str] = {}
    for cell, (source, expected) in zip(notebook.cells, cells, strict=True):
        assert printed(cell).replace(str(coco), "/data/coco") == expected, source
        pages = [output["data"]["text/html"] for output in cell.outputs if output.output_type == "execute_result"]
        assert len(pages) == (not source.rstrip().endswith(")")), source  # its last line is an object to show
        shown |= {source.split()[-1]: "".join(page) for page in pages}
    pictures = {name: page.count("<img src='data:image/jpeg;base64,") for name, page in shown.items()}
    assert pictures == {"coco": 8, "coco[5]": 1, "batch": 4, "frame": 0}
    assert "24 samples in 3 shards" in shown["coco"]
    assert '<iframe src="http://localhost:' in shown["frame"]


def printed(cell: Any) -> str:
    assert not [output for output in cell.outputs if output.get("name") == "stderr"]
    return "".join(output.text for output in cell.outputs if output.output_type == "stream")
