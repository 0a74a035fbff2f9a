"""The samples of a metadataset as what ``preview`` goes through, each headed by the dataset it is from."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from loader.errors import ConfigError
from loader.metadataset.documents.leaf_plan import LeafPlan
from loader.metadataset.plans.plan_leaves import plan_splits

from .leaf import LeafViews, open_leaf_views
from .order import MixOrder
from .render import SampleView
from .source import place_of

if TYPE_CHECKING:
    from .views import PreviewFlags, View

__all__ = ["views_of_mix"]


def views_of_mix(flags: PreviewFlags) -> tuple[int, View]:
    """Give how many samples there are to show, and what gives the view of each.

    Without split parts, the samples are those of the split train, or of the first one.

    Raises:
        ConfigError: The documents say something wrong, or there is no such split or key.
        EnergonError: A dataset cannot be opened.
    """
    planned = plan_splits(
        flags.path,
        split_parts=flags.split_parts,
        split_config=flags.split_config,
        dataset_config=flags.dataset_config,
    )
    if planned.faults:
        raise ConfigError(file=planned.file, faults=planned.faults)
    names = planned.names
    if flags.split_parts is None:
        names = ("train",) if "train" in names else names[:1]
    folder = os.path.dirname(planned.file)
    mixed: list[_MixedLeaf] = []
    for name in names:
        leaves = [
            _MixedLeaf(leaf, open_leaf_views(leaf, crude=flags.crude, trust_code=flags.trust_code), folder)
            for leaf in planned.trees[name].leaves()
        ]
        total = sum(len(leaf.views) for leaf in leaves)
        for leaf in leaves:  # splits come in proportion to their samples
            leaf.weight *= total / (sum(other.share for other in leaves) or 1)
        mixed += [leaf for leaf in leaves if len(leaf.views)]
    order = MixOrder([len(leaf.views) for leaf in mixed], [leaf.weight for leaf in mixed], seed=flags.seed)
    if flags.key is None:

        def view(place: int) -> SampleView:
            which, index = order[place]
            return mixed[which].view(index, place_of(place, len(order)))

        return len(order), view
    found = [(leaf, index) for leaf in mixed for index in leaf.views.find(flags.key)]
    if not found:
        raise ConfigError(
            f"no sample of these datasets has the key {flags.key!r}",
            at=flags.path,
            hint="give it as '<shard>/<key>', or as the key alone; energon preview shows some",
        )

    def view_of_found(place: int) -> SampleView:
        leaf, index = found[place]
        title = f"sample {index:,} of {len(leaf.views):,} of its dataset"
        return leaf.view(index, f"{title}, {place + 1} of {len(found):,} with this key" if len(found) > 1 else title)

    return len(found), view_of_found


class _MixedLeaf:
    """A leaf, and how often it comes.

    Args:
        plan: What the documents say of it.
        views: Its samples.
        folder: Where the metadataset lies: paths below it are shown relative to it.
    """

    def __init__(self, plan: LeafPlan, views: LeafViews, folder: str) -> None:
        self.views = views
        repetitions = 1.0 if plan.repetitions is None else plan.repetitions
        self.share = plan.weight if plan.weight is not None else repetitions * len(views)
        self.weight = self.share
        self._origin = _origin(plan, folder)

    def view(self, index: int, title: str) -> SampleView:
        return replace(self.views.view(index, title), origin=self._origin)


def _origin(leaf: LeafPlan, folder: str) -> str:
    """Say which leaf a sample is from.

    >>> from loader.format.documents.load_request import LoadRequest
    >>> request = LoadRequest(path="/data/a", split_part="val", subflavors={"kind": "art"})
    >>> _origin(LeafPlan(place="", request=request), "/data")
    'from a (val), kind: art'
    """
    if leaf.join is not None:
        members = ", ".join(_shown(member.path, member.split_part, folder) for member in leaf.join.members)
        where = f"a join of {members}"
    else:
        where = _shown(leaf.path, leaf.split_part, folder)
    return ", ".join([f"from {where}", *(f"{name}: {value}" for name, value in leaf.subflavors.items())])


def _shown(path: str, split_part: str, folder: str) -> str:
    inside = os.path.relpath(path, folder)
    return f"{path if inside.startswith('..') else inside} ({split_part})"
