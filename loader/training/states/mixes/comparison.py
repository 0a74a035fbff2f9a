"""Check that a state is of the same chain and data as a run."""

from __future__ import annotations

from typing import Any

from ....errors import StateError
from ....escaped_log import get_logger
from .differences import chain_differences, chain_outline

_log = get_logger(__name__)
_MAX_SHOWN = 8
_MAX_LINE = 2000  # characters


def compare_datasets(saved: Any, now: Any) -> None:
    """Check that a state is of the same chain and data.

    Args:
        saved: The description in the state.
        now: The description of the present chain.

    Raises:
        StateError: They differ; the message lists the differences.
    """
    before, after = chain_outline(saved), chain_outline(now)
    if before != after and before == chain_outline(older := _without_unpacked_hooks(now)):
        _log.warning("this state was saved without the hooks of %s; they are called from here on", after)
        now = older
    found = chain_differences(saved, now)
    if found:
        lines = [str(one)[:_MAX_LINE] for one in found[:_MAX_SHOWN]]
        if len(found) > _MAX_SHOWN:
            lines.append(f"… and {len(found) - _MAX_SHOWN} more (energon diff lists all)")
        raise StateError(
            "the state is of another dataset or pipeline:\n  " + "\n  ".join(lines),
            hint="build the dataset with the data and arguments of the run that was saved, or start a new run",
        )


def _without_unpacked_hooks(identity: Any) -> Any:
    """Return a chain's description as earlier versions saved it: they called these hooks only with packing."""
    if not (isinstance(identity, list | tuple) and identity and isinstance(identity[0], str)):
        return identity
    if identity[0] == "select_samples_to_pack":
        return identity
    inputs = [_without_unpacked_hooks(source) for source in identity[2:]]
    return inputs[0] if identity[0] in ("preencode_sample", "postencode_sample") else [*identity[:2], *inputs]
