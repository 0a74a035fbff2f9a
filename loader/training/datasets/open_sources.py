"""Parse what ``get_train_dataset`` and its siblings load, and open it: one source, or those of a metadataset."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from ...errors import ConfigError, EnergonError
from ...format.documents.load_request import LoadRequest, is_jsonl, is_metadataset
from ...format.documents.messages import did_you_mean
from ...metadataset.documents.leaf_plan import JoinPlan, LeafPlan
from ...metadataset.joins.open_join import open_join
from ...metadataset.plans.plan_leaves import plan_request
from ...pipeline.contract.failures import three_argument_handler
from ...pipeline.contract.worker_config import WorkerConfig
from ...pipeline.reading.dataset_source import DatasetSource
from ...pipeline.reading.joined_source import JoinedSource
from ...pipeline.reading.jsonl_source import JsonlSource
from ...pipeline.reading.source import Source
from ...samples.building.dataset_code import load_joiner
from ...samples.decoding.decoder import SampleDecoder

__all__ = ["DatasetArguments", "LoadedSource", "given_subflavors", "open_sources"]

_DECODER_ARGUMENTS = ("image_decode", "av_decode", "video_decode_audio", "guess_content")
_CHOICES = ("split_config", "dataset_config", "subflavors", "tags", "filter_name", "trust_code")
_DEPRECATED = (*_DECODER_ARGUMENTS, "auto_decode", "handler")
_UNUSED = ("parallel_shard_iters",)
"""Arguments of megatron-energon that have no effect on the order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetArguments:
    """The checked arguments that choose and decode the data.

    Attributes:
        request: The dataset, JSONL file or metadataset, and the choices made about it.
        decodes: The deprecated ``auto_decode``; False leaves the parts bytes.
        decoder: Deprecated arguments of the decoder; empty if there are none.
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
        """Check the names of keyword arguments, and build the request.

        Args:
            caller: Name of the function that received them, for messages.
            path: Path of the dataset, JSONL file or metadataset.
            given: The keyword arguments that the function's signature does not name.
            own: The arguments in its signature, to suggest one for a misspelled name.
            **choices: Other fields of the request.

        Raises:
            TypeError: There is no such argument; the message suggests the nearest one.
        """
        known = (*_CHOICES, *_DEPRECATED, *_UNUSED)
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
            subflavors=given_subflavors(given.get("subflavors"), given.get("tags"), caller=caller),
            filter=given.get("filter_name") or None,
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
        """Open the sources; other errors are those of :func:`open_sources`.

        Args:
            task_encoder: The task encoder of the run, whose decoder is used.
            training: Use weights and repetitions.

        Raises:
            TypeError: The task encoder is a class.
        """
        if isinstance(task_encoder, type):
            name = task_encoder.__name__
            raise TypeError(f"expected task_encoder to be an object, found the class {name}; pass {name}(…)")
        return open_sources(self.request, decoder=self._decoder_of(task_encoder), training=training)

    def _decoder_of(self, task_encoder: Any) -> SampleDecoder | None:
        """Return the decoder: that of the task encoder, unless a deprecated argument replaces it."""
        if self.decodes is False:
            return None
        if self.decoder:
            return SampleDecoder(**self.decoder)
        decoder: SampleDecoder | None = task_encoder.decoder
        return decoder

    def with_handler(self, config: WorkerConfig) -> WorkerConfig:
        """Return the worker config, with the deprecated handler if there is one."""
        if self.handler is None:
            return config
        return replace(config, global_error_handler=three_argument_handler(self.handler))


def given_subflavors(
    subflavors: Mapping[str, Any] | None, tags: Mapping[str, Any] | None, *, caller: str
) -> dict[str, Any]:
    """Return the labels that a caller gives under one of two names.

    Raises:
        TypeError: They are given under both.
    """
    if subflavors and tags:
        raise TypeError(f"{caller}() takes subflavors= or tags=, its other name, not both")
    return dict(subflavors or tags or {})


def _arguments(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(name for name in names if name not in {"self", "path", "kwargs"})


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedSource:
    """An opened source, and its settings in the metadataset."""

    plan: LeafPlan
    source: Source


def open_sources(request: LoadRequest, *, decoder: SampleDecoder | None, training: bool) -> list[LoadedSource]:
    """Open a dataset, or all datasets of a metadataset.

    Args:
        request: The dataset, JSONL file or metadataset.
        decoder: Decoder of the parts; None leaves them bytes.
        training: Use weights and repetitions.

    Raises:
        StorageError: A path is missing, or a dataset is not prepared.
        ConfigError: A file of a dataset or a metadataset is wrong, there is no such split part, no sample is left, or a
            join is not prepared.
        TrustError: A dataset needs to run code, and the caller does not allow it.
    """
    plans = plan_request(request, training=training) if is_metadataset(request.path) else (LeafPlan(request=request),)
    return [LoadedSource(plan=plan, source=_open_plan(plan, decoder)) for plan in plans]


def _open_plan(plan: LeafPlan, decoder: SampleDecoder | None) -> Source:
    request = plan.request
    try:
        source = _open_join(plan, plan.join, decoder) if plan.join is not None else _open_dataset(request, decoder)
        # Raise for a wrong split part here, not when the first batch is requested.
        _ = source.samples
        if request.dataset_config is not None or plan.join is not None:
            # Likewise for a missing dataset file. The default one is not read: there may be hundreds of datasets.
            _ = source.is_crude
    except EnergonError as error:
        if plan.place and plan.join is None:
            error.at = f"{error.at or request.path}, named by {plan.place}"
        raise
    return source


def _open_dataset(request: LoadRequest, decoder: SampleDecoder | None) -> Source:
    kind = JsonlSource if is_jsonl(request.path) else DatasetSource
    return kind(request=request, decoder=decoder)


def _open_join(plan: LeafPlan, join: JoinPlan, decoder: SampleDecoder | None) -> JoinedSource:
    at = f"{join.file}: {join.place}"
    if join.joiner is None:
        raise ConfigError(
            "this join has no joiner, the class that builds one sample from the members' samples",
            at=at,
            hint="add joiner: {__module__: my_module, __class__: MyJoinedSample}, a class with a method from_joined",
        )
    names = [member.name for member in join.members]
    return JoinedSource(
        request=plan.request,
        place=join.place,
        members=tuple(DatasetSource(request=member.request, decoder=decoder) for member in join.members),
        names=None if None in names else tuple(map(str, names)),
        open_rows=partial(open_join, join),
        joiner=load_joiner(join.joiner, at=at, trust_code=plan.request.trust_code),
    )
