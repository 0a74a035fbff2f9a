"""Find the joiner that a metadataset names; without trust, nothing is imported for it."""

from __future__ import annotations

import pickle
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

import pytest

from loader.errors import ConfigError, TrustError
from loader.metadataset.documents.leaf_plan import Joiner
from loader.samples.building.dataset_code import load_joiner

HERE = __name__


@dataclass
class Joined:
    samples: tuple[Any, ...]

    @classmethod
    def from_joined(cls, *samples: Any) -> Self:
        return cls(samples)


class Heir(Joined):
    pass


class Static:
    @staticmethod
    def from_joined(*samples: Any) -> tuple[Any, ...]:
        return samples


class WithoutMethod:
    pass


class WithPlainMethod:
    def from_joined(self, other: Any) -> Any:
        return other


def join(*samples: Any) -> tuple[Any, ...]:
    return samples


PARTIAL = partial(join, 1)
NUMBER = 3


def load(name: str, *, module: str = HERE, is_function: bool = False, trust_code: bool = False) -> Any:
    joiner = Joiner(module=module, name=name, is_function=is_function)
    return load_joiner(joiner, at="mix.yaml: splits.train", trust_code=trust_code)


def test_a_class_joins_with_its_from_joined() -> None:
    assert load("Joined")(1, None) == Joined((1, None))
    assert load("Heir")(1) == Heir((1,))
    assert load("Static")(1, 2) == (1, 2)


def test_a_function_can_join() -> None:
    assert load("join", is_function=True) is join
    assert load("PARTIAL", is_function=True)(2) == (1, 2)


@pytest.mark.parametrize(("name", "is_function"), [("Joined", False), ("Static", False), ("join", True)])
def test_a_joiner_pickles(name: str, is_function: bool) -> None:
    joiner = pickle.loads(pickle.dumps(load(name, is_function=is_function)))
    assert joiner(1, 2) in (Joined((1, 2)), (1, 2))


@pytest.mark.parametrize(
    ("name", "is_function", "found"),
    [
        ("Joind", False, rf"module {HERE} has no class 'Joind'; did you mean 'Joined'"),
        ("joined", True, rf"module {HERE} has no function 'joined'"),
        ("join", False, "join is not a class"),
        ("Joined", True, "Joined is a class"),
        ("NUMBER", True, "NUMBER is not a function"),
        ("NUMBER", False, "NUMBER is not a class"),
        ("WithoutMethod", False, "WithoutMethod has no from_joined; expected a classmethod"),
        ("WithPlainMethod", False, "WithPlainMethod is not a classmethod"),
    ],
)
def test_an_invalid_joiner_is_refused_with_its_position(name: str, is_function: bool, found: str) -> None:
    with pytest.raises(ConfigError, match=found) as caught:
        load(name, is_function=is_function)
    assert caught.value.at == "mix.yaml: splits.train"


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Write a module that is not imported yet; importing it creates a file."""
    name = "joiner_that_leaves_a_trace"
    trace = tmp_path / "imported"
    (tmp_path / f"{name}.py").write_text(f"open({str(trace)!r}, 'w').close()\ndef join(*samples): return samples\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, name, raising=False)
    return name


def test_a_module_is_imported_only_with_trust(module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TrustError, match=f"asks to import {module} for its function join") as caught:
        load("join", module=module, is_function=True)
    assert f"import {module} before loading" in (caught.value.hint or "")
    assert not (tmp_path / "imported").exists()
    assert load("join", module=module, is_function=True, trust_code=True)(1) == (1,)
    assert (tmp_path / "imported").exists()
    assert load("join", module=module, is_function=True)(1) == (1,)  # it is imported now
    monkeypatch.delitem(sys.modules, module)
    monkeypatch.setenv("ENERGON_TRUST_CODE", "1")
    assert load("join", module=module, is_function=True)(2) == (2,)


def test_a_missing_module_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"names no_such_module.Joined, but: No module named 'no_such_module'"):
        load("Joined", module="no_such_module", trust_code=True)


@pytest.mark.parametrize(("module", "name"), [("os", "system"), ("subprocess", "run"), ("builtins", "exec")])
def test_stdlib_functions_are_not_called_without_trust(module: str, name: str) -> None:
    with pytest.raises(TrustError, match=f"asks to call {module}.{name} of Python's standard library"):
        load(name, module=module, is_function=True)


def test_stdlib_functions_are_refused_under_other_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[HERE], "harmless", exec, raising=False)
    with pytest.raises(TrustError, match="of Python's standard library"):
        load("harmless", is_function=True)
