"""Functions by name and as objects: what workers load, and when the same name is another function."""

from __future__ import annotations

import os
import pickle
import sys
import threading
from asyncio import CancelledError
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from loader import TextSample, open_dataset
from loader.errors import ConfigError
from loader.mapping.function import given_function, named_function, one_thread
from loader.prepare.plan import SplitRequest
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
    given.imported()
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
            assert dataset.columns["a"][:].tolist() == [factor * sample for sample in range(6)]


def test_the_digest_of_a_function_without_a_file_is_the_same_in_each_process() -> None:
    code = "def outer(x):\n    def inner(y):\n        return y + 1\n    return inner(x)"
    spaces: list[dict[str, Any]] = [{}, {}, {}]
    for space, text in zip(spaces, (code, code, code.replace("1", "2")), strict=True):
        exec(compile(text, "<cell>", "exec"), space)
    first, second, other = (given_function(space["outer"]).identity() for space in spaces)
    assert first == second != other


def add(number: int, more: int) -> int:
    return number + more


def adding(more: Any) -> Any:
    def inner(number: int) -> int:
        return number + int(more)

    return inner


class Adder:
    def __init__(self, more: int) -> None:
        self.more = more

    def __call__(self, number: int) -> int:
        return number + self.more


@pytest.mark.parametrize("made", [lambda more: partial(add, more=more), adding, Adder])
def test_the_state_of_an_object_distinguishes_it_unless_it_has_a_version(made: Any) -> None:
    one, same, other = (given_function(made(more)).identity() for more in (1, 1, 2))
    assert one == same != other
    versions = [given_function(made(more), version="a").identity() for more in (1, 2)]
    assert versions[0] == versions[1]  # the user says what is the same


def test_an_object_whose_state_does_not_pickle_is_equal_to_no_other_one() -> None:
    one, other = (given_function(adding(threading.Lock())).identity() for _ in range(2))
    name = "value of more, which cannot be compared (lock),"
    assert one[name] != other[name]
    assert {**one, name: ""} == {**other, name: ""}


_SOURCE = """
import functools, json, torch
import numpy as np
FACTOR, NAMES, TABLE, MODEL = 2, {"a", "b", "c"}, {"x": [1, (2.5, None)]}, torch.nn.Linear(1, 1)
MODEL.weight.data.fill_(3), MODEL.bias.data.fill_(0)
WEIGHTS, HALF = np.arange(6).reshape(2, 3).T, torch.tensor(0.5, dtype=torch.bfloat16)
UNUSED = 1
class Score:
    limit = 3
    @functools.cached_property
    def half(self): return self.limit / 2
    @staticmethod
    def of(text): return text in {"p", "q", "r"}
def even(n): return n == 0 or odd(n - 1)
def odd(n): return n > 0 and even(n - 1)
@functools.lru_cache
def cached(n): return n + 7
@torch.no_grad()
def run(x): return MODEL(x) * HALF
def f(sample):
    inner = lambda n: even(n) + cached(n)
    return json.dumps(sample), inner(FACTOR), NAMES, TABLE, WEIGHTS, Score().half, run(sample)
"""


def _identity(source: str) -> dict[str, str]:
    names: dict[str, Any] = {"__name__": "of_a_user"}
    exec(compile(source, "<cell>", "exec"), names)
    return given_function(names["f"]).identity()


@pytest.mark.parametrize(
    ("before", "after", "differs"),
    [
        ("FACTOR, NAMES", "FACTOR  ,\\\n NAMES", ""),
        ("UNUSED = 1", "UNUSED = 2", ""),
        ("= 2, {", "= 3, {", "FACTOR"),
        ('"c"}', '"d"}', "NAMES"),
        ("(2.5, None)", "(2.5, True)", "TABLE"),
        ("reshape(2, 3)", "reshape(3, 2)", "WEIGHTS"),
        ("fill_(3)", "fill_(4)", "MODEL"),
        ("tensor(0.5", "tensor(0.25", "HALF"),
        ("limit = 3", "limit = 4", "Score.limit"),
        ("limit / 2", "limit / 3", "source"),
        ('"r"}', '"s"}', "source"),
        ("n > 0", "n > 1", "source"),
        ("n + 7", "n + 8", "cached"),
        (") * HALF", ") + HALF", "source"),
        ("even(n) + cached", "even(n) - cached", "source"),
        ("json.dumps", "json.loads", "source"),
    ],
)
def test_a_function_is_another_one_if_its_code_or_a_value_that_it_reads_differs(
    before: str, after: str, differs: str
) -> None:
    first, second = _identity(_SOURCE), _identity(_SOURCE.replace(before, after))
    assert not [name for name in first if "cannot be compared" in name]
    changed = [name for name in first | second if first.get(name) != second.get(name)]
    assert len(changed) == bool(differs)
    assert all(differs in name for name in changed)


def test_values_are_digested_by_their_contents_up_to_a_limit() -> None:
    cycle: list[Any] = []
    cycle.append(cycle)
    assert given_function(lambda: cycle).identity() == given_function(lambda: cycle).identity()
    many = [[number] for number in range(300_000)]
    assert any("cannot be compared (list)" in name for name in given_function(lambda: many).identity())


