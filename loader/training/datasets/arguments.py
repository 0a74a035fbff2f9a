"""The arguments that ``get_train_dataset`` and ``get_val_dataset`` take beside their own."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ...format.documents.load_request import LoadRequest
from ...format.documents.messages import did_you_mean
from ...pipeline.contract.failures import three_argument_handler
from ...pipeline.contract.worker_config import WorkerConfig
from ...samples.decoding.decoder import SampleDecoder
from .open_source import LoadedSource, open_sources

__all__ = ["DatasetArguments"]

_DECODER_ARGUMENTS = ("image_decode", "av_decode", "video_decode_audio", "guess_content")
_DEPRECATED = (*_DECODER_ARGUMENTS, "auto_decode", "handler")
_UNUSED = ("parallel_shard_iters",)
"""Arguments of megatron-energon that our order has no use for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetArguments:
    """How the data is read.

    Attributes:
        request: What to load.
        decodes: The deprecated ``auto_decode``; False leaves the parts bytes.
        decoder: Arguments of the decoder that were given in the deprecated way; None where none were.
        handler: The deprecated error handler.
    """

    request: LoadRequest
    decodes: bool | None = None
    decoder: Mapping[str, Any] = field(default_factory=dict)
    handler: Callable[..., Any] | None = None

    @classmethod
    def parse(
        cls,
        caller: str,
        path: str | os.PathLike[str],
        given: Mapping[str, Any],
        own: Iterable[str] = (),
        **choices: Any,
    ) -> DatasetArguments:
        """Check the names of keyword arguments.

        Args:
            caller: Name of the function that took them, for messages.
            path: Path of the dataset, JSONL file or metadataset.
            given: The keyword arguments that the function's signature does not name.
            own: Names of those that it does, one of which may have been meant.
            **choices: Other fields of the request.

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
        request = LoadRequest.at(
            path,
            split_config=given.get("split_config") or None,
            dataset_config=given.get("dataset_config") or None,
            subflavors=dict(given.get("subflavors") or {}),
            trust_code=bool(given.get("trust_code", False)),
            **choices,
        )
        return cls(
            request=request,
            decodes=given.get("auto_decode"),
            decoder={name: given[name] for name in _DECODER_ARGUMENTS if given.get(name) is not None},
            handler=given.get("handler"),
        )

    def open(self, task_encoder: Any, *, training: bool) -> list[LoadedSource]:
        """Open the datasets; errors are those of :func:`.open_sources`.

        Args:
            task_encoder: The run's, whose decoder is used.
            training: Weights and repetitions count.

        Raises:
            TypeError: The task encoder is a class.
        """
        if isinstance(task_encoder, type):
            name = task_encoder.__name__
            raise TypeError(f"expected task_encoder to be an object, found the class {name}; pass {name}(…)")
        return open_sources(self.request, decoder=self._decoder_of(task_encoder), training=training)

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
