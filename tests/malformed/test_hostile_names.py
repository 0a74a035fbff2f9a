"""Keys, paths and captions with terminal escapes reach messages of errors, which must not pass them on."""

from __future__ import annotations

import copy
import json
import pickle
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loader import DefaultTaskEncoder, WorkerConfig, get_loader, get_train_dataset, get_val_dataset
from loader.errors import ConfigError, EnergonError, Fault, FormatError, SampleException, StorageError
from loader.format.dataset_folder import DatasetFolder
from loader.stores import DatasetFileStore
from loader.training.states.files import read_state_file
from tests.e2e.dataset_tree import prepare, write_shard
from tests.e2e.text_dataset import TEXT

EVIL = "k\x1b]0;owned\x07\x9b31m\u202eexe\u2066\r\u2028"
YAML_EVIL = json.dumps(EVIL)  # YAML reads these escapes, too


def assert_plain(error: BaseException) -> None:
    for text in (str(error), *map(str, error.args)):
        unsafe = [c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") and c not in "\n\t"]
        assert not unsafe, (unsafe, text)


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    folder = tmp_path / f"data{EVIL}"
    write_shard(folder / "s.tar", {f"{EVIL}{number}": {"txt": b"a"} for number in range(4)})
    prepare(folder, files={"dataset.yaml": TEXT})
    return folder


def mix_with_an_unknown_key(folder: Path) -> object:
    path = folder / "mix.yaml"
    path.write_text(
        f"__module__: megatron.energon\n__class__: MetadatasetV2\nsplits:\n  train:\n    path: .\n    {YAML_EVIL}: 1\n"
    )
    return get_train_dataset(path, batch_size=1, **_ARGUMENTS)


def mix_of_a_missing_dataset(folder: Path) -> object:
    path = folder / "mix.yaml"
    path.write_text(
        f"__module__: megatron.energon\n__class__: MetadatasetV2\nsplits:\n  train: {{path: {YAML_EVIL}}}\n"
    )
    return get_train_dataset(path, batch_size=1, **_ARGUMENTS)


_ARGUMENTS: dict[str, Any] = {
    "worker_config": WorkerConfig.default_worker_config(num_workers=0),
    "shuffle_buffer_size": None,
    "max_samples_per_sequence": None,
}


def split_with_an_unknown_key(folder: Path) -> object:
    (folder / ".nv-meta/split.yaml").write_text(f"{YAML_EVIL}: 1\nsplit_parts: {{}}\n")
    return DatasetFolder(folder).split


def unknown_split_part(folder: Path) -> object:
    return get_val_dataset(
        folder, batch_size=1, split_part=EVIL, worker_config=WorkerConfig.default_worker_config(num_workers=0)
    )


def sample_that_fails(folder: Path) -> object:
    class Failing(DefaultTaskEncoder[Any, Any, Any, Any]):
        def encode_sample(self, sample: Any) -> Any:
            raise ValueError(f"no {sample.__key__}")

    dataset = get_train_dataset(folder, batch_size=1, task_encoder=Failing(), **_ARGUMENTS)
    return list(zip(range(99_999), get_loader(dataset), strict=False))


def missing_file_of_a_store(folder: Path) -> object:
    return DatasetFileStore(folder)[f"{EVIL}9.txt"]


def damaged_column(folder: Path) -> object:
    (column,) = folder.glob(".nv-meta/index/*/key_hash.npy")
    column.write_bytes(b"\x1b]0;x\x07")
    return len(DatasetFolder(folder).index)


def damaged_state(folder: Path) -> object:
    path = folder / "state.json"
    path.write_text(json.dumps({EVIL: {"version": 1, "lanes": 3, "ranks": 1, "rank": 0, "lane": 7}}))
    return read_state_file(path)


ENTRY_POINTS = [
    mix_with_an_unknown_key,
    mix_of_a_missing_dataset,
    split_with_an_unknown_key,
    unknown_split_part,
    sample_that_fails,
    missing_file_of_a_store,
    damaged_column,
    damaged_state,
]


@pytest.mark.parametrize("enter", ENTRY_POINTS, ids=lambda enter: enter.__name__)
@pytest.mark.filterwarnings("ignore")
def test_messages_escape_what_a_terminal_would_interpret(texts: Path, enter: Callable[[Path], object]) -> None:
    with pytest.raises(EnergonError) as caught:
        enter(texts)
    assert_plain(caught.value)
    assert "\\x1b]0;" in str(caught.value)


def test_texts_are_escaped_when_made_changed_copied_and_pickled() -> None:
    error = ConfigError(faults=[Fault(place=f"a\n{EVIL}", message=f"found {EVIL}")], file=EVIL, hint=EVIL)
    assert_plain(error)
    assert str(error).count("\n") == 2  # a place has no line breaks
    error.at = error.hint = EVIL
    assert_plain(error)
    assert error.file == EVIL  # fields are for programs
    for copied in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert str(copied) == str(error)
        assert copied.file == EVIL
    assert_plain(SampleException.from_sample_key(EVIL, EVIL))
    assert StorageError("a", path="caf\udce9").at == "caf\\xe9"
    assert FormatError("two\n\tlines", shard="ä🙂.tar").message == "two\n\tlines"
