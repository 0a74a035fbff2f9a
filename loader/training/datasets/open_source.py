"""What a metadataset says of a leaf, opened."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from ...errors import ConfigError, EnergonError
from ...format.documents.load_request import LoadRequest, is_jsonl, is_metadataset
from ...metadataset.documents.leaf_plan import JoinPlan, LeafPlan
from ...metadataset.joins.open_join import open_join
from ...metadataset.plans.plan_leaves import plan_request
from ...pipeline.reading.dataset_source import DatasetSource
from ...pipeline.reading.joined_source import JoinedSource
from ...pipeline.reading.jsonl_source import JsonlSource
from ...pipeline.reading.source import Source
from ...samples.building.dataset_code import load_joiner
from ...samples.decoding.decoder import SampleDecoder

__all__ = ["LoadedSource", "open_sources"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedSource:
    """A leaf, and what the metadataset says of it."""

    plan: LeafPlan
    source: Source


def open_sources(request: LoadRequest, *, decoder: SampleDecoder | None, training: bool) -> list[LoadedSource]:
    """Open a dataset, or all datasets of a metadataset.

    Args:
        request: What to load.
        decoder: Decodes the parts; None leaves them bytes.
        training: Weights and repetitions count.

    Raises:
        StorageError: A path is missing, or a dataset is not prepared.
        ConfigError: A file of a dataset or a metadataset is wrong, there is no such split part, no sample is left, or a
            join is not prepared.
        TrustError: A dataset asks to run code, and the caller does not allow it.
    """
    plans = plan_request(request, training=training) if is_metadataset(request.path) else (LeafPlan(request=request),)
    return [LoadedSource(plan=plan, source=_open_leaf(plan, decoder)) for plan in plans]


def _open_leaf(plan: LeafPlan, decoder: SampleDecoder | None) -> Source:
    request = plan.request
    try:
        source = _open_join(plan, plan.join, decoder) if plan.join is not None else _open(request, decoder)
        # Raise for a wrong split part here, not when the first batch is requested.
        _ = source.samples
        if request.dataset_config is not None or plan.join is not None:
            _ = (
                source.is_crude
            )  # likewise for a missing dataset file; by default it is not read, of hundreds of datasets
    except EnergonError as error:
        if plan.place and plan.join is None:
            error.at = f"{error.at or request.path}, named by {plan.place}"
        raise
    return source


def _open(request: LoadRequest, decoder: SampleDecoder | None) -> Source:
    kind = JsonlSource if is_jsonl(request.path) else DatasetSource
    return kind(request=request, decoder=decoder)


def _open_join(plan: LeafPlan, join: JoinPlan, decoder: SampleDecoder | None) -> JoinedSource:
    at = f"{join.file}: {join.place}"
    if join.joiner is None:
        raise ConfigError(
            "this join names no joiner, which makes one sample of the members' samples",
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
