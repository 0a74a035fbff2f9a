"""Parse what ``get_train_dataset`` and its siblings load, and open it: one source, or the sources of a metadataset."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial
from inspect import currentframe, signature
from typing import Any

from ...errors import ConfigError, EnergonError, StorageError
from ...format.columns.column_record import read_record
from ...format.dataset_ref import DOCUMENT_CHOICES, DatasetRef
from ...format.documents.messages import did_you_mean
from ...format.documents.providers import LoadRequest, checked_key_format
from ...metadataset.documents.leaf_plan import JoinPlan, LeafPlan
from ...metadataset.joins.files import open_join
from ...metadataset.leaf_samples import named_by
from ...metadataset.plans.blend_tree import SAMPLES
from ...metadataset.plans.plan_leaves import plan_request
from ...own_names import is_own
from ...pipeline.contract.iterated import warn_once
from ...pipeline.contract.rank_group import broadcast, check_group
from ...pipeline.contract.worker_config import WorkerConfig
from ...pipeline.reading.dataset_source import DatasetSource
from ...pipeline.reading.joined_source import JoinedSource
from ...pipeline.reading.source import Source
from ...samples.building.dataset_code import load_joiner
from ...samples.building.described_dataset import RESERVED_ARGUMENTS
from ...samples.decoding.decoder import SampleDecoder
from ...samples.encoding.task_encoder import TaskEncoder
from ...samples.hooks import is_library_hook
from ...storage.remote import use_storage_options
from ...storage.shared_answers import Answers, use_answers
from .dataset_factory import subset_ranges

_DECODER_ARGUMENTS = ("image_decode", "av_decode", "video_decode_audio", "guess_content")
_DEPRECATED = (*_DECODER_ARGUMENTS, "auto_decode", "handler")
_DESCRIBING = ("field_map", "sample_loader", "part_filter")
"""Arguments for what ``dataset.yaml`` leaves open."""

_UNUSED = ("parallel_shard_iters",)
"""Arguments of megatron-energon that have no effect on the order."""

_NEARLY = 0.85
"""Similarity of a method's name to a hook's that makes it a misspelt hook: two letters of thirteen may differ."""

_KNOWN = (
    *DOCUMENT_CHOICES,
    "subflavors",
    "tags",
    "filter_name",
    "trust_code",
    "key_format",
    "sample_type",
    "subset",
    "storage_options",
    *_DESCRIBING,
    *_DEPRECATED,
    *_UNUSED,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """An opened dataset of a run, and its settings.

    Attributes:
        slice_length: The caller's ``max_samples_per_sequence``; None reads whole shards.
    """

    plan: LeafPlan
    source: Source
    slice_length: int | None = None

    @property
    def slice_samples(self) -> int:
        """Number of neighbouring samples that are read one after another."""
        return self.slice_length or int(self.source.members[0].selection.largest_shard)

    @property
    def repetitions(self) -> float:
        return 1.0 if self.plan.repetitions is None else self.plan.repetitions

    def epochs_shuffled(self, shuffle_buffer: int | None) -> int | None:
        """Return the epochs whose slices are permuted together; None in the order of a file that nothing shuffles."""
        together = self.plan.request.epochs_together
        is_one_slice = self.slice_length is None and len(self.source.members[0].selection.ranges[0]) == 1
        return None if is_one_slice and not shuffle_buffer and together == 1 else together


def open_leaves(
    caller: Callable[..., Any],
    path: str | os.PathLike[str],
    given: Mapping[str, Any],
    *,
    task_encoder: Any,
    training: bool,
    config: WorkerConfig | None = None,
    slice_length: int | None = None,
    **choices: Any,
) -> list[Leaf]:
    """Check the keyword arguments of a function that loads data, and open what they name.

    Unknown names are arguments of the dataset class that ``dataset.yaml`` names; without such a class they are errors.

    Args:
        caller: The function that received the arguments, for messages.
        given: The keyword arguments that the function's signature does not name.
        config: The ranks of the run, which may share what they read; None for a single process.
    """
    name = caller.__name__
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"expected a path for {name}(), found {path!r}")
    use_storage_options(path, given.get("storage_options"))
    unknown = _unknown_arguments(caller, given)
    request = _request_of(path, given, unknown=unknown, caller=name, **choices)
    _check_encoder(task_encoder)
    # Deprecated arguments replace the task encoder's decoder.
    decoder = None
    if given.get("auto_decode") is not False:
        decoding = {name: given[name] for name in _DECODER_ARGUMENTS if given.get(name) is not None}
        decoder = SampleDecoder(**decoding) if decoding else task_encoder.decoder
    opened = partial(open_sources, request, decoder=decoder, training=training)
    try:
        if config is None or not config.share_metadata:
            leaves = opened()
        else:
            with shared_metadata(config):
                leaves = opened()
                for leaf in leaves:
                    units = dict.fromkeys(step.unit for step in leaf.plan.blends)
                    read_lazy_documents(leaf.source, units=[unit for unit in units if unit != SAMPLES])
    except EnergonError as error:  # it names what to change; the functions between this one and its cause do not help
        raise error.with_traceback(None) from error.__cause__
    if unknown and not all(leaf.source.recipe.accepts_options for leaf in leaves):
        raise TypeError(next(iter(unknown.values())))
    return [replace(leaf, slice_length=slice_length) for leaf in leaves]


def _unknown_arguments(caller: Callable[..., Any], given: Mapping[str, Any]) -> dict[str, str]:
    unknown: dict[str, str] = {}
    for name in given:
        if name not in _KNOWN:
            others = [other for other in signature(caller).parameters if other not in {"self", "path", "kwargs"}]
            advice = did_you_mean(name, (*others, *_KNOWN))
            unknown[name] = f"{caller.__name__}() has no argument {name!r}{advice}"
            if name in RESERVED_ARGUMENTS:
                raise TypeError(unknown[name])
        if name in _DEPRECATED:
            better = "WorkerConfig(global_error_handler=…)" if name == "handler" else "the task encoder's decoder"
            warnings.warn(f"{name}= is deprecated; use {better}", DeprecationWarning, stacklevel=_level_of_program())
    return unknown


def _request_of(
    path: str | os.PathLike[str], given: Mapping[str, Any], *, unknown: Container[str], caller: str, **choices: Any
) -> LoadRequest:
    key_format, subset = given.get("key_format"), given.get("subset")
    ref = DatasetRef.at(
        path,
        given.get("meta_folder"),
        split_config=given.get("split_config") or None,
        dataset_config=given.get("dataset_config") or None,
        trust_code=bool(given.get("trust_code", False)),
    )
    return LoadRequest(
        ref=ref,
        subflavors=given_subflavors(given.get("subflavors"), given.get("tags"), caller=caller),
        filter=given.get("filter_name") or None,
        sample_type=given.get("sample_type"),
        options={
            name: value
            for name, value in given.items()
            if name in unknown or (name in _DESCRIBING and value is not None)
        },
        key_format=None if key_format is None else checked_key_format(key_format, source="key_format"),
        subset=subset_ranges(subset) if subset else (),
        **choices,
    )


def _level_of_program() -> int:
    """Return the ``stacklevel`` of warnings that names the first caller outside of the library."""
    level, frame = 0, currentframe()
    while frame is not None and is_own(str(frame.f_globals.get("__name__"))):
        level, frame = level + 1, frame.f_back
    return level


def _check_encoder(given: Any) -> None:
    name = getattr(given, "__name__", type(given).__name__)
    if isinstance(given, type):
        raise TypeError(f"expected task_encoder to be an object, found the class {name}; pass {name}(…)")
    if not hasattr(given, "build_train_datasets"):
        raise TypeError(
            f"expected a TaskEncoder as task_encoder, found {name!r}; derive its class from TaskEncoder or "
            "DefaultTaskEncoder, and define the hooks there"
        )
    _warn_of_misspelt_hooks(type(given))


def _warn_of_misspelt_hooks(encoder: type[Any]) -> None:
    """Warn of public methods of the user's classes that are nearly named as a hook that these do not define."""
    kinds = [kind for kind in encoder.__mro__ if not is_own(kind.__module__)]
    members = {name: value for kind in kinds for name, value in vars(kind).items()}
    hooks = {name for name, value in vars(TaskEncoder).items() if is_library_hook(value)}
    for name, value in members.items():
        if name.startswith("_") or hasattr(TaskEncoder, name) or not callable(value):
            continue
        nearest = next(iter(get_close_matches(name, hooks, n=1, cutoff=_NEARLY)), name)
        if nearest not in members:
            warn_once(
                f"{encoder.__name__}.{name} is no hook of a task encoder; did you mean {nearest!r}? A name that begins "
                "with an underscore is never taken for a misspelt hook",
                stacklevel=_level_of_program() + 1,
            )


