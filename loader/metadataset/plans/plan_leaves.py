"""Plan which leaves a metadataset loads; the entry point of planning."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import inf
from typing import Any

from ...errors import ConfigError, Fault, StorageError
from ...format.data_kind import data_kind, files_folder
from ...format.dataset_ref import DOCUMENT_CHOICES, DatasetRef
from ...format.documents.messages import did_you_mean, short_key, short_repr
from ...format.documents.providers import LoadRequest
from ...format.documents.subset import SampleRange
from ...storage import EPath, resolve_path
from ..documents.leaf_plan import JoinMember, JoinPlan, LeafPlan, SourceSpec
from ..documents.parse import DocumentStore
from ..documents.paths import DatasetPaths, display_path, resolve_aux
from .inherited_settings import InheritedSettings
from .plan_node import NodeKind, PlanNode, warn_of_repeated_leaves


@dataclass(frozen=True, slots=True)
class TraversedDatasetReference:
    """One dataset that a metadataset references.

    Attributes:
        path: The resolved path, or the URL as written.
        split_part: Part of its split.
        aux: Auxiliary stores, folders of files included: name → resolved path or URL.
        subflavors: Labels of its samples, combined over all levels.
        place: Place of the reference; see :class:`.LeafPlan`.
    """

    path: EPath
    split_part: str
    aux: dict[str, EPath]
    subflavors: dict[str, Any]
    place: str = ""


def traverse_metadataset(
    path: str | os.PathLike[str], *, split_part: str, **kwargs: Any
) -> list[TraversedDatasetReference]:
    """List the datasets of a split of a metadataset, in order; a join is listed as its members.

    The datasets need not exist.

    Args:
        path: The metadataset.
        split_part: The split.
        **kwargs: No other argument is known; accepted for compatibility of the signature.

    Raises:
        ConfigError: The path is not a metadataset, or the documents have faults.
        StorageError: The file cannot be read.
        TypeError: An argument is unknown.
    """
    for name in kwargs:
        raise TypeError(f"traverse_metadataset() has no argument {name!r}{did_you_mean(name, ['path', 'split_part'])}")
    check_is_metadataset(path)
    root = plan_tree(path, split_part=split_part, training=False, check_paths=False)
    return [_traversed(source) for leaf in root.leaves() for source in leaf.datasets]


def check_is_metadataset(path: str | os.PathLike[str]) -> None:
    """Raise a ``ConfigError`` for a path that names no metadataset."""
    if not data_kind(path).is_mix:
        message = "this is not a metadataset; expected a file that ends in .yaml or .yml"
        raise ConfigError(message, file=os.fspath(path), hint="pass the path of a metadataset")


def _traversed(source: LeafPlan | JoinMember) -> TraversedDatasetReference:
    return TraversedDatasetReference(
        path=EPath(source.path),
        split_part=source.split_part,
        aux={name: EPath(files_folder(store.path) or store.path) for name, store in source.request.aux.items()},
        subflavors=dict(source.request.subflavors),
        place=source.place,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSplits:
    """The planned splits of a metadataset.

    Attributes:
        names: The requested splits, in order.
        trees: The trees of the splits without faults, by name.
        faults: The faults of the documents, each once.
    """

    file: str
    names: tuple[str, ...]
    trees: Mapping[str, PlanNode]
    faults: tuple[Fault, ...]

    def checked(self) -> PlannedSplits:
        if self.faults:
            raise ConfigError(file=self.file, faults=self.faults)
        return self


def plan_leaves(
    ref: DatasetRef | str | os.PathLike[str],
    *,
    split_part: str,
    training: bool,
    **choices: Any,
) -> tuple[LeafPlan, ...]:
    """Return the leaves of a metadataset, or the single leaf of a dataset; only metadataset files are read.

    Args:
        ref: The folder of a prepared dataset, a file of samples, or a metadataset (``.yaml``, ``.yml``); its
            ``split_config`` and ``dataset_config`` are the files of every dataset, and override the documents.
        split_part: The split of the metadataset, or the split part of the dataset.
        training: Apply weights and repetitions; otherwise each leaf comes once, in order.
        **choices: ``subflavors``: labels of all samples; ``epochs_together``: the caller's
            ``shuffle_over_epochs_multiplier``. They override the documents.

    Raises:
        ConfigError: The documents have faults; the error lists all of them with their places.
        StorageError: The metadataset cannot be read.

    Warns:
        UserWarning: Two places of the tree share samples of a dataset.
    """
    return plan_request(
        LoadRequest(ref=DatasetRef.of(ref).resolved(), split_part=split_part, **choices), training=training
    )


def plan_request(request: LoadRequest, *, training: bool) -> tuple[LeafPlan, ...]:
    """Return the leaves of a request; for arguments and errors see :func:`plan_leaves`."""
    root = _plan(request, training=training, check_paths=True)
    warn_of_repeated_leaves(root)
    return tuple(root.leaves())


def plan_tree(
    ref: DatasetRef | str | os.PathLike[str],
    *,
    split_part: str,
    training: bool = True,
    check_paths: bool = True,
    check_urls: bool = False,
) -> PlanNode:
    """Return a metadataset as a tree, with the share of each node in the whole.

    Args:
        ref: See :func:`plan_leaves`.
        split_part: See :func:`plan_leaves`.
        training: See :func:`plan_leaves`.
        check_paths: Treat a missing dataset as a fault.
        check_urls: Treat a missing dataset at a URL as a fault, too, which takes a request each.

    Raises:
        ConfigError: The documents have faults; the error lists all of them with their places.
        StorageError: The metadataset cannot be read.
    """
    request = LoadRequest(ref=DatasetRef.of(ref).resolved(), split_part=split_part)
    return _plan(request, training=training, check_paths=check_paths, check_urls=check_urls)


def plan_splits(ref: DatasetRef | str | os.PathLike[str], *, split_parts: Sequence[str] | None = None) -> PlannedSplits:
    """Plan several splits of a metadataset, to describe or check it; no dataset is read.

    Splits are planned for training. A split whose name does not begin with ``train`` is planned for validation, without
    weights and repetitions, if planning it for training fails.

    Args:
        ref: The metadataset; see :func:`plan_leaves`.
        split_parts: The splits to plan; None plans all.
    """
    ref = DatasetRef.of(ref)
    file = resolve_path(ref.path)
    spec = DocumentStore(file).open(file)
    faults: dict[Fault, None] = {}
    trees: dict[str, PlanNode] = {}
    # Choose the splits.
    if spec.names is None or split_parts is None:
        names = spec.names or ()
    else:
        names = tuple(split_parts)
        _check_names(names, spec.names, file)
    if spec.names == ():
        faults[Fault(place="splits", message="this is empty; expected a split, such as train")] = None
    # Plan each split for training, or else for validation.
    for name in names if spec.names is not None else ("train",):  # planning any split reports the document's faults
        kinds = (True,) if name.startswith("train") else (True, False)
        for training in kinds:
            try:
                trees[name] = plan_tree(ref, split_part=name, training=training, check_paths=False)
                break
            except ConfigError as error:
                # The faults of the last try are reported.
                if training == kinds[-1]:
                    faults |= dict.fromkeys(error.faults or [Fault(place="", message=error.message)])
    return PlannedSplits(file=file, names=names, trees=trees, faults=tuple(faults))


def _check_names(names: Sequence[str], known: Sequence[str], file: str) -> None:
    unknown = [short_repr(name) for name in names if name not in known]
    if unknown:
        available = ", ".join(known) or "none"
        raise ConfigError(f"there is no split {', '.join(unknown)}; there are: {available}", file=file)


def _plan(request: LoadRequest, *, training: bool, check_paths: bool, check_urls: bool = False) -> PlanNode:
    settings = InheritedSettings(request=request)
    if request.ref.kind.is_mix:
        planner = TreePlanner(request.ref.path, training=training, check_paths=check_paths, check_urls=check_urls)
        return planner.plan(settings)
    return _node("dataset", request.ref.path, settings, place="", leaf=settings.leaf(request, place=""))


def _resolved(ref: DatasetRef, file: str) -> DatasetRef:
    return DatasetRef.of(ref.resolved(os.path.dirname(file)))


def _node(kind: NodeKind, path: str, settings: InheritedSettings, **more: Any) -> PlanNode:
    return PlanNode(
        kind=kind,
        path=path,
        split_part=settings.request.split_part,
        weight=settings.weight,
        schedule=settings.schedule,
        repetitions=settings.repetitions,
        **more,
    )


_BLENDS = ("blend", "blend_epochized")
_MAX_LEVELS = 30
_MAX_NAMED = 20  # splits, in a message
_MAX_PLACES = 100_000
"""Limit of datasets: a few files that reference each other twice per level would expand beyond any memory."""


class TreePlanner:
    """Planner of one split of a metadataset.

    Args:
        training: Check that weights and repetitions can be applied; weights may change during the run.
        check_urls: Check datasets at URLs, too, which takes a request each.
    """

    def __init__(self, root: str, *, training: bool, check_paths: bool, check_urls: bool = False) -> None:
        self._documents = DocumentStore(root)
        self._training = training
        self._paths = DatasetPaths(check_urls=check_urls) if check_paths else None
        self._places_left = _MAX_PLACES
        self._first_blend: dict[str, str] = {}

    def plan(self, outer: InheritedSettings) -> PlanNode:
        """Plan the split named by ``outer``.

        Raises:
            ConfigError: The documents have faults; the error lists all of them.
            StorageError: The root file cannot be read.
        """
        root = self._documents.root
        self._documents.open(root)  # an unreadable root raises StorageError instead of adding a fault
        node = self._metadataset(root, outer, place="", named_by=(root, "splits"))
        # Weights and repetitions cannot be combined in training.
        if self._training and len(self._first_blend) == 2:
            repeated = self._first_blend["blend_epochized"]
            fault = f"this is mixed by weights, but {repeated} by repetitions; use blend_epochized for all of one tree"
            self._documents.fault(root, self._first_blend["blend"], fault)
        if self._documents.faults or node is None:
            raise ConfigError(file=root, faults=self._documents.faults)
        return node

    # ------------------------------------------------------------------------------------------------ inner nodes

    def _metadataset(
        self, file: str, outer: InheritedSettings, *, place: str, named_by: tuple[str, str]
    ) -> PlanNode | None:
        """Plan one split of a file; ``named_by`` is the file and place of the reference."""
        # References in a circle have no end, and many levels no use.
        split_part = outer.request.split_part
        key = (file, split_part)
        if key in outer.files or len(outer.files) == _MAX_LEVELS:
            is_circle = key in outer.files
            steps = outer.files[outer.files.index(key) :] if is_circle else outer.files[-3:]
            chain = " → ".join(f"{os.path.basename(name)} ({split})" for name, split in (*steps, key))
            fault = (
                "these reference each other in a circle"
                if is_circle
                else f"more than {_MAX_LEVELS} levels of metadatasets"
            )
            self._documents.fault(*named_by, f"{fault}: {chain}")
            return None
        # Find the split in the file.
        try:
            spec = self._documents.open(file)
        except StorageError as error:
            self._documents.fault(*named_by, f"{error.message}: {display_path(error.path or file)}")
            return None
        split = spec.splits.get(split_part)
        if split is None:
            if spec.names is not None and split_part not in spec.names:  # otherwise the split has faults already
                more = ["…"] if len(spec.names) > _MAX_NAMED else []
                available = ", ".join([*map(short_key, spec.names[:_MAX_NAMED]), *more]) or "none"
                self._documents.fault(
                    *named_by,
                    f"there is no split {short_repr(split_part)} in {display_path(file)}; there are: {available}",
                )
            return None
        # Plan what it contains.
        inner = replace(outer, files=(*outer.files, key))
        child = (self._blend if split.kind in _BLENDS else self._source)(file, split, inner)
        if child is None:
            return None
        return _node("metadataset", file, outer, place=place, children=(child,))

    def _blend(self, file: str, blend: SourceSpec, outer: InheritedSettings) -> PlanNode | None:
        place = self._documents.place(file, blend.place)
        self._first_blend.setdefault(blend.kind, place)
        # Numbers of samples would have to be divided among several datasets.
        if isinstance(blend.subset, SampleRange):
            self._fault_of_numbers(file, blend.place.rpartition(".")[0])
        # Divide the share of the blend among its entries.
        try:
            shares = outer.shares(blend, training=self._training)
        except ConfigError as error:  # a schedule of weights
            self._documents.fault(file, blend.place, error.message)
            shares = [replace(outer, weight=1.0, schedule=None)] * len(blend.sources)
        # Plan the entries, and omit those with faults.
        nodes = [self._source(file, entry, share) for entry, share in zip(blend.sources, shares, strict=True)]
        children = tuple(node for node in nodes if node is not None)
        if not children:
            return None
        return _node(blend.kind, file, outer, place=place, children=children, unit=blend.unit)

    def _source(self, file: str, source: SourceSpec, outer: InheritedSettings) -> PlanNode | None:
        # Stop before the tree takes too much memory.
        if self._places_left <= 0:
            self._documents.fault(self._documents.root, "", f"this expands to more than {_MAX_PLACES:,} datasets")
            return None
        self._places_left -= 1
        if self._training and outer.repetitions == inf:
            self._documents.fault(file, source.place, "the product of the repetitions of all levels overflows")
        # Plan a join, a metadataset, or a dataset.
        try:
            inner = outer.within(source)
            if source.kind == "join":
                return self._join(file, source, inner)
            ref = _resolved(source.ref, file)
            if ref.kind.is_mix:
                return self._nested(file, source, ref.path, inner)
            return self._dataset(file, source, ref, inner)
        except ConfigError as error:  # a path leads out of its bucket, or a setting for its URL is missing
            self._documents.fault(file, source.place, f"{error.message}; {error.hint}" if error.hint else error.message)
            return None

    def _nested(self, file: str, source: SourceSpec, path: str, inner: InheritedSettings) -> PlanNode | None:
        # Documents, filters and stores belong to single datasets.
        given = asdict(source.ref) | {"filter": source.filter}
        for key in (*DOCUMENT_CHOICES, "filter"):
            if given[key] is not None:
                self._documents.fault(file, f"{source.place}.{key}", "a metadataset has none; set it at its datasets")
        if source.aux:
            self._documents.fault(file, f"{source.place}.aux", "a metadataset has none; set it at its datasets")
        if isinstance(source.subset, SampleRange):
            self._fault_of_numbers(file, source.place)
        place = self._documents.place(file, source.place)
        return self._metadataset(path, inner, place=place, named_by=(file, f"{source.place}.path"))

    # ----------------------------------------------------------------------------------------------------- leaves

    def _dataset(self, file: str, source: SourceSpec, ref: DatasetRef, inner: InheritedSettings) -> PlanNode | None:
        place = self._documents.place(file, source.place)
        ref = self._with_known_folder(file, source, ref)
        self._check_path(file, source, ref)
        request = inner.request_for(ref, source, self._aux(file, source))
        return _node("dataset", ref.path, inner, place=place, leaf=inner.leaf(request, place=place))

    def _with_known_folder(self, file: str, reference: SourceSpec, ref: DatasetRef) -> DatasetRef:
        """Return a dataset without a meta folder if it cannot have one, which is a fault."""
        if not (ref.folder_flags and ref.kind.is_file):
            return ref
        self._documents.fault(file, f"{reference.place}.meta_folder", "a single file has none")
        return ref.moved(ref.path)

    def _join(self, file: str, source: SourceSpec, inner: InheritedSettings) -> PlanNode | None:
        place = self._documents.place(file, source.place)
        members = tuple(self._member(file, member, inner) for member in source.sources)
        join = JoinPlan(file=file, place=source.place, members=members, joiner=source.joiner)
        leaf = inner.leaf(
            replace(inner.request, ref=inner.request.ref.moved(file), filter=None), place=place, join=join
        )
        return _node("join", file, inner, place=place, leaf=leaf)

    def _member(self, file: str, reference: SourceSpec, inner: InheritedSettings) -> JoinMember:
        ref = self._with_known_folder(file, reference, _resolved(reference.ref, file))
        # Samples are joined by keys, which only prepared folders have.
        if ref.kind.format != "folder":
            why = ", which has no keys" if ref.kind.is_file else ""
            fault = f"expected the folder of a prepared dataset, found {ref.kind.title}{why}: {display_path(ref.path)}"
            self._documents.fault(file, f"{reference.place}.path", fault)
        else:
            self._check_path(file, reference, ref)
        # The member's split part overrides the join's; the join's subflavors override the member's.
        request = inner.request_for(ref, reference, self._aux(file, reference))
        return JoinMember(
            request=replace(
                request,
                split_part=reference.split_part or request.split_part,
                subflavors={**reference.subflavors, **request.subflavors},
                epochs_together=1,  # set at the join, as is the subset
                subset=(),
            ),
            place=self._documents.place(file, reference.place),
            name=reference.name,
            nonmatch=reference.nonmatch,
        )

    def _aux(self, file: str, source: SourceSpec) -> dict[str, DatasetRef]:
        stores = {name: resolve_aux(store, os.path.dirname(file)) for name, store in source.aux.items()}
        for name, store in stores.items():
            fault = self._paths.fault_of_aux(store) if self._paths else None
            if fault is not None:
                self._documents.fault(file, f"{source.place}.aux.{name}", fault)
        return stores

    # ----------------------------------------------------------------------------------------------------- checks

    def _check_path(self, file: str, source: SourceSpec, ref: DatasetRef) -> None:
        fault = self._paths.fault_of_dataset(ref) if self._paths else None
        if fault is not None:
            self._documents.fault(file, f"{source.place}.path", fault)

    def _fault_of_numbers(self, file: str, place: str) -> None:
        message = "numbers of samples are only allowed for a leaf dataset; use percentages here, or set this there"
        self._documents.fault(file, f"{place}.subset.range", message)
