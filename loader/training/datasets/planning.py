"""The arguments of a run whose micro-batches or packs are planned from costs."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, cast, get_args

import numpy as np

from ...errors import ConfigError, FatalSampleError, plural
from ...order import Oversized, WindowPlan
from ...packing import packer_named
from ...pipeline.contract.worker_config import WorkerConfig, check_at_least, check_booleans, check_integers
from ...pipeline.measuring.item_sources import number_of
from ...pipeline.reading.planned_groups import PlannedGroups, shown_costs
from ...pipeline.reading.source import Source
from ...samples.batching.collate import key_of
from ...samples.encoding.size_metric import size_metrics

CostFormulas = str | Sequence[str] | Mapping[str, str]
"""Costs of samples: a column, a formula over columns, several of them, or formulas by the names of the costs."""

PLANNING_ARGUMENTS = (
    "balance",
    "packing",
    "pack_capacity",
    "batch_cost",
    "padded",
    "oversized",
    "plan_window",
    "allow_new_costs",
)


@dataclass(frozen=True, slots=True)
class MeasuredPacks:
    """The function that puts the samples of a buffer into packs, by costs that the metrics of the task encoder measure.

    Attributes:
        metrics: The metric of each cost, by name.
    """

    window: WindowPlan
    metrics: Mapping[str, Callable[[Any], Any]]

    def __call__(self, samples: list[Any]) -> list[list[Any]]:
        """Return the packs of some samples.

        Raises:
            FatalSampleError: A sample costs more than the capacity, and this is an error.
        """
        rows = [[number_of(metric(sample)) for metric in self.metrics.values()] for sample in samples]
        costs = np.array(rows, np.float64).reshape(len(samples), len(self.metrics))
        above = np.asarray((costs > np.array(self.window.capacity)).any(axis=1))
        if above.any() and self.window.oversized == "error":
            sample = samples[int(above.argmax())]
            shown = shown_costs(self.metrics, costs[above.argmax()])
            raise FatalSampleError(
                f"a sample above the capacity of a pack: {key_of(sample)!r} has {shown}; raise the capacity, or pass "
                'oversized="skip", "alone" or "hook"'
            )
        groups = [group.tolist() for group in self.window.groups(costs, key=0)]
        kept = [group for group in groups if self.window.oversized != "skip" or not above[group[0]]]
        return [[samples[index] for index in group] for group in kept]


def checked_buffer(planning: PlannedGroups | None, buffer_size: int | None) -> int | None:
    """Return the samples of the buffer from which packs are made; None if groups are planned before samples are read.

    Raises:
        ConfigError: Packs need a buffer, and none is given.
    """
    if planning is None:
        return buffer_size
    if planning.kind == "buffer":
        if buffer_size is None:
            raise ConfigError(
                f"the costs {', '.join(planning.formulas)} are measured when samples are encoded, since they are no "
                "columns, and packing_buffer_size is None",
                hint="pass packing_buffer_size=1000, from which packs are made; or write columns, and packs are "
                "planned before samples are read",
            )
        return buffer_size
    if buffer_size is not None:
        warnings.warn(
            "packing_buffer_size has no effect next to balance, packing or batch_cost: groups are planned from "
            "columns, before samples are read",
            stacklevel=3,
        )
    return None


def planning_of(
    encoder: Any, given: Mapping[str, Any], *, batch_size: int | None, config: WorkerConfig, sources: Sequence[Source]
) -> PlannedGroups | None:
    """Return what the arguments of ``get_train_dataset`` plan; None if they plan nothing.

    Args:
        encoder: The task encoder, whose attributes stand for arguments that are None.
        given: The arguments in :data:`PLANNING_ARGUMENTS`.
        batch_size: Samples of a micro-batch.
        config: Ranks, workers and lanes of the run.
        sources: The datasets, whose columns may have the costs.

    Raises:
        ConfigError: The arguments contradict each other.
    """
    values = {name: _argument(encoder, name, given.get(name)) for name in PLANNING_ARGUMENTS}
    balance, packing, capacity = values["balance"], values["packing"], values["pack_capacity"]
    batch_cost, oversized, samples = values["batch_cost"], values["oversized"] or "error", values["plan_window"]
    check_integers({"plan_window": samples})
    check_at_least(1, "sample", or_none=True, plan_window=samples)
    if balance is None and packing is None and batch_cost is None:
        for name in ("pack_capacity", "padded", "oversized", "plan_window"):
            if values[name]:
                raise ConfigError(f"{name} has no effect without balance, packing or batch_cost")
        return None
    # Check that the arguments fit each other.
    if sum(value is not None for value in (balance, packing, batch_cost)) > 1:
        raise ConfigError(
            "balance, packing and batch_cost exclude each other",
            hint="packs that are full cost the same: packing needs no balance",
        )
    _check_effects(values, batch_size)
    if packing is not None and not isinstance(packing, str):
        raise ConfigError(
            f"expected packing to be the name of a packer, found {packing!r}", hint='pass packing="best_fit"'
        )
    if oversized not in get_args(Oversized):
        raise ConfigError(f"expected oversized to be 'error', 'skip', 'alone' or 'hook', found {oversized!r}")
    padded, allow_new_costs = values["padded"] or False, values["allow_new_costs"] or False
    check_booleans({"padded": padded, "allow_new_costs": allow_new_costs})
    if padded and packing is not None:
        raise ConfigError("packs are not padded", hint="pass padded=True with balance or batch_cost")
    workers = config.world_size * config.num_workers
    if config.lanes is not None and config.lanes < workers:
        raise ConfigError(
            f"expected a lane for each worker, found {plural(config.lanes, 'lane')} for {plural(workers, 'worker')} on "
            f"{plural(config.world_size, 'rank')}",
            hint="pass more lanes, or num_workers of at most the lanes of a rank",
        )
    given = {"grows": True} if samples is None else {"samples": samples}
    window = WindowPlan(padded=padded, **given)
    # Groups of equal numbers of samples.
    if balance is not None:
        return PlannedGroups(
            formulas=_formulas(balance, "balance"),
            window=replace(window, group_samples=batch_size or 1),
            kind="batches",
            allow_new_costs=allow_new_costs,
        )
    # Groups up to a capacity.
    limits = capacity if packing is not None else batch_cost
    name = "pack_capacity" if packing is not None else "batch_cost"
    if not isinstance(limits, Mapping) or not limits:
        raise ConfigError(
            f"expected {name} to name the capacity of each cost, found {limits!r}",
            hint=f'pass {name}={{"tokens": 8192}}; the names are columns, or formulas over columns',
        )
    for cost, limit in limits.items():
        if isinstance(limit, bool) or not isinstance(limit, Real) or not math.isfinite(limit) or limit <= 0:
            raise ConfigError(f"expected a capacity above 0 of {cost!r}, found {limit!r}")
    packer = "best_fit" if packing is None else packing
    packer_named(packer)
    is_measured = packing is not None and _are_measured(encoder, limits, sources)
    return PlannedGroups(
        formulas=_formulas(tuple(limits), name),
        window=replace(
            window,
            packer=packer,
            capacity=tuple(float(limit) for limit in limits.values()),
            oversized=cast("Oversized", oversized),
        ),
        kind="buffer" if is_measured else "batches" if packing is None else "packs",
        allow_new_costs=allow_new_costs,
    )


def _check_effects(values: Mapping[str, Any], batch_size: int | None) -> None:
    """Raise a ``ConfigError`` if an argument has no effect with the others."""
    if values["packing"] is None and values["pack_capacity"] is not None:
        raise ConfigError("pack_capacity has no effect without packing", hint="batch_cost limits micro-batches")
    if values["batch_cost"] is not None and batch_size not in (None, 1):
        raise ConfigError(
            f"batch_size={batch_size} has no effect with batch_cost, which says how many samples a micro-batch has",
            hint="leave batch_size out",
        )
    if values["balance"] is not None and values["oversized"] is not None:
        raise ConfigError("oversized has no effect with balance, which has no limit", hint="leave oversized out")


def _are_measured(encoder: Any, costs: Mapping[str, float], sources: Sequence[Source]) -> bool:
    """Return whether a cost is a metric of the task encoder that some dataset has no column of."""
    metrics = size_metrics(encoder)
    known = [source.selection.first.documents.column_names() for source in sources]
    lacking = [cost for cost in costs if cost in metrics and not all(cost in names for names in known)]
    other = next((cost for cost in costs if cost not in metrics), None)
    if lacking and other is not None:
        raise ConfigError(
            f"packs are made of encoded samples, since {lacking[0]!r} is not a column, and {other!r} is not a metric of"
            f" {type(encoder).__name__}",
            hint=f"add a method with @sample_size_metric({other!r}), or write {lacking[0]!r} as a column",
        )
    return bool(lacking)


def _argument(encoder: Any, name: str, given: Any) -> Any:
    return getattr(encoder, name, None) if given is None or given is False else given


def _formulas(costs: Any, name: str) -> dict[str, str]:
    listed = [costs] if isinstance(costs, str) or not isinstance(costs, Iterable) else [*costs]
    texts = [*costs.values()] if isinstance(costs, Mapping) else listed
    if not texts or not all(isinstance(text, str) and text.strip() for text in [*listed, *texts]):
        raise ConfigError(
            f"expected {name} to be a column or a formula over columns, or several, found {costs!r}",
            hint=f'pass {name}="tokens", or {name}=["tokens", "ceil(width / 28) * ceil(height / 28)"]',
        )
    return dict(zip(listed, texts, strict=True))
