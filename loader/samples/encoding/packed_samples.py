"""The result of ``select_samples_to_pack`` that returns some samples to the buffer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PackedSamplesOutput(Generic[T]):
    """Groups of samples to pack, and samples that return to the packing buffer.

    Samples in neither are dropped, as with a plain list of groups.

    Args:
        groups: The groups; each becomes one packed sample.
        pushback: Samples that come first in the buffer when it is filled again. At least one sample of a full buffer
            must leave it. In the last buffers of a pass, which get no new samples, pushed-back samples come again as
            long as each selection takes some of them.
    """

    groups: Iterable[Iterable[T]]
    pushback: Iterable[T] = ()
