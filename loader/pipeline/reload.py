"""Items made a second time: those that waited in a buffer when the state was saved."""

from __future__ import annotations

from typing import Any

from ..errors import SkipSample
from .lane import Lane
from .randomness import kept_generators, seed_sample
from .ref import Ref
from .stage import SKIPPED, Running

__all__ = ["reload_item"]


def reload_item(source: Running, lane: Lane, ref: Ref) -> Any:
    """Make an item again without moving the random generators; :data:`SKIPPED` where that fails and is tolerated.

    Raises:
        Exception: What ``restore_error_handler`` raises for an item that fails.
    """
    with kept_generators():
        seed_sample(lane.seed, lane.number, ref)
        try:
            return source.load(ref)
        except SkipSample:
            return SKIPPED
        except Exception as error:
            lane.restore_error_handler(error, None, ref)
            return SKIPPED
