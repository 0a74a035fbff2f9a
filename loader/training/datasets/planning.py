"""The arguments of a run whose micro-batches or packs are planned from costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

import numpy as np

from ...errors import ConfigError
from ...order import Oversized, WindowPlan
from ...packing import packer_named
from ...pipeline.contract.worker_config import check_at_least, check_booleans, check_integers
from ...pipeline.reading.planned_groups import PlannedGroups
from ...pipeline.reading.source import Source

CostFormulas = str | Sequence[str] | Mapping[str, str]
"""Costs of samples: a column, a formula over columns, several of them, or formulas by the names of the costs."""

PLANNING_ARGUMENTS = ("balance", "packing", "pack_capacity", "batch_cost", "padded", "oversized", "plan_window")
_GROUPS_OF_WINDOW = 100  # so that a last pack, which is not full, is at most 1 % of the packs
_LARGEST_WINDOW = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Planning:
    """Groups of samples that are planned.

    Attributes:
        formulas: For each cost, a column or a formula over columns, by the name of the cost.
        window: How the samples of a window are grouped.
        groups: Groups are micro-batches, or packs.
    """

    formulas: Mapping[str, str]
    window: WindowPlan
    groups: Literal["batches", "packs"]

    def of(self, sources: Sequence[Source]) -> PlannedGroups:
        """Return the plan of some sources, after a check of their costs."""
        groups = PlannedGroups(sources=sources, formulas=self.formulas, window=self.window)
        groups.check()
        return groups


def planning_of(encoder: Any, given: Mapping[str, Any], *, batch_size: int | None) -> Planning | None:
    """Return what the arguments of ``get_train_dataset`` plan; None if they plan nothing.

    Args:
        encoder: The task encoder, whose attributes stand for arguments that are None.
        given: The arguments in :data:`PLANNING_ARGUMENTS`.
        batch_size: Samples of a micro-batch.

    Raises:
        ConfigError: The arguments contradict each other.
    """
    values = {name: _argument(encoder, name, given.get(name)) for name in PLANNING_ARGUMENTS}
    balance, packing, capacity = values["balance"], values["packing"], values["pack_capacity"]
    batch_cost, oversized, samples = values["batch_cost"], values["oversized"] or "error", values["plan_window"]
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
    if oversized not in get_args(Oversized):
        raise ConfigError(f"expected oversized to be 'error', 'skip', 'alone' or 'hook', found {oversized!r}")
    check_integers({"plan_window": samples})
    check_booleans({"padded": bool(values["padded"]) if values["padded"] is None else values["padded"]})
    padded = bool(values["padded"])
    if padded and packing is not None:
        raise ConfigError("packs are not padded", hint="pass padded=True with balance or batch_cost")
    check_at_least(1, "sample", or_none=True, plan_window=samples)
    window = WindowPlan() if samples is None else WindowPlan(samples=samples)
    # Groups of equal numbers of samples, whose windows are whole groups.
    if balance is not None:
        size = batch_size or 1
        whole = max(1, window.samples // size) * size
        return Planning(
            formulas=_formulas(balance, "balance"),
            window=WindowPlan(samples=whole, group_samples=size, padded=padded),
            groups="batches",
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
        if not isinstance(limit, int | float) or not np.isfinite(limit) or limit <= 0:
            raise ConfigError(f"expected a capacity above 0 of {cost!r}, found {limit!r}")
    packer = "best_fit" if packing is None else packing
    packer_named(packer)
    return Planning(
        formulas=_formulas(tuple(limits), name),
        window=WindowPlan(
            samples=window.samples,
            packer=packer,
            capacity=tuple(float(limit) for limit in limits.values()),
            padded=padded,
            oversized=cast("Oversized", oversized),
        ),
        groups="batches" if packing is None else "packs",
    )


def _argument(encoder: Any, name: str, given: Any) -> Any:
    return getattr(encoder, name, None) if given is None or given is False else given


def _formulas(costs: Any, name: str) -> dict[str, str]:
    if isinstance(costs, Mapping):
        formulas = dict(costs)
    else:
        listed = [costs] if isinstance(costs, str) else list(costs)
        formulas = {cost: cost for cost in listed}
    if not formulas or not all(isinstance(text, str) and text.strip() for text in formulas.values()):
        raise ConfigError(
            f"expected {name} to be a column or a formula over columns, or several, found {costs!r}",
            hint=f'pass {name}="tokens", or {name}=["tokens", "ceil(width / 28) * ceil(height / 28)"]',
        )
    return formulas
