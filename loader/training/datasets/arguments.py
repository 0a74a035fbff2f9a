"""The arguments that ``get_train_dataset`` and ``get_val_dataset`` take beside their own."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..format.nearest_name import did_you_mean
from ..metadataset.plan_leaves import plan_leaves
from ..pipeline.error_handlers import three_argument_handler
from ..pipeline.worker_config import WorkerConfig
from ..samples.decoder import SampleDecoder
from .open_leaf import LoadedLeaf, open_leaf

__all__ = ["DatasetArguments"]

_DECODER_ARGUMENTS = ("image_decode", "av_decode", "video_decode_audio", "guess_content")
_DEPRECATED = (*_DECODER_ARGUMENTS, "auto_decode", "handler")
_UNUSED = ("parallel_shard_iters",)
"""Arguments of megatron-energon that our order has no use for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetArguments:
    """How the data is read.

    Args:
        split_config: Which split file of ``.nv-meta`` to use.
        dataset_config: Which dataset file of ``.nv-meta`` to use.
        subflavors: Labels of all samples.
        trust_code: Code and pickles of the dataset may run.
        decoder: Arguments of the decoder that were given in the deprecated way; None where none were.
        handler: The deprecated error handler.
    """

    split_config: str | None = None
    dataset_config: str | None = None
    subflavors: Mapping[str, Any] = field(default_factory=dict)
    trust_code: bool = False
    decodes: bool | None = None
    decoder: Mapping[str, Any] = field(default_factory=dict)
    handler: Callable[..., Any] | None = None

    @classmethod
    def parse(cls, caller: str, given: Mapping[str, Any], own: Iterable[str] = ()) -> DatasetArguments:
        """Check the names of keyword arguments.

        Args:
            caller: The function that took them, for messages.
            given: All that its signature does not name.
            own: What its signature names, one of which may have been meant.

        Raises:
            TypeError: There is no such argument; the message names the nearest one.
        """
        known = ("split_config", "dataset_config", "subflavors", "trust_code", *_DEPRECATED, *_UNUSED)
        for name in given:
            if name not in known:
                raise TypeError(f"{caller}() has no argument {name!r}{did_you_mean(name, (*_arguments(own), *known))}")
            if name in _DEPRECATED:
                better = "WorkerConfig(global_error_handler=…)" if name == "handler" else "the task encoder's decoder"
                warnings.warn(f"{name}= is deprecated; use {better}", DeprecationWarning, stacklevel=4)
        return cls(
            split_config=given.get("split_config") or None,
            dataset_config=given.get("dataset_config") or None,
            subflavors=dict(given.get("subflavors") or {}),
            trust_code=bool(given.get("trust_code", False)),
            decodes=given.get("auto_decode"),
            decoder={name: given[name] for name in _DECODER_ARGUMENTS if given.get(name) is not None},
            handler=given.get("handler"),
        )

    def load(
        self,
        path: str | os.PathLike[str],
        split_part: str,
        task_encoder: Any,
        *,
        training: bool,
        epochs_together: int | None = 1,
    ) -> list[LoadedLeaf]:
        """Open a dataset, or all that a metadataset names.

        Args:
            path: The folder of a prepared dataset, a JSONL file or a metadataset.
            split_part: Which part of its split.
            task_encoder: Whose decoder to use.
            training: Weights and repetitions count.
            epochs_together: The caller's ``shuffle_over_epochs_multiplier``.

        Raises:
            StorageError: The path is missing, or a folder not prepared.
            ConfigError: A file of a dataset or a metadataset says something wrong.
            TrustError: A dataset asks to run code, and the caller does not allow it.
            TypeError: The task encoder is a class.
        """
        if isinstance(task_encoder, type):
            name = task_encoder.__name__
            raise TypeError(f"expected task_encoder to be an object, found the class {name}; pass {name}(…)")
        plans = plan_leaves(
            path,
            split_part=split_part,
            training=training,
            subflavors=self.subflavors,
            split_config=self.split_config,
            dataset_config=self.dataset_config,
            epochs_together=epochs_together,
        )
        decoder = self._decoder_of(task_encoder)
        return [
            LoadedLeaf(plan=plan, leaf=open_leaf(plan, decoder=decoder, trust_code=self.trust_code)) for plan in plans
        ]

    def _decoder_of(self, task_encoder: Any) -> SampleDecoder | None:
        """Give the decoder to use: the task encoder's, unless the caller asks for another in the deprecated way."""
        if self.decodes is False:
            return None
        if self.decoder:
            return SampleDecoder(**self.decoder)
        decoder: SampleDecoder | None = task_encoder.decoder
        return decoder

    def with_handler(self, config: WorkerConfig) -> WorkerConfig:
        """Give the worker config with the deprecated handler in it, where there is one."""
        if self.handler is None:
            return config
        return replace(config, global_error_handler=three_argument_handler(self.handler))


def _arguments(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(name for name in names if name not in {"self", "path", "kwargs"})
