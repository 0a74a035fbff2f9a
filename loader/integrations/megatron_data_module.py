"""``MegatronDataModule`` (seed page 003): a Lightning data module whose state is the number of consumed samples.

Importing this module needs Lightning (``pip install 'energon-toolkit[lightning]'``), from which the class derives.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from numbers import Integral
from typing import Any

from ..errors import StateError
from ..format.documents.messages import short_repr
from .num_microbatches_calculator import tell_consumed_samples

_MAX_SAMPLES = 1 << 53  # every JSON reader keeps smaller integers exactly
_LIGHTNING = ("lightning.pytorch", "pytorch_lightning")


def _lightning_data_module() -> Any:
    """Return the ``LightningDataModule`` of the Lightning package in use.

    A trainer accepts only data modules of its own package. If both packages are installed, the imported one is chosen.
    """
    for name in sorted(_LIGHTNING, key=lambda name: name not in sys.modules):
        try:
            return import_module(name).LightningDataModule
        except ModuleNotFoundError as error:
            if error.name not in (name, name.partition(".")[0]):
                raise  # the package is installed, but one of its own requirements is missing
    raise ImportError(
        "MegatronDataModule needs Lightning, and neither lightning nor pytorch_lightning is installed: "
        "pip install 'energon-toolkit[lightning]'",
        name="lightning",
    )


_LightningDataModule: Any = _lightning_data_module()


class MegatronDataModule(_LightningDataModule):  # type: ignore[misc]  # the base class is chosen at run time
    """Data module that saves the number of consumed samples in checkpoints, and continues behind them.

    Derive from it, and set ``self.data_sampler`` to the object that counts samples: a
    :class:`~loader.integrations.num_microbatches_calculator.MegatronDataSampler`, or NeMo's. Call
    :meth:`update_init_global_step` wherever a training data loader is built.

    Args:
        args: Arguments of ``LightningDataModule``.
        kwargs: Keyword arguments of ``LightningDataModule``.

    Attributes:
        init_global_step: The step at which the current data loader began.
        data_sampler: An object with the method ``compute_consumed_samples(steps)`` and the attributes
            ``init_global_step``, ``init_consumed_samples``, ``prev_consumed_samples`` and ``if_first_step``, which are
            set here.

    >>> from loader.integrations.num_microbatches_calculator import MegatronDataSampler
    >>> class Photos(MegatronDataModule):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.data_sampler = MegatronDataSampler(global_batch_size=8)
    ...     def train_dataloader(self):
    ...         self.update_init_global_step()
    ...         return get_loader(get_train_dataset("photos", batch_size=8))
    >>> Photos().data_sampler.compute_consumed_samples(10)
    80
    """

    data_sampler: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.init_global_step = 0

    def update_init_global_step(self) -> None:
        """Count from the trainer's current step on. Without this call, a checkpoint counts earlier steps twice."""
        self.init_global_step = self.trainer.global_step
        self.data_sampler.init_global_step = self.init_global_step

    def state_dict(self) -> dict[str, Any]:
        """Return the state for a checkpoint: ``{"consumed_samples": …}``."""
        steps = self.trainer.global_step - self.init_global_step
        return {"consumed_samples": self.data_sampler.compute_consumed_samples(steps)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue behind the samples of a checkpoint, and update the calculator of micro-batches in use.

        Args:
            state_dict: A state from :meth:`state_dict`.

        Raises:
            StateError: It has no number of consumed samples, or one beyond any run.
        """
        state: Any = state_dict  # a damaged checkpoint has any
        saved = state.get("consumed_samples") if isinstance(state, Mapping) else None
        if isinstance(saved, bool) or not isinstance(saved, Integral) or not 0 <= int(saved) < _MAX_SAMPLES:
            raise StateError(
                f"expected a number of samples as consumed_samples, found {short_repr(saved)}",
                hint="the checkpoint is damaged, or of another data module: start with an older one",
            )
        consumed_samples = int(saved)
        self.data_sampler.init_consumed_samples = consumed_samples
        self.data_sampler.prev_consumed_samples = consumed_samples
        tell_consumed_samples(consumed_samples)
        self.data_sampler.if_first_step = 1
