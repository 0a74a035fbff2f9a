"""View the samples that a path names; each sample of a metadataset names its dataset."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from ..dataset.join import JoinedDataset
from ..dataset.kind import kind_at
from ..dataset.opening import dataset_at
from ..dataset.selection import Selection
from ..errors import ConfigError, EnergonError
from ..format.dataset_ref import DatasetRef
from ..metadataset.documents.leaf_plan import JoinMember, JoinPlan, LeafPlan
from ..metadataset.joins.files import open_join
from ..storage import short_path
from .fields import FieldView
from .folder_views import SampleViews, open_file_views, open_folder_views, open_tar_views, place_text
from .sample_view import PreviewRequest, SampleView, Viewer, describe_sample, reason_of
from .shown_order import MixOrder

_NOT_JOINED = "shown one after another"


class _Samples:
    """A split part of a dataset, or a file of samples."""

    def __init__(self, leaf: LeafPlan, request: PreviewRequest) -> None:
        folder = dataset_at(leaf.ref)
        part = folder.documents.loaded_part(leaf.split_part)
        self.selection = Selection(folder, part, leaf.filter, leaf.request.subset, at=leaf.path)
        self._viewer = Viewer(folder, request)

    def view(self, index: int, title: str) -> SampleView:
        return self._viewer.view(self.selection[index], title)


class _Rows:
    """Rows of a join: the joined samples, or the members' samples if the joiner cannot run."""

    def __init__(self, leaf: LeafPlan, join: JoinPlan, request: PreviewRequest) -> None:
        rows = open_join(join)
        self._members = [_Member(member, member_index, request) for member_index, member in enumerate(join.members)]
        folders = tuple(member.dataset for member in self._members)
        self._joined = JoinedDataset(folders, None, rows, file=join.file, place=join.place)
        self.selection = Selection(self._joined, subset=leaf.request.subset)
        self._joiner: Callable[..., Any] | None = None
        self._refused: EnergonError | None = None
        # A joiner is code of the dataset: without trust, the members are shown alone.
        if not request.crude and join.joiner is not None:
            from ..samples.building.dataset_code import load_joiner

            try:
                self._joiner = load_joiner(join.joiner, at=self._joined.path, trust_code=request.ref.trust_code)
            except EnergonError as error:
                self._refused = error

    def view(self, index: int, title: str) -> SampleView:
        row = self.selection[index]
        numbers = self._joined.rows[row].tolist()
        heading = f"{self._joined.full_key(row)}   {title}"
        if self._joiner is None:
            return self._separately(numbers, heading)
        try:
            samples = [member.make(member_sample) for member, member_sample in zip(self._members, numbers, strict=True)]
            by_name = {str(member.name): sample for member, sample in zip(self._members, samples, strict=True)}
            joined = self._joiner(*samples) if self._members[0].name is None else self._joiner(**by_name)
        except Exception as error:  # noqa: BLE001 - the joiner may raise anything
            reason = reason_of(error, shown=_NOT_JOINED, before="the joiner fails: ")
            return replace(self._separately(numbers, heading), **reason)
        return SampleView(title=heading, fields=describe_sample(joined))

    def _separately(self, numbers: Sequence[int], heading: str) -> SampleView:
        views = [member.view(sample) for member, sample in zip(self._members, numbers, strict=True)]
        if self._refused is not None:
            views.append(SampleView(title="", fields=(), **reason_of(self._refused, shown=_NOT_JOINED)))
        return SampleView(
            title=heading,
            fields=[field for view in views for field in view.fields],
            fault="\n".join(view.fault for view in views if view.fault is not None) or None,
            note="\n".join(view.note for view in views if view.note is not None) or None,
        )


class _Member(Viewer):
    """Describes samples of a member; a missing one has a negative number."""

    def __init__(self, member: JoinMember, position: int, request: PreviewRequest) -> None:
        super().__init__(dataset_at(member.ref), request)
        self.name = member.name
        self._label = member.name if member.name is not None else f"{position} {os.path.basename(member.path)}"

    def make(self, sample: int) -> Any:
        """Build the sample to pass to the joiner; None for a missing one."""
        return None if sample < 0 else self.build(self.read(sample), sample)

    def view(self, sample_number: int, title: str = "") -> SampleView:
        """Describe the sample; the names of its fields are prefixed with the member's name."""
        if sample_number < 0:
            return SampleView(title="", fields=[FieldView(name=self._label, facts="no sample has this key")])
        view = super().view(sample_number, title)
        return replace(view, fields=[replace(field, name=f"{self._label}: {field.name}") for field in view.fields])