def given_subflavors(
    subflavors: Mapping[str, Any] | None, tags: Mapping[str, Any] | None, *, caller: str
) -> dict[str, Any]:
    """Return the labels that a caller gives under one of two names."""
    if subflavors and tags:
        raise TypeError(f"{caller}() takes subflavors= or tags=, its other name, not both")
    return dict(subflavors or tags or {})


def open_sources(request: LoadRequest, *, decoder: SampleDecoder | None, training: bool) -> list[Leaf]:
    """Open a dataset, or all datasets of a metadataset.

    Args:
        decoder: Decoder of the parts; None leaves them bytes.

    Raises:
        TrustError: A dataset needs to run code, and the caller does not allow it.
    """
    if not request.ref.kind.is_mix:
        plan = LeafPlan(request=request)
        return [Leaf(plan=plan, source=_open_plan(plan, decoder))]
    leaves = []
    for plan in plan_request(request, training=training):
        with named_by(plan, request.ref.path):
            leaves.append(Leaf(plan=plan, source=_open_plan(plan, decoder)))
    return leaves


def _open_plan(plan: LeafPlan, decoder: SampleDecoder | None) -> Source:
    request = plan.request
    source: Source = DatasetSource(request=request, decoder=decoder)
    if plan.join is not None:
        source = _open_join(plan, plan.join, decoder)
    # Raise for a wrong split part here, not when the first batch is requested.
    _ = source.samples
    if request.ref.dataset_config is not None or request.options or plan.join is not None:
        # Likewise for a missing dataset file. The default one is not read: there may be hundreds of datasets.
        _ = source.recipe.is_crude
    if request.sample_type is not None and isinstance(source, DatasetSource):
        check_sample_type(source.recipe.builder.sample_class, request.sample_type, at=source.describe())
    return source


