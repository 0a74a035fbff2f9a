"""Functions by name and as objects: what workers load, and when the same name is another function."""

from __future__ import annotations

import os
import pickle
import sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

from loader import open_dataset
from loader.errors import ConfigError
from loader.mapping.function import given_function, named_function, one_thread
from tests.e2e import map_functions
from tests.e2e.dataset_tree import prepare, write_shards


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = write_shards(tmp_path / "data", 2)
    prepare(folder)
    return folder


class Instance:
    made = 0

    def __init__(self) -> None:
        type(self).made += 1

    def __call__(self, sample: Any) -> int:
        return self.made


def test_a_class_is_made_once_a_process_and_not_for_the_check(folder: Path) -> None:
    Instance.made = 0
    given = given_function(Instance)
    given.check()
    assert Instance.made == 0
    assert given.load() is given.load()
    assert Instance.made == 1
    given.unload()
    open_dataset(folder).map(Instance, write="a")
    assert Instance.made == 2


def test_two_lambdas_are_two_functions(folder: Path) -> None:
    dataset = open_dataset(folder)
    for factor in (1, 2):
        for workers in (1, 2):
            dataset.map(lambda sample, factor=factor: factor * sample["json"]["number"], write="a", workers=workers)
            assert dataset.columns["a"][:].tolist() == [factor * number for number in range(6)]


def test_the_digest_of_a_function_without_a_file_is_the_same_in_each_process() -> None:
    code = "def outer(x):\n    def inner(y):\n        return y + 1\n    return inner(x)"
    spaces: list[dict[str, Any]] = [{}, {}, {}]
    for space, text in zip(spaces, (code, code, code.replace("1", "2")), strict=True):
        exec(compile(text, "<cell>", "exec"), space)
    first, second, other = (given_function(space["outer"]).source_digest() for space in spaces)
    assert first == second != other


def test_a_module_of_a_file_is_imported_once_and_found_by_pickle(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("class C:\n    def __call__(self, sample):\n        return 1\n")
    function = named_function("mine.py:C", folder=str(tmp_path)).load()
    assert type(pickle.loads(pickle.dumps(function))) is type(function)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a b", "expected MODULE:FUNCTION"),
        (":f", "expected MODULE:FUNCTION"),
        ("os:no.such", "there is no 'no' in os"),
        ("no_such_module:f", "cannot import no_such_module"),
        ("no_such_file.py:f", "cannot import no_such_file.py"),
        ("os:sep", "expected a function or a class with __call__, found str"),
    ],
)
def test_what_is_no_function_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        named_function(text).check()


def test_executors_take_functions_of_modules_and_threads_any(folder: Path) -> None:
    dataset = open_dataset(folder)
    with ThreadPoolExecutor(2) as threads:
        assert dataset.map(lambda sample: 1, write="a", engine=threads).samples == 6
    with ProcessPoolExecutor(1) as processes:
        with pytest.raises(ConfigError, match="cannot be pickled"):
            dataset.map(lambda sample: 1, write="a", engine=processes)
        assert dataset.map(map_functions.number, write="a", engine=processes).samples == 6


def test_a_selection_maps_its_samples_and_skips_excluded_ones(folder: Path) -> None:
    dataset = open_dataset(folder)
    chosen = dataset.select(keys=["00001", "00002"])
    assert chosen.map(map_functions.number, write="number").samples == 2
    assert len(dataset.select(where="number >= 0")) == 2
    with pytest.raises(ConfigError, match="no sample was chosen"):
        dataset.select(where="number > 5").map(map_functions.number, write="b")
    with pytest.raises(ConfigError, match="expected one of write, to_filter"):
        dataset.map(map_functions.number)
    with pytest.raises(ConfigError, match="expected a prepared dataset"):
        open_dataset(next(folder.glob("*.tar"))).map(map_functions.number, write="b")


def test_torch_has_one_thread_in_a_map_and_as_many_as_before_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        with one_thread():
            assert torch.get_num_threads() == 1
            assert os.environ["OMP_NUM_THREADS"] == "1"
        assert torch.get_num_threads() == 3
        monkeypatch.setenv("OMP_NUM_THREADS", "2")
        with one_thread():
            assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
    assert "torch" in sys.modules
