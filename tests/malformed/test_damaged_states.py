"""Files of states that are cut, changed, or no state at all lead to a StateError, never to wrong numbers."""

from __future__ import annotations

import io
import random
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from energon_cli import main as main_module
from loader import DefaultTaskEncoder, EnergonDataloader, SavableDataset, WorkerConfig, get_loader, get_train_dataset
from loader.errors import EnergonError, StateError
from loader.training.states.files import read_state_file
from tests.e2e.text_dataset import write_texts


def open_texts(folder: Path, encoder: DefaultTaskEncoder[Any, Any, Any, Any]) -> SavableDataset[Any]:
    return get_train_dataset(
        folder,
        batch_size=2,
        shuffle_buffer_size=None,
        max_samples_per_sequence=None,
        task_encoder=encoder,
        worker_config=WorkerConfig.default_worker_config(num_workers=0),
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_texts(tmp_path_factory.mktemp("data") / "d")


@pytest.fixture(scope="module")
def texts(folder: Path) -> SavableDataset[Any]:
    return open_texts(folder, DefaultTaskEncoder())


@pytest.fixture(scope="module")
def state(texts: SavableDataset[Any]) -> dict[str, Any]:
    loader = get_loader(texts)
    next(iter(loader))
    return loader.save_state_rank()


def saved(state: object) -> bytes:
    file = io.BytesIO()
    torch.save(state, file)
    return file.getvalue()


def another_zip(_: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a.txt", "x")
    return file.getvalue()


def with_a_wrong_number(data: bytes) -> bytes:
    """Change one byte of the pickle; torch loads it without an error."""
    place = data.index(b"lanes")
    return data[:place] + b"lames" + data[place + 5 :]


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "cut early": lambda data: data[:100],
    "cut": lambda data: data[: len(data) // 2],
    "one byte short": lambda data: data[:-1],
    "bad checksum": with_a_wrong_number,
    "another zip": another_zip,
    "no zip": lambda data: b"\0" * len(data),
    "the head of a zip": lambda data: data[:4] + b"\xff" * 500,
    "text": lambda data: b"lanes: 3",
    "an old file of torch": lambda data: b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M",
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_file_is_refused(
    tmp_path: Path, state: dict[str, Any], damage: Callable[[bytes], bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "state.pt"
    path.write_bytes(damage(saved(state)))
    with pytest.raises(StateError) as caught:
        read_state_file(path)
    assert str(path) in (caught.value.at or "")
    for arguments in (["info", str(path)], ["redist", str(path), str(tmp_path / "new"), "--new-world-size", "2"]):
        assert main_module.main(["checkpoint", *arguments]) == 1
        printed = capsys.readouterr()
        assert "this is a bug" not in printed.err
        assert "Traceback" not in printed.err + printed.out
    assert not (tmp_path / "new").exists()


def test_random_damage_ends_in_an_error_or_the_same_state(tmp_path: Path, state: dict[str, Any]) -> None:
    good, chance, path = saved(state), random.Random(5), tmp_path / "state.pt"
    path.write_bytes(good)
    expected = read_state_file(path).states
    refused = 0
    for _ in range(150):
        data = bytearray(good)
        for _ in range(chance.choice([1, 1, 3, 20])):
            data[chance.randrange(len(data))] = chance.randrange(256)
        path.write_bytes(data[: chance.choice([len(data), chance.randrange(len(data))])])
        try:
            assert read_state_file(path).states == expected
        except EnergonError:
            refused += 1
    assert refused > 30


def endless_list() -> list[Any]:
    endless: list[Any] = []
    endless.append(endless)
    return endless


def nested_list() -> list[Any]:
    """Return few lists that nest to billions of values."""
    nested: list[Any] = [0] * 10
    for _ in range(20):
        nested = [nested] * 10
    return nested


FOREIGN: dict[str, Any] = {
    "a tensor": torch.zeros(3),
    "a tensor of one number": torch.tensor(5),
    "bytes": b"x",
    "a complex number": 1j,
    "a dtype": torch.float16,
    "an endless list": endless_list(),
    "a nested list": nested_list(),
}


@pytest.mark.parametrize("field", ["version", "ranks", "lane", "steps", "ended", "dataset", "mix_changes"])
@pytest.mark.parametrize("value", FOREIGN.values(), ids=FOREIGN)
def test_a_state_that_is_not_plain_data_is_refused(
    texts: SavableDataset[Any], state: dict[str, Any], field: str, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENERGON_MAX_DOCUMENT_BYTES", str(2000 * 64))
    damaged = {**state, field: value}
    for restore in (
        lambda loader: loader.restore_state_rank(damaged),
        lambda loader: loader.restore_state_global([damaged]),
        lambda loader: loader.load_state_dict(damaged),
        lambda loader: EnergonDataloader(loader).restore_state(damaged),
    ):
        with pytest.raises(StateError):
            restore(get_loader(texts))


_NO_KEYS: tuple[Any, ...] = (None, 7, "key", [], {}, b"key", [[]], torch.zeros(3))


@pytest.mark.parametrize(
    "change",
    [
        *(lambda _, value=value: value for value in _NO_KEYS),
        *(
            lambda key, place=place, value=value: [*key[:place], value, *key[place + 1 :]]
            for place in range(4)
            for value in (*FOREIGN.values(), None, -1, 0.5, float("nan"), 10**30, 1 << 63, [], [[]], ["x", 0], "", True)
            if not (place == 2 and value is None)
            and not (place == 3 and isinstance(value, list) and not value)  # these are valid
        ),
    ],
)
def test_a_damaged_key_of_a_sample_is_refused(
    texts: SavableDataset[Any], change: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENERGON_MAX_DOCUMENT_BYTES", str(2000 * 64))
    loader = get_loader(texts)
    key = next(iter(loader)).__restore_key__
    assert loader.restore_sample(list(key)).__restore_key__ == key
    with pytest.raises(StateError):
        loader.restore_sample(change(list(key)))


class Failing(DefaultTaskEncoder[Any, Any, Any, Any]):
    """Encoder whose hook fails once it is asked to."""

    fails = False

    def encode_sample(self, sample: Any) -> Any:
        return sample if not Failing.fails else [][len(sample.text)]


def test_the_error_of_a_hook_is_not_taken_for_that_of_a_key(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loader = get_loader(open_texts(folder, Failing()))
    key = next(iter(loader)).__restore_key__
    monkeypatch.setattr(Failing, "fails", True)
    with pytest.raises(IndexError, match="list index out of range"):
        loader.restore_sample(key)
