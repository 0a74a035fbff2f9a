"""Checkpoints of Lightning whose loader state is damaged or hostile are refused in words, and soon."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from energon_cli.main import main
from loader import StateError
from loader.errors import EnergonError
from tests.e2e.test_lightning import EPOCH, data_of, loader_of
from tests.e2e.text_dataset import write_texts
from tests.malformed.test_damaged_states import endless_list, with_a_wrong_number

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*LeafSpec.* is deprecated:FutureWarning"),  # Lightning with the installed torch
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    pytest.mark.filterwarnings("ignore:.*your dataloader is not resumable"),
]

_MAX_MESSAGE = 2500


def doubled_list() -> list[Any]:
    nested: list[Any] = []
    for _ in range(60):
        nested = [nested, nested]
    return nested


VALUES: list[Any] = [
    *(None, True, -1, 0.5, float("nan"), 2**63, 2**200, 10**5000),
    *("", "1", "x" * (1 << 20), b"x", torch.zeros(3), object(), set()),
    *([], {}, [None], {"a": 1}, {1: 2}, {10**5000: 1}, {"x" * (1 << 20): 1}, endless_list(), doubled_list()),
]


def places_in(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the place of a state and of everything in it."""
    yield above
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places_in(inner, (*above, key))


def replaced(value: Any, place: tuple[Any, ...], new: Any) -> Any:
    if not place:
        return new
    copied = value.copy()
    copied[place[0]] = replaced(value[place[0]], place[1:], new)
    return copied


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_texts(tmp_path_factory.mktemp("lightning") / "texts"))


@pytest.fixture(scope="module")
def checkpoint(lightning: Any, texts: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoints")
    lightning.fit(folder, 2, model_type=lightning.ValidatedRecorder, datamodule=data_of(lightning, texts))
    return folder / "2.ckpt"


def content_of(checkpoint: Path) -> Any:
    return torch.load(checkpoint, weights_only=True)


def state_in(content: Any) -> Any:
    return content["loops"]["fit_loop"]["state_dict"]["combined_loader"][0]


@pytest.mark.parametrize("count", [80, pytest.param(300, marks=pytest.mark.slow)])
def test_any_value_in_any_place_of_a_state_is_refused_or_restored(texts: str, checkpoint: Path, count: int) -> None:
    state = state_in(content_of(checkpoint))
    cases = [(place, value) for place in places_in(state) for value in VALUES]
    refused = 0
    for place, value in random.Random(11).sample(cases, count):
        damaged = replaced(state, place, value)
        loader = loader_of(texts, virtual_epoch_length=EPOCH)
        message = ""
        try:
            loader.load_state_dict(random.Random(refused).choice([damaged, {"states of all ranks": [damaged]}]))
            next(iter(loader))
        except EnergonError as error:
            message = str(error)
            refused += 1
        assert len(message) < _MAX_MESSAGE, place
    assert refused > count // 2


@pytest.mark.parametrize("value", [None, 5, "x", [[]], {"consumed_samples": True}, {"consumed_samples": 2**53}])
def test_a_damaged_count_of_a_data_module_is_refused(lightning: Any, texts: str, value: Any) -> None:
    with pytest.raises(StateError, match="expected a number of samples as consumed_samples"):
        lightning.Epochs(texts).load_state_dict(value)


@pytest.mark.parametrize("change", [{"lanes": "3"}, {"dataset": "x" * (1 << 20)}, {"lane": [1]}, {"batch": 2**60}])
@pytest.mark.parametrize("is_of_module", [False, True])
def test_a_run_that_continues_from_a_damaged_state_ends_in_words(
    lightning: Any, texts: str, checkpoint: Path, tmp_path: Path, change: dict[str, Any], *, is_of_module: bool
) -> None:
    content = content_of(checkpoint)
    (content["Texts"]["run"][0] if is_of_module else state_in(content)).update(change)
    torch.save(content, tmp_path / "2.ckpt")
    with pytest.raises(StateError):
        lightning.fit(
            tmp_path,
            4,
            model_type=lightning.ValidatedRecorder,
            datamodule=data_of(lightning, texts),
            checkpoint=tmp_path / "2.ckpt",
        )


def test_a_changed_byte_is_found_though_torch_compares_no_checksum(
    lightning: Any, texts: str, checkpoint: Path, tmp_path: Path
) -> None:
    (tmp_path / "2.ckpt").write_bytes(with_a_wrong_number(checkpoint.read_bytes()))
    with pytest.raises(StateError, match="lanes"):
        lightning.fit(
            tmp_path,
            4,
            model_type=lightning.ValidatedRecorder,
            datamodule=data_of(lightning, texts),
            checkpoint=tmp_path / "2.ckpt",
        )


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: data[: len(data) // 2], with_a_wrong_number])
def test_commands_refuse_a_damaged_checkpoint(
    checkpoint: Path, tmp_path: Path, damage: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "2.ckpt"
    path.write_bytes(damage(checkpoint.read_bytes()))
    for command in (["info", str(path)], ["redist", str(path), str(tmp_path / "new"), "--new-world-size", "2"]):
        assert main(["checkpoint", *command]) == 1
        assert "this file of torch.save is damaged" in "".join(capsys.readouterr())
    assert not (tmp_path / "new").exists()