def test_a_function_of_a_module_goes_with_the_file_of_modules_that_it_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    digests = set()
    for value in (1, 2):
        (tmp_path / "settings_of_user.py").write_text(f"LIMIT = {value}  #\n")
        source = "import settings_of_user\ndef f(sample): return settings_of_user.LIMIT"
        digests.add(_identity(source)["source of the function"])
    sys.modules.pop("settings_of_user")
    assert len(digests) == 2


@pytest.mark.parametrize("error", [SystemExit, GeneratorExit, CancelledError])
@pytest.mark.parametrize(
    "source",
    [
        "from asyncio import CancelledError\nraise ERROR(0)",
        "from asyncio import CancelledError\nclass f:\n    def __init__(self): raise ERROR(0)",
    ],
)
def test_a_module_or_class_that_exits_is_an_error(tmp_path: Path, source: str, error: type[BaseException]) -> None:
    (tmp_path / "exits.py").write_text(source.replace("ERROR", error.__name__))
    function = named_function("exits.py:f", folder=str(tmp_path))
    with pytest.raises(ConfigError, match=f"cannot .*: {error.__name__}: 0"):
        function.load()


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
        named_function(text).imported()


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


class Odd(BaseException):
    """An error that is none of the usual ones."""


@pytest.mark.parametrize(
    ("error", "workers"),
    [
        *((error, 1) for error in (SystemExit, GeneratorExit, CancelledError)),
        *((error, 2) for error in (SystemExit, GeneratorExit, CancelledError, KeyboardInterrupt, Odd)),
    ],
)
@pytest.mark.parametrize("batch_size", [None, 3])
@pytest.mark.sampled(3)
def test_a_function_that_exits_fails_for_its_sample_only(
    error: type[BaseException], workers: int, batch_size: int | None, folder: Path
) -> None:
    def exits(sample: Any) -> Any:
        if isinstance(sample, list):
            return [exits(each) for each in sample]
        if sample["json"]["number"] == 2:
            raise error(2)
        return 1

    report = open_dataset(folder).map(exits, write="a", max_failures=1, workers=workers, batch_size=batch_size)
    assert [(failure.key, failure.error) for failure in report.failures] == [
        (open_dataset(folder).key(2), f"{error.__name__}: 2")
    ]


def test_an_interrupt_in_this_process_is_no_failure(folder: Path) -> None:
    def interrupted(sample: Any) -> int:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        open_dataset(folder).map(interrupted, write="a", max_failures=9, batch_size=3)


def test_typed_samples_and_generators_make_a_dataset(folder: Path, tmp_path: Path) -> None:
    dataset = open_dataset(folder)

    def texts(sample: Any) -> Iterator[Any]:
        for copy in range(sample["json"]["number"] % 3):
            yield TextSample(__key__=sample["__key__"], __restore_key__=(), text=f"{sample['txt']}, {copy}")

    assert dataset.map(texts, to_dataset=tmp_path / "new", workers=2).written == (str(tmp_path / "new"),)
    new = open_dataset(tmp_path / "new")
    assert [sample.text for sample in new] == [
        "text 1, 0",
        "text 2, 0",
        "text 2, 1",
        "text 4, 0",
        "text 5, 0",
        "text 5, 1",
    ]
    assert new.key(1).endswith("/00002_0")
    assert new.split_parts == dataset.split_parts


def test_columns_and_filters_of_a_dataset_split_by_samples_are_carried(tmp_path: Path) -> None:
    folder, new = write_shards(tmp_path / "data", 3, samples=7), tmp_path / "new"
    prepare(folder, split=SplitRequest(ratio={"train": 2.0, "val": 1.0, "test": 1.0}, by_samples=True))
    dataset = open_dataset(folder)
    dataset.map(lambda sample: sample["json"]["number"], write="number")
    dataset.map(lambda sample: f"{sample['json']['number']} as a text", write="words")
    dataset.map(lambda sample: sample["json"]["number"] % 3 == 1, to_filter="third")
    report = dataset.map(lambda sample: {"txt": str(sample["json"]["number"])}, to_dataset=new, workers=2)
    assert not report.warnings
    mapped = open_dataset(new)
    numbers = [int(mapped.parts(sample)["txt"]) for sample in range(len(mapped))]
    assert sorted(numbers) == list(range(21))
    assert mapped.columns["number"][:].tolist() == numbers
    assert [*mapped.columns["words"][:]] == [f"{number} as a text" for number in numbers]
    assert [int(sample["txt"]) for sample in mapped.select(filter="third")] == [n for n in numbers if n % 3 == 1]
    for part in ("train", "val", "test"):
        old = {int(dataset.parts(sample)["txt"][5:]) for sample in _numbers_of(dataset, part)}
        assert {int(mapped.parts(sample)["txt"]) for sample in _numbers_of(mapped, part)} == old


def _numbers_of(dataset: Any, part: str) -> list[int]:
    chosen = dataset.select(split_part=part)
    return [dataset.find(chosen.key(sample))[0] for sample in range(len(chosen))]


def test_a_sample_that_fails_in_the_middle_writes_nothing_of_it(folder: Path, tmp_path: Path) -> None:
    def copies(sample: Any) -> Iterator[dict[str, Any]]:
        yield {"txt": "first"}
        if sample["json"]["number"] == 1:
            raise ValueError("second")

    report = open_dataset(folder).map(copies, to_dataset=tmp_path / "new", max_failures=1)
    assert [failure.sample for failure in report.failures] == [1]
    assert len(open_dataset(tmp_path / "new")) == 5


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
