"""What a metadataset says of a leaf, opened."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from ..errors import ConfigError, EnergonError
from ..format.nv_meta import DATASET_YAML, SPLIT_YAML
from ..metadataset.leaf_plan import JoinMember, JoinPlan, LeafPlan
from ..metadataset.open_join import open_join
from ..pipeline.dataset_leaf import DatasetLeaf
from ..pipeline.joined_leaf import JoinedLeaf
from ..pipeline.jsonl_leaf import JsonlLeaf
from ..pipeline.leaf import Leaf
from ..samples.decoder import SampleDecoder
from ..samples.joiner import load_joiner

__all__ = ["LoadedLeaf", "open_leaf"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedLeaf:
    """A leaf, and what the metadataset says of it."""

    plan: LeafPlan
    leaf: Leaf


def open_leaf(plan: LeafPlan, *, decoder: SampleDecoder | None, trust_code: bool) -> Leaf:
    """Open a dataset, a JSONL file or a join.

    Args:
        plan: What the metadataset says of it.
        decoder: Decodes the parts; None leaves them bytes.
        trust_code: Code and pickles of the dataset may run.

    Raises:
        StorageError: It is missing, or not prepared.
        ConfigError: There is no such split part, no sample is left, or a join is not prepared.
        TrustError: It asks to run code, and the caller does not allow it.
    """
    try:
        leaf = _open(plan, decoder=decoder, trust_code=trust_code)
        # So that a wrong split part is an error here, not when the first batch is asked for.
        _ = leaf.samples
        if plan.dataset_config is not None or plan.join is not None:
            _ = leaf.is_crude  # likewise a dataset file that is not there; it is not read of hundreds of datasets
    except EnergonError as error:
        if plan.place and plan.join is None:
            error.at = f"{error.at or plan.path}, named by {plan.place}"
        raise
    return leaf


def _open(plan: LeafPlan, *, decoder: SampleDecoder | None, trust_code: bool) -> Leaf:
    if plan.join is not None:
        return _open_join(plan, plan.join, decoder=decoder, trust_code=trust_code)
    if plan.path.endswith(".jsonl"):
        return JsonlLeaf(path=plan.path, subset=plan.subset, subflavors=plan.subflavors, aux=plan.aux, decoder=decoder)
    return _open_dataset(plan, plan, decoder=decoder, trust_code=trust_code)


def _open_dataset(
    plan: LeafPlan | JoinMember, whole: LeafPlan | None, *, decoder: SampleDecoder | None, trust_code: bool
) -> DatasetLeaf:
    return DatasetLeaf(
        path=plan.path,
        split_part=plan.split_part,
        split_config=plan.split_config or SPLIT_YAML,
        dataset_config=plan.dataset_config or DATASET_YAML,
        subset=whole.subset if whole is not None else (),
        subflavors=plan.subflavors,
        aux=plan.aux,
        decoder=decoder,
        trust_code=trust_code,
    )


def _open_join(plan: LeafPlan, join: JoinPlan, *, decoder: SampleDecoder | None, trust_code: bool) -> JoinedLeaf:
    if join.joiner is None:
        raise ConfigError(
            "this join names no joiner, which makes one sample of the members' samples",
            at=f"{join.file}: {join.place}",
            do="add joiner: {__module__: my_module, __class__: MyJoinedSample}, a class with a method from_joined",
        )
    names = [member.name for member in join.members]
    return JoinedLeaf(
        path=plan.path,
        place=join.place,
        members=tuple(_open_dataset(member, None, decoder=decoder, trust_code=trust_code) for member in join.members),
        names=None if None in names else tuple(map(str, names)),
        open_rows=partial(open_join, join),
        joiner=load_joiner(join.joiner, at=f"{join.file}: {join.place}", trust_code=trust_code),
        subset=plan.subset,
        aux=plan.aux,
    )
