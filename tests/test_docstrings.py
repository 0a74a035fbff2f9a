"""Every example in a docstring prints what it shows, and every public class has one."""

from __future__ import annotations

import doctest
import io
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

import loader
from tests.source_tree import BELOW_TORCH, layer_of, sources
from tests.token_files import write_tokens

MODULES = [source.module for source in sources() if ">>>" in source.text]
CAPTIONS = ("a cat", "a dog", "two cats", "a bird")
MIX = """\
__module__: megatron.energon
__class__: {version}
splits:
  train:
    {kind}:
      - {{path: photos, weight: 1}}
"""


@cache
def public_names() -> dict[str, Any]:
    return {name: getattr(loader, name) for name in vars(loader)["__all__"]}


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The working folder of the examples: ``photos`` with four samples, a metadataset of each version, and files."""
    monkeypatch.chdir(tmp_path)
    fields = {"image": "jpg", "caption": "txt"}
    with loader.ShardWriter("photos", sample_type="CaptioningSample", field_map=fields) as writer:
        for number, caption in enumerate(CAPTIONS):
            picture = io.BytesIO()
            Image.new("RGB", (8, 6), (number, 0, 0)).save(picture, "JPEG")
            writer.write({"__key__": f"{number:04d}", "jpg": picture.getvalue(), "txt": caption})
    split = Path("photos/.nv-meta/split.yaml")
    split.write_text(split.read_text().replace("split_parts:\n", "split_parts:\n  val: []\n"))
    Path("mix.yaml").write_text(MIX.format(version="MetadatasetV2", kind="blend"))
    Path("old_mix.yaml").write_text(MIX.format(version="Metadataset", kind="datasets"))
    Path("numbers.jsonl").write_text("".join(f'{{"n": {number}}}\n' for number in range(3)))
    Path("note.txt").write_text("a note")
    pq.write_table(pa.table({"caption": CAPTIONS[:2]}), "captions.parquet")
    write_tokens(Path("tokens"), [[7, 8], [9]])


@pytest.mark.usefixtures("data")
def test_the_examples_in_docstrings_are_true() -> None:
    failed: list[str] = []
    for module in MODULES:
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
        # Readers have imported the public names, and of modules above the torch line numpy and torch as well.
        imported = import_module(module)
        given = public_names() | ({} if layer_of(module) in BELOW_TORCH else {"np": np, "torch": torch})
        lacking = {name: value for name, value in given.items() if name not in vars(imported)}
        for example in doctest.DocTestFinder().find(imported, extraglobs=lacking):
            runner.run(example, out=failed.append)
        if not runner.tries:
            failed.append(f"{module} has '>>>' in it, but no example that runs")
    assert not failed, "".join(failed)


def test_every_public_class_has_an_example() -> None:
    finder = doctest.DocTestFinder(recurse=False)
    classes = {name: value for name, value in public_names().items() if isinstance(value, type)}
    assert not [name for name, value in classes.items() if not any(test.examples for test in finder.find(value, name))]
