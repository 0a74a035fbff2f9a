"""Opening sources: a plain dataset executes no code of ``loader/metadataset``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import loader
from loader import (
    DefaultTaskEncoder,
    WorkerConfig,
    get_loader,
    get_train_dataset,
    get_val_dataset,
    get_val_datasets,
    load_dataset,
    random_access,
)
from tests.e2e.mixed_data import MixedData, write_mixed_data

ONE = WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=2)
METADATASET = str(Path(loader.__file__).parent / "metadataset")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> MixedData:
    data = write_mixed_data(tmp_path_factory.mktemp("sources"))
    data.write("one.yaml", {"train": {"path": "texts"}})
    return data


@contextmanager
def metadataset_calls() -> Iterator[set[str]]:
    """Collect the functions of ``loader/metadataset`` that this thread calls."""
    called: set[str] = set()

    def note(frame: Any, event: Any, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(METADATASET):
            called.add(f"{code.co_filename}: {code.co_qualname}")

    sys.setprofile(note)
    try:
        yield called
    finally:
        sys.setprofile(None)


def train(path: Path) -> None:
    dataset = get_train_dataset(
        path, batch_size=2, shuffle_buffer_size=4, max_samples_per_sequence=4, worker_config=ONE
    )
    next(iter(get_loader(dataset)))


def validate(path: Path) -> None:
    next(iter(get_loader(get_val_dataset(path, split_part="train", batch_size=2, worker_config=ONE))))


def read_first(path: Path) -> None:
    _ = random_access(path)[0]


@pytest.mark.parametrize("read", [train, validate, read_first])
def test_a_plain_dataset_executes_no_metadataset_code(data: MixedData, read: Callable[[Path], None]) -> None:
    train(data.texts)  # import the modules, which define classes and functions
    with metadataset_calls() as called:
        read(data.texts)
        read(data.lines)
    assert called == set()


@pytest.mark.parametrize("function", [get_train_dataset, get_val_dataset, get_val_datasets, random_access])
def test_a_warning_about_an_argument_names_the_line_of_the_program(function: Any, data: MixedData) -> None:
    with pytest.warns(DeprecationWarning, match="image_decode= is deprecated") as caught:
        function(data.texts, split_part="train", image_decode="pil")
    assert [warning.filename for warning in caught] == [__file__]


@pytest.mark.parametrize("function", [get_train_dataset, get_val_dataset, get_val_datasets, random_access])
def test_an_unknown_argument_names_the_function_that_was_called(function: Any, data: MixedData) -> None:
    with pytest.raises(
        TypeError, match=rf"{function.__name__}\(\) has no argument 'splitpart'; did you mean 'split_part'"
    ):
        function(data.texts, splitpart="train")


def test_a_chain_refuses_arguments_of_the_other_kind(data: MixedData) -> None:
    datasets = load_dataset(data.texts).get_datasets(training=True, worker_config=ONE)
    with pytest.raises(TypeError, match="limit"):
        datasets.train_chain(DefaultTaskEncoder(), worker_config=ONE, batch_size=1, limit=3)
    with pytest.raises(TypeError, match="repeat"):
        datasets.val_chain(DefaultTaskEncoder(), worker_config=ONE, batch_size=1, repeat=True)


def test_a_metadataset_executes_it(data: MixedData) -> None:
    with metadataset_calls() as called:
        train(data.folder / "one.yaml")
    assert any("plan_request" in function for function in called)