def open_views(request: PreviewRequest) -> SampleViews:
    """Open the samples that a request selects.

    Raises:
        ConfigError: The split part or key does not exist, or documents of a metadataset contain faults.
        FormatError: A file of the dataset is damaged.
        StorageError: A dataset is missing, or a dataset of a metadataset is not prepared.
    """
    request = replace(request, ref=DatasetRef.of(request.ref))
    ways = {
        "metadatasets": _open_mix,
        "unprepared tar files": open_tar_views,
        "folders of media files": open_file_views,
    }
    return ways.get(kind_at(request.ref), open_folder_views)(request)


def _open_mix(request: PreviewRequest) -> SampleViews:
    """View the samples of a metadataset; without split parts, of the split train, or of the first split."""
    # Imported late: only metadatasets need the planner.
    from ..metadataset.leaf_samples import named_by
    from ..metadataset.plans.plan_leaves import plan_splits

    # Open the leaves of the splits.
    planned = plan_splits(request.ref, split_parts=request.split_parts).checked()
    names = planned.names
    if request.split_parts is None:
        names = ("train",) if "train" in names else names[:1]
    folder = os.path.dirname(planned.file)
    mixed: list[_MixedLeaf] = []
    for name in names:
        leaves = []
        for planned_leaf in planned.trees[name].leaves():
            with named_by(planned_leaf, planned.file):
                join = planned_leaf.join
                views = _Samples(planned_leaf, request) if join is None else _Rows(planned_leaf, join, request)
                leaves.append(_MixedLeaf(planned_leaf, views, folder))
        total = sum(len(leaf.views.selection) for leaf in leaves)
        for leaf in leaves:  # splits are drawn in proportion to their numbers of samples
            leaf.weight *= total / (sum(other.share for other in leaves) or 1)
        mixed += [leaf for leaf in leaves if len(leaf.views.selection)]
    # View the samples of a key, or all in the order of the mix.
    if request.key is not None:
        return _find_in_mix(mixed, request.key, request.ref.path)
    order = MixOrder([len(leaf.views.selection) for leaf in mixed], [leaf.weight for leaf in mixed], seed=request.seed)

    def view(position: int) -> SampleView:
        which, index = order[position]
        title = place_text(order, position, shuffled=request.seed is not None)
        return replace(mixed[which].view(index, title), index=order.position(position))

    return SampleViews(len(order), view)


def _find_in_mix(mixed: list[_MixedLeaf], key: str, path: str) -> SampleViews:
    matches = [(leaf, index) for leaf in mixed for index in leaf.views.selection.find(key)]
    if not matches:
        raise ConfigError(
            f"no sample of these datasets has the key {key!r}",
            at=path,
            hint="give it as '<shard>/<key>', or as the key alone; energon preview shows some",
        )

    def view(position: int) -> SampleView:
        leaf, index = matches[position]
        title = f"sample {index:,} of {len(leaf.views.selection):,} of its dataset"
        return leaf.view(
            index, f"{title}, {position + 1} of {len(matches):,} with this key" if len(matches) > 1 else title
        )

    return SampleViews(len(matches), view)


class _MixedLeaf:
    """A leaf and its share of the mix.

    Args:
        views: Its samples, counted from 0 after its filter and subset.
        folder: The folder of the metadataset; paths below it are shown relative to it.
    """

    def __init__(self, plan: LeafPlan, views: _Samples | _Rows, folder: str) -> None:
        self.views = views
        samples = len(views.selection)  # raises errors of the split part and the subset
        repetitions = 1.0 if plan.repetitions is None else plan.repetitions
        self.share = plan.weight if plan.weight is not None else repetitions * samples
        if plan.schedule is not None:  # samples of all stretches are drawn
            self.share = fmean(plan.schedule.weights)
        self.weight = self.share
        self._origin = _origin(plan, folder)

    def view(self, index: int, title: str) -> SampleView:
        return replace(self.views.view(index, title), origin=self._origin)


def _origin(leaf: LeafPlan, folder: str) -> str:
    """Format the leaf that a sample is from.

    >>> from loader.metadataset.documents.leaf_plan import LeafPlan
    >>> from loader.format.dataset_ref import DatasetRef
    >>> from loader.format.documents.providers import LoadRequest
    >>> request = LoadRequest(ref=DatasetRef("/data/a"), split_part="val", subflavors={"kind": "art"})
    >>> _origin(LeafPlan(place="", request=request), "/data")
    'from a (val), kind: art'
    """
    if leaf.join is not None:
        members = ", ".join(_shown(member.path, member.split_part, folder) for member in leaf.join.members)
        where = f"a join of {members}"
    else:
        where = _shown(leaf.path, leaf.split_part, folder)
    return ", ".join([f"from {where}", *(f"{name}: {value}" for name, value in leaf.request.subflavors.items())])


def _shown(path: str, split_part: str, folder: str) -> str:
    return f"{short_path(path, folder)} ({split_part})"
