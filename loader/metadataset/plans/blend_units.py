"""Blends whose weights are shares of a volume, such as tokens, converted to shares of samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..documents.leaf_plan import BlendStep

__all__ = ["SAMPLES", "sample_shares"]

SAMPLES = "samples"
"""The default unit of weights."""


def sample_shares(leaves: Sequence[Sequence[BlendStep]], mean_size: Callable[[int, str], float]) -> list[float]:
    """Return each leaf's share of the samples of a tree of blends.

    An entry of a blend with a unit gets its weight, divided by the mean size of the samples below it.

    Args:
        leaves: For each leaf, the blends that lead to it, from the outermost.
        mean_size: Returns the mean size of a leaf's samples in a unit: ``mean_size(leaf, unit)``.

    Returns:
        The shares, which sum to 1.

    >>> steps = [[BlendStep(entry=0, amount=1.0, unit="tokens")], [BlendStep(entry=1, amount=1.0, unit="tokens")]]
    >>> sample_shares(steps, lambda leaf, unit: [100.0, 300.0][leaf])
    [0.75, 0.25]
    """
    found = _shares(list(range(len(leaves))), 0, leaves, mean_size)
    return [found[leaf] for leaf in range(len(leaves))]


def _shares(
    group: list[int], depth: int, leaves: Sequence[Sequence[BlendStep]], mean_size: Callable[[int, str], float]
) -> dict[int, float]:
    """Return the shares within one entry: the leaves of a group have the same steps up to ``depth``."""
    if len(leaves[group[0]]) == depth:
        return {group[0]: 1.0}
    entries: dict[int, list[int]] = {}
    for leaf in group:
        entries.setdefault(leaves[leaf][depth].entry, []).append(leaf)
    amounts, inner = [], []
    for members in entries.values():
        step = leaves[members[0]][depth]
        within = _shares(members, depth + 1, leaves, mean_size)
        size = 1.0
        if step.unit != SAMPLES:
            size = sum(share * mean_size(leaf, step.unit) for leaf, share in within.items())
        amounts.append(step.amount / size)
        inner.append(within)
    total = sum(amounts)
    return {
        leaf: amount / total * share
        for amount, within in zip(amounts, inner, strict=True)
        for leaf, share in within.items()
    }
