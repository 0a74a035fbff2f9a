"""View the samples that a path names; those of a metadataset each with the dataset that they are from."""

from __future__ import annotations

import os
from dataclasses import replace
from statistics import fmean
from typing import TYPE_CHECKING

from ..dataset.unprepared.tar_folder import is_unprepared
from ..errors import ConfigError
from ..format.documents.providers import data_path, is_metadataset, is_record_file, is_tar_file
from ..format.media.metadata import is_media_folder
from ..storage import short_path
from .folder_views import SampleViews, open_file_views, open_folder_views, open_tar_views, place_text
from .sample_view import MixOrder, PreviewRequest, SampleView

if TYPE_CHECKING:
    from ..metadataset.documents.leaf_plan import LeafPlan
    from .leaf_views import LeafViews


def open_views(request: PreviewRequest) -> SampleViews:
    """Open the samples that a request selects.

    Raises:
        ConfigError: The split part or key does not exist, or documents of a metadataset contain faults.
        FormatError: A file of the dataset is damaged, or a JSONL file is not indexed.
        StorageError: A dataset is missing, or a dataset of a metadataset is not prepared.
    """
    ref = replace(request.ref, path=data_path(request.ref.path))
    request = replace(request, ref=ref)
    if is_metadataset(ref.path):
        return _open_mix(request)
    if is_record_file(ref.path):
        return open_folder_views(request)
    if is_tar_file(ref.path):
        return open_tar_views(request)
    storage = ref.storage()
    if is_media_folder(storage):
        return open_file_views(request)
    if is_unprepared(storage, ref):
        return open_tar_views(request)
    return open_folder_views(request)


def _open_mix(request: PreviewRequest) -> SampleViews:
    """View the samples of a metadataset; without split parts, those of the split train, or of the first one."""
    # Imported late: only metadatasets need the planner.
    from ..metadataset.leaf_samples import named_by
    from ..metadataset.plans.plan_leaves import plan_splits
    from .leaf_views import open_leaf_views

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
                leaves.append(_MixedLeaf(planned_leaf, open_leaf_views(planned_leaf, request), folder))
        total = sum(len(leaf.views) for leaf in leaves)
        for leaf in leaves:  # splits are drawn in proportion to their numbers of samples
            leaf.weight *= total / (sum(other.share for other in leaves) or 1)
        mixed += [leaf for leaf in leaves if len(leaf.views)]
    if request.key is not None:
        return _find_in_mix(mixed, request.key, request.ref.path)
    order = MixOrder([len(leaf.views) for leaf in mixed], [leaf.weight for leaf in mixed], seed=request.seed)

    def view(place: int) -> SampleView:
        which, index = order[place]
        title = place_text(order, place, shuffled=request.seed is not None)
        return replace(mixed[which].view(index, title), index=order.position(place))

    return SampleViews(len(order), view)


def _find_in_mix(mixed: list[_MixedLeaf], key: str, path: str) -> SampleViews:
    found = [(leaf, index) for leaf in mixed for index in leaf.views.find(key)]
    if not found:
        raise ConfigError(
            f"no sample of these datasets has the key {key!r}",
            at=path,
            hint="give it as '<shard>/<key>', or as the key alone; energon preview shows some",
        )

    def view(place: int) -> SampleView:
        leaf, index = found[place]
        title = f"sample {index:,} of {len(leaf.views):,} of its dataset"
        return leaf.view(index, f"{title}, {place + 1} of {len(found):,} with this key" if len(found) > 1 else title)

    return SampleViews(len(found), view)


class _MixedLeaf:
    """A leaf and its share of the mix.

    Args:
        plan: The leaf as the metadataset describes it.
        views: Its samples.
        folder: The folder of the metadataset; paths below it are shown relative to it.
    """

    def __init__(self, plan: LeafPlan, views: LeafViews, folder: str) -> None:
        self.views = views
        repetitions = 1.0 if plan.repetitions is None else plan.repetitions
        self.share = plan.weight if plan.weight is not None else repetitions * len(views)
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
    >>> from loader.format.documents.load_request import LoadRequest
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
