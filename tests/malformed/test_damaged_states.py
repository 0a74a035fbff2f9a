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
from loader import DefaultTaskEncoder, WorkerConfig, get_loader, get_train_dataset
from loader.errors import EnergonError, StateError
from loader.training.states.files import read_state_file
from tests.e2e.text_dataset import write_texts


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    dataset = get_train_dataset(
        write_texts(tmp_path_factory.mktemp("data") / "d"),
        batch_size=2,
        shuffle_buffer_size=None,
        max_samples_per_sequence=None,
        task_encoder=DefaultTaskEncoder(),
        worker_config=WorkerConfig.default_worker_config(num_workers=0),
    )
    loader = get_loader(dataset)
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
