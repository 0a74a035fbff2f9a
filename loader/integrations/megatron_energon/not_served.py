"""Names of megatron-energon that stand for nothing here, and what to use instead."""

from __future__ import annotations

__all__ = ["not_served"]

_PLAIN_STATES = (
    "states are plain data here: save_state_rank() gives a dict, save_state_global() a list of them, and any such dict "
    "or list restores; for annotations use 'dict[str, Any]'. A state that megatron-energon saved cannot be restored, "
    "since the order of samples is another one: begin its run anew"
)
_SEEDED_BATCHES = (
    "Python's, numpy's and torch's generators are seeded for each micro-batch, so none of their states is kept; "
    "draw from them in hooks as usual"
)
_REASONS = {
    "FlexState": _PLAIN_STATES,
    "SavableCheckpoint": _PLAIN_STATES,
    "SavableDataLoaderState": _PLAIN_STATES,
    "SavableDatasetCheckpoint": _PLAIN_STATES,
    "SavableDatasetState": _PLAIN_STATES,
    "SliceState": _PLAIN_STATES,
    "SystemRng": _SEEDED_BATCHES,
    "SystemRngState": _SEEDED_BATCHES,
    "WorkerRng": _SEEDED_BATCHES,
}


def not_served(module: str, name: str) -> ImportError | AttributeError:
    """Make the error for a name that a module of the alias does not have.

    Returns:
        An ImportError that says why and what to do, for a name that megatron-energon has there: Python would put its
        own words in the place of an AttributeError's where the name is imported. An AttributeError for any other name.
    """
    reason = _REASONS.get(name)
    if reason is None:
        return AttributeError(f"module {module!r} has no attribute {name!r}")
    return ImportError(f"{module}.{name} is not there on purpose: {reason}", name=module)
