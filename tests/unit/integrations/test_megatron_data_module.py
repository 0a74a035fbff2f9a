"""The choice of the Lightning package that the data module derives from."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import loader
from loader.integrations.num_microbatches_calculator import MegatronDataSampler
from tests.source_tree import ROOT

MODULE = "loader.integrations.megatron_data_module"


@pytest.fixture
def no_lightning(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in [*sys.modules]:
        if name.partition(".")[0] in ("lightning", "pytorch_lightning"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "lightning", None)
    monkeypatch.setitem(sys.modules, "pytorch_lightning", None)
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    yield
    sys.modules.pop(MODULE, None)


def fake(monkeypatch: pytest.MonkeyPatch, name: str) -> type:
    module: Any = ModuleType(name)
    base = module.LightningDataModule = type("LightningDataModule", (), {})
    module.__path__ = []
    monkeypatch.setitem(sys.modules, name, module)
    return base


def test_without_lightning_the_extra_is_named(no_lightning: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(vars(loader), "MegatronDataModule", raising=False)
    with pytest.raises(ImportError, match=r"pip install 'energon-toolkit\[lightning\]'") as caught:
        loader.MegatronDataModule  # noqa: B018
    assert caught.value.name == "lightning"


def test_all_else_works_without_lightning_also_where_everything_is_imported() -> None:
    code = "import sys; sys.modules.update(lightning=None, pytorch_lightning=None)\n"
    code += "from loader import *; import loader, loader.integrations.num_microbatches_calculator\n"
    code += "print(EnergonMultiModalDataModule.__name__, 'MegatronDataModule' in dir(loader))\n"
    code += "from loader import MegatronDataModule"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.stdout == "EnergonMultiModalDataModule False\n"
    assert done.stderr.splitlines()[-1].startswith("ImportError: MegatronDataModule needs Lightning")


def test_pytorch_lightning_is_used_if_alone(no_lightning: None, monkeypatch: pytest.MonkeyPatch) -> None:
    its = fake(monkeypatch, "pytorch_lightning")
    assert importlib.import_module(MODULE).MegatronDataModule.__bases__ == (its,)


def test_lightning_wins_if_both_are_imported(no_lightning: None, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(monkeypatch, "lightning")
    its = fake(monkeypatch, "lightning.pytorch")
    fake(monkeypatch, "pytorch_lightning")
    assert importlib.import_module(MODULE).MegatronDataModule.__bases__ == (its,)


def install_lightning(monkeypatch: pytest.MonkeyPatch, folder: Path, code: str) -> None:
    monkeypatch.delitem(sys.modules, "lightning")
    (folder / "lightning/pytorch").mkdir(parents=True)
    (folder / "lightning/__init__.py").touch()
    (folder / "lightning/pytorch/__init__.py").write_text(code)
    monkeypatch.syspath_prepend(folder)


def test_where_pytorch_lightning_is_in_use_lightning_is_not_imported(
    no_lightning: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    install_lightning(monkeypatch, tmp_path, "raise RuntimeError('imported for nothing')")
    its = fake(monkeypatch, "pytorch_lightning")
    assert importlib.import_module(MODULE).MegatronDataModule.__bases__ == (its,)


def test_a_broken_lightning_raises_its_own_error(
    no_lightning: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    install_lightning(monkeypatch, tmp_path, "import what_it_lacks")
    with pytest.raises(ModuleNotFoundError, match="what_it_lacks"):
        importlib.import_module(MODULE)


@pytest.mark.parametrize("state", [{}, {"consumed_samples": "9"}, {"consumed_samples": -1}, {"consumed_samples": None}])
@pytest.mark.sampled(2)
def test_a_state_without_a_number_of_samples_is_an_error(state: dict[str, Any]) -> None:
    module = loader.MegatronDataModule()
    module.data_sampler = MegatronDataSampler(global_batch_size=8)
    with pytest.raises(loader.StateError, match="expected a number of samples as consumed_samples"):
        module.load_state_dict(state)
    assert module.data_sampler.init_consumed_samples == 0