def check_sample_type(sample_type: type[Any], expected: type[Any] | None, *, at: str | None) -> None:
    """Check the class of a dataset's samples; None expects any."""
    if expected is not None and not issubclass(sample_type, expected):
        raise ConfigError(
            f"expected samples of {expected.__name__}, found {sample_type.__name__}",
            at=at,
            hint="pass another sample_type, or another dataset_config",
        )


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
        joiner=load_joiner(join.joiner, at=at, trust_code=plan.request.ref.trust_code),
    )


def read_lazy_documents(source: Source, *, units: Iterable[str]) -> None:
    """Read the dataset file, the index's documents and the records of columns of a source, or of each member of a join.

    Errors are left to the first use, which finds them again.
    """
    for member in source.members:
        with suppress(EnergonError):
            _ = member.recipe.is_crude
        with suppress(EnergonError):
            _ = member.folder.index.layout
    folder = source.members[0].folder
    for unit in units:
        with suppress(EnergonError):
            if unit in folder.documents.column_names():
                _ = read_record(folder.storage, unit)


@contextmanager
def shared_metadata(config: WorkerConfig) -> Iterator[None]:
    """Open datasets in the block with the documents that rank 0 has read.

    Rank 0 runs the block first. The other ranks wait, and run it with its answers. If it fails on rank 0, it fails on
    all: no rank waits for one that has ended.
    """
    if config.world_size == 1:
        yield
        return
    # Rank 0 reads, and sends its answers also if it fails: the others wait for them.
    check_group(config, "share_metadata=True", ", or drop share_metadata")
    if config.rank == 0:
        answers, failure = Answers(), "it was interrupted"
        try:
            with use_answers(answers):
                yield
            failure = ""
        except Exception as error:
            failure = str(error)
            raise
        finally:
            answers.records = False
            broadcast((answers.found, failure), config)
        return
    # The other ranks open the datasets with the answers.
    metadata, failure = broadcast(None, config)
    with use_answers(Answers(metadata)):
        yield
    if failure:  # and this rank could open them: a file was missing for a moment
        raise StorageError(f"rank 0 could not open the datasets: {failure}", hint="start the run again")
