"""``MegatronDataModule`` of seed page 003: a Lightning data module whose state is the number of consumed samples.

Needs Lightning (``pip install 'energon-toolkit[lightning]'``) to be imported: the class derives from Lightning's.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from .num_microbatches_calculator import tell_consumed_samples

__all__ = ["MegatronDataModule"]

_LIGHTNING = ("lightning.pytorch", "pytorch_lightning")


def _lightning_data_module() -> Any:
    """Give the class that this one derives from.

    A trainer takes only data modules of its own package; where both are installed, that is the one in use already.
    """
    for name in sorted(_LIGHTNING, key=lambda name: name not in sys.modules):
        try:
            return import_module(name).LightningDataModule
        except ModuleNotFoundError as error:
            if error.name not in (name, name.partition(".")[0]):
                raise  # it is there, and lacks something itself
    raise ImportError(
        "MegatronDataModule needs Lightning, and neither lightning nor pytorch_lightning is installed: "
        "pip install 'energon-toolkit[lightning]'",
        name="lightning",
    )


_LightningDataModule: Any = _lightning_data_module()


class MegatronDataModule(_LightningDataModule):  # type: ignore[misc]  # which class that is, only running tells
    """Save in a checkpoint how many samples a run has consumed, and go on behind them.

    Derive from it, and set ``self.data_sampler`` to what counts them: a
    :class:`~loader.integrations.megatron_data_sampler.MegatronDataSampler`, or NeMo's. Call
    :meth:`update_init_global_step` wherever a data loader for training is made.

    Args:
        args: For ``LightningDataModule``.
        kwargs: Likewise.

    Attributes:
        init_global_step: The step with which the present data loader began.
        data_sampler: Has ``compute_consumed_samples(steps)``, and takes ``init_global_step``,
            ``init_consumed_samples``, ``prev_consumed_samples`` and ``if_first_step``.
    """

    data_sampler: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.init_global_step = 0

    def update_init_global_step(self) -> None:
        """Count from the trainer's present step on. Without this call, what is saved counts steps of before twice."""
        self.init_global_step = self.trainer.global_step
        self.data_sampler.init_global_step = self.init_global_step

    def state_dict(self) -> dict[str, Any]:
        """Give what goes into a checkpoint: ``{"consumed_samples": …}``."""
        steps = self.trainer.global_step - self.init_global_step
        return {"consumed_samples": self.data_sampler.compute_consumed_samples(steps)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on behind the samples of a checkpoint, and tell what counts micro-batches: Megatron's, Apex's or ours.

        Args:
            state_dict: What :meth:`state_dict` gave.
        """
        consumed_samples = state_dict["consumed_samples"]
        self.data_sampler.init_consumed_samples = consumed_samples
        self.data_sampler.prev_consumed_samples = consumed_samples
        tell_consumed_samples(consumed_samples)
        self.data_sampler.if_first_step = 1
