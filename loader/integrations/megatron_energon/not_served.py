"""Names of megatron-energon that this library does not provide, and their alternatives."""

from __future__ import annotations

__all__ = ["not_served"]

_PLAIN_STATES = (
    "states are plain data here: save_state_rank() returns a dict, save_state_global() a list of dicts, and each of "
    "them restores; for annotations use 'dict[str, Any]'. A state that megatron-energon saved cannot be restored, "
    "since the order of samples differs: start the run from the beginning"
)
_REASONS = {
    "SavableCheckpoint": _PLAIN_STATES,
    "SavableDataLoaderState": _PLAIN_STATES,
    "SavableDatasetCheckpoint": _PLAIN_STATES,
    "SavableDatasetState": _PLAIN_STATES,
    "SliceState": _PLAIN_STATES,
}


def not_served(module: str, name: str) -> ImportError | AttributeError:
    """Return the error for a name that a module of the alias does not have.

    Returns:
        An ImportError with the reason and the alternative, for a name that megatron-energon has: Python would replace
        the message of an AttributeError in an import statement. An AttributeError for any other name.
    """
    reason = _REASONS.get(name)
    if reason is None:
        return AttributeError(f"module {module!r} has no attribute {name!r}")
    return ImportError(f"{module}.{name} is not provided on purpose: {reason}", name=module)
