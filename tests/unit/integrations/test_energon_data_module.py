from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from loader import ConfigError, EnergonMultiModalDataModule


def module_of(**arguments: Any) -> EnergonMultiModalDataModule:
    return EnergonMultiModalDataModule("/nowhere", None, **arguments)


def parallel_state(*, initialized: bool) -> Any:
    module: Any = ModuleType("megatron.core.parallel_state")
    module.is_initialized = lambda: initialized
    module.get_data_parallel_group = lambda: SimpleNamespace(rank=lambda: 1, size=lambda: 3)
    return module


@pytest.mark.parametrize(("initialized", "expected"), [(True, (1, 3)), (False, (0, 1))])
def test_megatrons_groups_are_used_if_initialised(
    initialized: bool, expected: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "megatron.core.parallel_state", parallel_state(initialized=initialized))
    config = module_of()._build_worker_config(2)
    assert (config.rank, config.world_size) == expected


def test_given_groups_override_megatrons(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "megatron.core.parallel_state", parallel_state(initialized=True))
    groups = SimpleNamespace(dp=SimpleNamespace(rank=lambda: 0, size=lambda: 2))
    assert module_of(pg_collection=groups)._build_worker_config(2).world_size == 2


def test_groups_without_one_for_data_parallelism_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"expected a process group in pg_collection\.dp, found none"):
        module_of(pg_collection=SimpleNamespace(tp=1))._build_worker_config(0)


def test_an_unknown_part_of_the_split_is_refused() -> None:
    with pytest.raises(ConfigError, match="expected split to be 'train' or 'val', found 'test'"):
        module_of().datasets_provider(None, split="test")  # type: ignore[arg-type]


@pytest.mark.parametrize("pin_memory", [True, False])
def test_pin_memory_is_passed_to_the_loader(pin_memory: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}
    monkeypatch.setattr(
        "loader.integrations.energon_data_module.get_savable_loader", lambda dataset, **options: asked.update(options)
    )
    monkeypatch.setattr("loader.integrations.energon_data_module.get_train_dataset", lambda *args, **kwargs: None)
    with_module = module_of(pin_memory=pin_memory)
    with_module.train_dataloader()
    assert asked == {"pin_memory": pin_memory}


def test_an_assigned_loader_is_used() -> None:
    module: Any = module_of()
    module.train_dataloader_object = ["a loader"]
    assert next(module.train_dataloader()) == "a loader"
    module.train_dataloader_object = ["another"]
    assert next(module.train_dataloader()) == "another"
