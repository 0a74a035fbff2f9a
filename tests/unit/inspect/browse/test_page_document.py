"""The page of a sample says how its pictures are shown."""

from __future__ import annotations

import io
from pathlib import Path

from PIL import Image

from loader.format.dataset_ref import DatasetRef
from loader.inspect.browse.dataset import BrowsedDataset
from loader.inspect.browse.page_document import sample_page
from loader.inspect.fields import describe_part
from loader.prepare.plan import PreparePlan, SplitRequest
from loader.prepare.run import run_prepare
from tests.e2e.dataset_tree import shard_path, write_shard


def jpeg(orientation: int) -> bytes:
    exif, file = Image.Exif(), io.BytesIO()
    exif[0x0112] = orientation
    Image.new("RGB", (8, 4)).save(file, "JPEG", exif=exif)
    return file.getvalue()


def test_a_picture_that_viewers_turn_has_a_note(tmp_path: Path) -> None:
    write_shard(shard_path(tmp_path, 0), {"0": {"jpg": jpeg(1)}, "1": {"jpg": jpeg(6)}})
    run_prepare(PreparePlan(path=str(tmp_path), split=SplitRequest(ratio={"train": 1.0})))
    dataset = BrowsedDataset("ds", DatasetRef(str(tmp_path)))
    notes = [sample_page(dataset, number)["parts"][0]["note"] for number in (0, 1)]
    turned = "shown as training reads it; by its EXIF orientation, viewers show it turned by 90° to the right"
    assert notes == [None, turned]
    assert describe_part("jpg", jpeg(6)).facts.endswith(f"; {turned}")
