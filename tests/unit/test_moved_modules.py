"""Code that imports a module by its path in version 0.1 gets the module at its new place."""

from __future__ import annotations

import pickle
import subprocess
import sys
from importlib import import_module

import pytest

from loader import moved_modules
from tests.source_tree import ROOT

MOVED = {f"loader.{old}": f"loader.{new}" for old, new in moved_modules._MOVED.items()}

slow = pytest.mark.slow  # each imports torch in a process


def test_every_old_path_is_the_module_at_its_new_place(monkeypatch: pytest.MonkeyPatch) -> None:
    for old, new in MOVED.items():
        package, _, name = old.rpartition(".")
        # An import sets the module as an attribute, which would hide a function of that name from later tests.
        monkeypatch.setitem(vars(import_module(package)), name, None)
        assert import_module(old) is import_module(new), old


def test_no_old_path_hides_a_module() -> None:
    for old in MOVED:
        path = ROOT / old.replace(".", "/")
        assert not path.is_dir(), old
        assert not path.with_suffix(".py").exists(), old


def test_modules_that_became_packages_still_have_their_names() -> None:
    from loader.format.jsonl import JsonlReader, prepare_jsonl
    from loader.format.lint import lint_dataset
    from loader.format.prepare import run_prepare

    assert all(map(callable, (JsonlReader, prepare_jsonl, lint_dataset, run_prepare)))


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("from loader.training.get_loader import get_loader as it", marks=slow),
        pytest.param("import loader.training.get_loader; it = loader.training.get_loader.get_loader", marks=slow),
        pytest.param("import loader.training.get_loader as module; it = module.get_loader", marks=slow),
        pytest.param("from loader.training import get_loader as module; it = module.get_loader", marks=slow),
        "import pickle; it = pickle.loads(b'cloader.training.get_loader\\nget_loader\\n.')",
    ],
)
def test_every_form_of_import_works_in_a_fresh_process(line: str) -> None:
    code = f"{line}\nimport loader\nassert it is loader.get_loader"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_new_module_keeps_its_own_name() -> None:
    module = import_module("loader.training.get_loader")
    assert module.__spec__
    assert module.__name__ == module.__spec__.name == "loader.training.loaders.get_loader"
    assert pickle.loads(pickle.dumps(module.get_loader)) is module.get_loader


def test_an_unknown_path_is_not_found() -> None:
    with pytest.raises(ModuleNotFoundError, match="get_trian"):
        import_module("loader.training.get_trian")
