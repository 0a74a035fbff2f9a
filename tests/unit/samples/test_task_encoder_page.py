"""Run the code of docs/how-to/task-encoder.md on a dataset like that of the page."""

from __future__ import annotations

import re
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch

from loader import TextSample, WorkerConfig, get_loader, get_train_dataset
from tests.e2e.dataset_tree import prepare, write_shard
from tests.source_tree import ROOT

PAGE = ROOT / "docs" / "how-to" / "task-encoder.md"
TEXTS = [f"{'A b c ' * (number % 4)}{number}" for number in range(20)]
TYPED = "sample_type: {__module__: megatron.energon, __class__: TextSample}\nfield_map: {text: txt}\n"
CRUDE = "__module__: megatron.energon\n__class__: CrudeWebdataset\nsubflavors: {kind: text}\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    for name, config in (("texts", TYPED), ("crude", CRUDE)):
        parts = {f"{number:04}": {"txt": f" {text} ".encode()} for number, text in enumerate(TEXTS)}
        write_shard(folder / name / "s.tar", parts)
        prepare(folder / name, files={"dataset.yaml": config})
    return folder


@pytest.fixture(scope="module")
def page(folder: Path) -> dict[str, Any]:
    """Run the page; return the names that it defines."""
    names: dict[str, Any] = {}
    code = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    exec("\n".join(code).replace("/data/", f"{folder}/"), names)
    return names


def batches(path: Path, encoder: Any, **arguments: Any) -> list[Any]:
    dataset = get_train_dataset(
        path,
        shuffle_buffer_size=100,
        max_samples_per_sequence=5,
        task_encoder=encoder,
        worker_config=WorkerConfig.default_worker_config(num_workers=0),
        **{"batch_size": 4} | arguments,
    )
    return list(islice(get_loader(dataset), 8))


def test_texts_become_padded_tokens(page: dict[str, Any], folder: Path) -> None:
    for batch in batches(folder / "texts", page["Tokenize"]()):
        lengths = [len(f" {TEXTS[int(key.rpartition('/')[2])]} ") for key in batch["__key__"]]
        assert batch["ids"].shape == (4, max(lengths))
        assert batch["ids"].count_nonzero(dim=1).tolist() == lengths


def test_a_batch_type_has_its_methods(page: dict[str, Any], folder: Path) -> None:
    batch = batches(folder / "texts", page["TokenizeTyped"]())[0]
    assert type(batch) is page["TextBatch"]
    assert torch.equal(batch.mask(), batch.ids != 0)


def test_a_cooker_cooks_the_samples_of_a_crude_dataset(page: dict[str, Any], folder: Path) -> None:
    batch = batches(folder / "crude", page["Cooking"]())[0]
    assert set(batch.text) <= set(TEXTS)
    assert batch.__subflavors__ == [{"kind": "text"}] * 4
    assert type(batch) is TextSample


def test_packed_samples_hold_no_more_than_fits(page: dict[str, Any]) -> None:
    for batch in islice(get_loader(page["packed"]), 4):
        assert batch["ids"].shape[1] <= 64
        assert batch["ids"].count_nonzero() > 64


def test_each_group_has_its_batch_size(page: dict[str, Any], folder: Path) -> None:
    made = batches(folder / "texts", page["ByLength"]())
    assert {(len(batch["ids"]), bool(batch["ids"].shape[1] < 8)) for batch in made} == {(8, True), (4, False)}


def test_a_hook_with_restored_seeds_draws_the_same_numbers(page: dict[str, Any], folder: Path) -> None:
    first, second = (batches(folder / "texts", page["Crop"]()) for _ in range(2))
    assert [batch.text for batch in first] == [batch.text for batch in second]
    assert not all(text.startswith(" ") for batch in first for text in batch.text)


def test_an_augmenting_encoder_overrides_its_own_hooks(page: dict[str, Any], folder: Path) -> None:
    inner, outer = (batches(folder / "texts", page[name]) for name in ("inner", "encoder"))
    assert [batch["__key__"] for batch in inner] == [batch["__key__"] for batch in outer]
    assert any((batch["ids"] == ord("A")).any() for batch in inner)
    assert not any((batch["ids"] == ord("A")).any() for batch in outer)
