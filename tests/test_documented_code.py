"""The code on the pages about loading runs as it stands there, and prints what is written below it."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest
from demo_photographs import make_dataset
from PIL import Image

from energon_cli.main import main
from loader.prepare.plan import SplitRequest
from tests.e2e.dataset_tree import prepare, write_shard
from tests.forked_scripts import ForkedScripts
from tests.source_tree import ROOT

PAGES = (
    "docs/getting-started.md",
    "docs/explanation/a-samples-journey.md",
    "docs/explanation/architecture.md",
    "docs/explanation/determinism-and-resume.md",
    "docs/how-to/change-the-number-of-ranks.md",
    "docs/how-to/compose-stages.md",
    "docs/how-to/dataset-classes.md",
    "docs/how-to/deal-with-failures.md",
    "docs/how-to/decode-samples.md",
    "docs/how-to/equal-work-on-all-ranks.md",
    "docs/how-to/filter-samples.md",
    "docs/how-to/find-what-the-loader-waits-for.md",
    "docs/how-to/import-from-hugging-face.md",
    "docs/how-to/import-tables.md",
    "docs/how-to/lightning.md",
    "docs/how-to/load-for-training.md",
    "docs/how-to/look-at-one-sample.md",
    "docs/how-to/megatron-lm.md",
    "docs/how-to/move-batches-to-the-gpu.md",
    "docs/how-to/move-from-megatron-energon.md",
    "docs/how-to/pack-sequences.md",
    "docs/how-to/plain-pytorch.md",
    "docs/how-to/multi-epoch.md",
    "docs/how-to/save-and-restore.md",
    "docs/how-to/serve-several-ranks.md",
    "docs/how-to/several-ranks.md",
    "docs/how-to/validate.md",
    "docs/how-to/what-happens-when.md",
    "docs/how-to/write-shards.md",
)
WARNS = ("docs/how-to/lightning.md",)  # of what Lightning does itself with the present torch, among others
CONFIG = """\
sample_type: {__module__: megatron.energon, __class__: CaptioningSample}
field_map: {image: jpg, caption: "json[caption]"}
"""


def blocks(text: str, language: str) -> str:
    return "".join(re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which the code runs, with the dataset of ``energon demo``, and one of photographs."""
    folder = tmp_path_factory.mktemp("pages")
    dataset = folder / "my_dataset"
    assert main(["demo", str(folder / "build" / "demo")]) == 0
    make_dataset(dataset)
    prepare(dataset, split=SplitRequest(ratio={"train": 2.0, "val": 1.0, "test": 1.0}), files={"dataset.yaml": CONFIG})
    return folder


@pytest.mark.parametrize("page", PAGES)
def test_the_code_on_a_page_prints_what_the_page_says(
    page: str, scripts: ForkedScripts, folder: Path, tmp_path: Path
) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    script = tmp_path / "page.py"
    dataset = str(folder / "my_dataset")
    script.write_text(blocks(text, "python").replace("/data/my_dataset", dataset), encoding="utf-8")
    warnings = "ignore" if page in WARNS else "error"
    printed = scripts.run(script, folder=folder, warnings=warnings)
    assert printed.replace(dataset, "/data/my_dataset") == blocks(text, "text")


def test_the_lines_of_the_first_page_print_three_batches(scripts: ForkedScripts, folder: Path, tmp_path: Path) -> None:
    script = tmp_path / "first_batch.py"
    lines = (ROOT / "docs/first_batch.py").read_text(encoding="utf-8")
    script.write_text(lines.replace("sys.argv[1]", repr(str(folder / "my_dataset"))), encoding="utf-8")
    printed = scripts.run(script, folder=folder, warnings="error")
    assert re.findall(r"^\d .*Sample$", printed, flags=re.MULTILINE) == [
        f"{step} CaptioningSample" for step in range(3)
    ]


@pytest.fixture
def stories(tmp_path: Path) -> Path:
    """The datasets of the page on auxiliary stores: stories, the photos that they name, and files next to them."""
    crude = "__module__: megatron.energon\n__class__: CrudeWebdataset\n"
    photos = {f"{number:03d}": {"jpg": picture(number)} for number in range(40)}
    texts = {
        f"story{number}": {
            "json": json.dumps(
                {
                    "text": f"story {number}",
                    "photos": [f"{number:03d}.jpg", f"{number + 1:03d}.jpg"],
                    "scan": "scans/a.txt",
                }
            ).encode()
        }
        for number in range(20)
    }
    for name, samples in (("photos", photos), ("stories", texts)):
        write_shard(tmp_path / name / "shard.tar", samples)
        prepare(tmp_path / name, split=SplitRequest(ratio={"train": 1.0}), files={"dataset.yaml": crude})
    (tmp_path / "files/scans").mkdir(parents=True)
    (tmp_path / "files/scans/a.txt").write_text("a scan")
    return tmp_path


def picture(number: int) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (8 + number % 3, 8), (number, number, number)).save(file, "jpeg")
    return file.getvalue()


def test_the_page_on_auxiliary_stores_works_on_such_datasets(scripts: ForkedScripts, stories: Path) -> None:
    text = (ROOT / "docs/how-to/auxiliary-files.md").read_text(encoding="utf-8")
    (stories / "data.yaml").write_text(blocks(text, "yaml"))
    # What stands behind the guard of the main module stands before the page's last block there.
    script = stories / "page.py"
    script.write_text(blocks(text, "python"), encoding="utf-8")
    printed = scripts.run(script, folder=stories)
    assert printed.split() == re.findall(r"^ *# (\d+)$", blocks(text, "python"), flags=re.MULTILINE)
