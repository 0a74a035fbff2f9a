"""Continue runs of earlier versions, which divided the weights of a blend by the measured sizes of samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from math import isfinite
from typing import Any

from ...pipeline.contract.stage import SavableDataset
from ...pipeline.reading.read import ReadDataset


def measured_chain_of(chain: SavableDataset[Any], saved: Any) -> SavableDataset[Any]:
    """Return the chain that continues a state: for measured weights, the one with the weights of the state.

    Args:
        chain: The chain as the program built it.
        saved: The description of the chain in the state.
    """
    weights = next(_measured_weights(saved), None)
    return chain if weights is None else _replaced(chain, weights)


def _measured_weights(identity: Any) -> Iterator[Any]:
    """Yield the weights of readers with measured ones, in the description of a chain."""
    if isinstance(identity, list | tuple) and len(identity) > 1:
        if identity[0] == "read" and isinstance(identity[1], Mapping):
            if identity[1].get("measured"):
                yield identity[1].get("weights")
            return
        for part in identity:
            yield from _measured_weights(part)


def _replaced(chain: SavableDataset[Any], weights: Any) -> SavableDataset[Any]:
    if chain.measured_chain is not None:
        return _with_weights(chain.measured_chain, weights)
    if len(chain.inputs) != 1:
        return chain
    below = _replaced(chain.inputs[0], weights)
    if below is chain.inputs[0]:
        return chain
    return _above(chain, below)


def _with_weights(chain: SavableDataset[Any], weights: Any) -> SavableDataset[Any]:
    if isinstance(chain, ReadDataset):
        found = list(weights) if isinstance(weights, list | tuple) else [weights] * len(chain.sources)
        known = len(found) == len(chain.sources) and all(
            isinstance(one, int | float) and isfinite(one) and one > 0 for one in found
        )
        return chain.with_weights([float(one) for one in found]) if known else chain
    return _above(chain, _with_weights(chain.inputs[0], weights))


def _above(chain: SavableDataset[Any], below: SavableDataset[Any]) -> SavableDataset[Any]:
    copied = copy(chain)
    copied.inputs = (below,)
    return copied
