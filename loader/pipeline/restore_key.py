"""``__restore_key__``: what makes an item again in another process, on another day."""

from __future__ import annotations

from typing import Any

from .lane import Lane
from .ref import Ref

__all__ = ["stamp"]


def stamp(value: Any, stage: str, lane: Lane, ref: Ref) -> None:
    """Note on an item which stage made it of what: ``(stage, lane, micro-batch, ref)``.

    Only what has a ``__restore_key__`` is noted on: samples, batches and dicts that bear one.
    """
    if type(value) is list:
        return  # which most batches without a class of their own are
    if isinstance(value, dict):
        if "__restore_key__" in value:
            value["__restore_key__"] = (stage, lane.number, lane.context.batch_index, ref)
    elif hasattr(value, "__restore_key__"):
        key = (stage, lane.number, lane.context.batch_index, ref)
        try:
            value.__restore_key__ = key
        except AttributeError:  # a frozen dataclass, whose own __init__ does it so, too
            object.__setattr__(value, "__restore_key__", key)
