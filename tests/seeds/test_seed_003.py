"""The class on seed page 003 and ours behave the same, with a real trainer and fake calculators of micro-batches.

The class is copied from the page, without its line numbers.
"""

from __future__ import annotations

import inspect
import logging
import sys
from functools import cache
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

from loader.integrations.num_microbatches_calculator import MegatronDataSampler

PAGE = '''\
class MegatronDataModule(pl.LightningDataModule):
    """A mixin that adds a `state_dict` and `load_state_dict` method for datamodule training resumption in NeMo."""

    def __init__(self, *args, **kwargs):
        """Set init_global_step to 0 for datamodule resumption."""
        super().__init__(*args, **kwargs)
        self.init_global_step = 0

    def update_init_global_step(self):
        """Please always call this when you get a new dataloader... if you forget, your resumption will not work."""
        self.init_global_step = self.trainer.global_step  # Update the init_global_step whenever we re-init training
        self.data_sampler.init_global_step = (
            self.init_global_step
        )  # Update the init_global_step whenever we re-init training

    def state_dict(self) -> Dict[str, Any]:
        """Called when saving a checkpoint, implement to generate and save datamodule state.

        Returns:
            A dictionary containing datamodule state.

        """
        consumed_samples = self.data_sampler.compute_consumed_samples(self.trainer.global_step - self.init_global_step)
        return {"consumed_samples": consumed_samples}

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        """Called when loading a checkpoint, implement to reload datamodule state given datamodule stat.

        Args:
            state_dict: the datamodule state returned by ``state_dict``.

        """
        try:
            from megatron.core.num_microbatches_calculator import update_num_microbatches

        except (ImportError, ModuleNotFoundError):
            logging.warning("Megatron num_microbatches_calculator not found, using Apex version.")
            from apex.transformer.pipeline_parallel.utils import update_num_microbatches

        consumed_samples = state_dict["consumed_samples"]
        self.data_sampler.init_consumed_samples = consumed_samples
        self.data_sampler.prev_consumed_samples = consumed_samples

        update_num_microbatches(
            consumed_samples=consumed_samples,
            consistency_check=False,
        )
        self.data_sampler.if_first_step = 1
'''

MEGATRON = "megatron.core.num_microbatches_calculator"
APEX = "apex.transformer.pipeline_parallel.utils"


@cache
def class_on_page() -> Any:
    import lightning.pytorch as pl  # takes seconds: not for those who only collect tests

    variables = {"pl": pl, "logging": logging, "Dict": dict, "Any": Any}
    exec(compile(PAGE, "seed 003", "exec"), variables)
    return variables["MegatronDataModule"]


def our_class() -> Any:
    from loader import MegatronDataModule

    return MegatronDataModule


@pytest.fixture(params=["page", "ours"])
def base(request: pytest.FixtureRequest) -> Any:
    return class_on_page() if request.param == "page" else our_class()


def install(monkeypatch: pytest.MonkeyPatch, name: str) -> list[dict[str, Any]]:
    """Install a fake calculator of micro-batches, and return the list of its updates."""
    updates: list[dict[str, Any]] = []
    parts = name.split(".")
    module: Any = None
    for end in range(1, len(parts) + 1):
        module = ModuleType(".".join(parts[:end]))
        module.__path__ = []
        monkeypatch.setitem(sys.modules, module.__name__, module)
    module.update_num_microbatches = lambda **arguments: updates.append(arguments)
    return updates


class CountingSampler:
    """Data sampler with only the required method."""

    def compute_consumed_samples(self, steps_since_resume: int) -> int:
        return 100 + 8 * steps_since_resume


def test_the_methods_take_what_the_page_says() -> None:
    import lightning.pytorch as pl

    both = (our_class(), class_on_page())
    for name in ("__init__", "update_init_global_step", "state_dict", "load_state_dict"):
        ours, on_page = (inspect.signature(getattr(one, name)).parameters for one in both)
        assert [(one.name, one.kind) for one in ours.values()] == [(one.name, one.kind) for one in on_page.values()]
    assert issubclass(our_class(), pl.LightningDataModule)


@pytest.mark.parametrize("calculator", [MEGATRON, APEX])
def test_each_method_behaves_as_on_the_page(base: Any, calculator: str, monkeypatch: pytest.MonkeyPatch) -> None:
    updates = install(monkeypatch, calculator)
    module = base()
    assert module.init_global_step == 0
    module.data_sampler = CountingSampler()
    module.trainer = SimpleNamespace(global_step=5)
    assert module.state_dict() == {"consumed_samples": 140}
    module.update_init_global_step()
    assert (module.init_global_step, module.data_sampler.init_global_step) == (5, 5)
    module.trainer.global_step = 7
    assert module.state_dict() == {"consumed_samples": 116}
    module.load_state_dict({"consumed_samples": 116})
    assert vars(module.data_sampler) == {
        "init_global_step": 5,
        "init_consumed_samples": 116,
        "prev_consumed_samples": 116,
        "if_first_step": 1,
    }
    assert updates == [{"consumed_samples": 116, "consistency_check": False}]


def test_ours_works_where_neither_megatron_nor_apex_is_installed() -> None:
    module = our_class()()
    module.data_sampler = CountingSampler()
    module.load_state_dict({"consumed_samples": 24})
    assert module.data_sampler.init_consumed_samples == 24


def recorder_into(checkpoints: Path) -> Any:
    import lightning.pytorch as pl

    class Recorder(pl.LightningModule):
        """Model of one weight that records its training samples, and saves a checkpoint after each step."""

        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(1))
            self.seen: list[int] = []

        def training_step(self, batch: Any, _: int) -> Any:
            self.seen += batch.tolist()
            return (self.weight * batch.float().mean()) ** 2

        def on_train_batch_end(self, outputs: Any, batch: Any, number: int) -> None:
            if number % 2:  # the second of a step
                self.trainer.save_checkpoint(checkpoints / f"{self.trainer.global_step}.ckpt")

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=1e-4)

    return Recorder()


def module_of(base: Any, samples: int) -> Any:
    class Numbers(base):  # type: ignore[misc] # known at run time
        """The numbers from 0 on, in micro-batches of 4, two of which make a step."""

        def __init__(self) -> None:
            super().__init__()
            self.data_sampler = MegatronDataSampler(global_batch_size=8, micro_batch_size=4)

        def train_dataloader(self) -> DataLoader[int]:
            self.update_init_global_step()
            numbers: Any = range(samples)
            return DataLoader(numbers, batch_sampler=self.data_sampler.batches(samples))

    return Numbers()


@pytest.mark.filterwarnings(
    "ignore:.*LeafSpec.* is deprecated:FutureWarning",  # Lightning of the present torch
    "ignore:.*does not have many workers",
    "ignore:.*ended before the epoch ended",
)
def test_a_resumed_run_gets_each_sample_once(base: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import lightning.pytorch as pl

    install(monkeypatch, MEGATRON)

    def train(steps: int, folder: Path, checkpoint: Path | None = None) -> tuple[list[int], Any]:
        trainer = pl.Trainer(
            accelerator="cpu",
            max_epochs=1,
            max_steps=steps,
            accumulate_grad_batches=2,
            enable_checkpointing=False,
            logger=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        model = recorder_into(folder)
        trainer.fit(model, datamodule=module_of(base, 80), ckpt_path=checkpoint)
        return model.seen, trainer

    first, _ = train(5, tmp_path / "first")
    assert first == list(range(40))
    rest, trainer = train(-1, tmp_path / "second", tmp_path / "first/4.ckpt")
    assert rest == list(range(32, 80))
    assert trainer.global_step == 10
