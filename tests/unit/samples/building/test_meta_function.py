from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from loader.errors import ConfigError, TrustError
from loader.samples.building.dataset_code import MetaFunction

SOURCE = """\
from dataclasses import dataclass

@dataclass
class Point:
    x: int

def sample_loader(sample):
    return Point(sample["x"])
"""


@pytest.fixture
def meta_folder(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / ".nv-meta"
    folder.mkdir()
    (folder / "sample_loader.py").write_text(SOURCE)
    before = set(sys.modules)
    yield folder
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_code_runs_only_with_trust(meta_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    marker = meta_folder / "ran"
    (meta_folder / "sample_loader.py").write_text(f"open({str(marker)!r}, 'w').close()\ndef load(sample): return 1")
    with pytest.raises(TrustError) as caught:
        MetaFunction(meta_folder, "sample_loader.py:load", trust_code=False)
    assert str(meta_folder / "sample_loader.py") in str(caught.value)
    assert "trust_code=True" in str(caught.value)
    assert not marker.exists()
    monkeypatch.setenv("ENERGON_TRUST_CODE", "1")
    assert MetaFunction(meta_folder, "sample_loader.py:load", trust_code=False)({}) == 1
    assert marker.exists()


def test_a_function_pickles_as_file_and_name(meta_folder: Path) -> None:
    function = MetaFunction(meta_folder, "sample_loader.py:sample_loader", trust_code=True)
    data = pickle.dumps(function)
    assert b"Point" not in data
    assert pickle.loads(data)({"x": 3}) == function({"x": 3})
    assert repr(function) == f"MetaFunction({str(meta_folder / 'sample_loader.py')!r}, 'sample_loader')"


def test_results_of_a_loader_pickle(meta_folder: Path) -> None:
    point = MetaFunction(meta_folder, "sample_loader.py:sample_loader", trust_code=True)({"x": 3})
    assert pickle.loads(pickle.dumps(point)) == point


def test_only_an_edited_file_is_imported_again(meta_folder: Path) -> None:
    def load() -> Callable[..., object]:
        return MetaFunction(meta_folder, "sample_loader.py:sample_loader", trust_code=True)

    assert type(load()({"x": 3})) is type(load()({"x": 3}))
    (meta_folder / "sample_loader.py").write_text("def sample_loader(sample): return 'new'")
    assert load()({}) == "new"


def test_importing_writes_no_file_and_shadows_no_module(meta_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    before = set(sys.modules)
    MetaFunction(meta_folder, "sample_loader.py:sample_loader", trust_code=True)
    assert [path.name for path in meta_folder.iterdir()] == ["sample_loader.py"]
    [added] = set(sys.modules) - before
    assert added.startswith("_energon_meta_sample_loader_")


def test_the_error_of_a_missing_function_names_the_nearest(meta_folder: Path) -> None:
    with pytest.raises(ConfigError, match="there is no function 'sampel_loader'; did you mean 'sample_loader'"):
        MetaFunction(meta_folder, "sample_loader.py:sampel_loader", trust_code=True)


def test_a_missing_file_is_named(meta_folder: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read this file: No such file") as caught:
        MetaFunction(meta_folder, "other.py:load", trust_code=True)
    assert caught.value.file == str(meta_folder / "other.py")


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("def load(:", "SyntaxError: invalid syntax"),
        ("import no_such_module", "ModuleNotFoundError"),
        ("1 / 0", "ZeroDivision"),
    ],
)
def test_a_failed_import_is_explained_and_leaves_no_module(meta_folder: Path, source: str, found: str) -> None:
    (meta_folder / "sample_loader.py").write_text(source)
    before = set(sys.modules)
    with pytest.raises(ConfigError, match=f"importing this file fails: {found}"):
        MetaFunction(meta_folder, "sample_loader.py:load", trust_code=True)
    assert set(sys.modules) == before
