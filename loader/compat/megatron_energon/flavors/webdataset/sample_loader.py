from dataclasses import dataclass

__all__ = ["SliceState"]


@dataclass(slots=True, kw_only=True)
class SliceState:
    """A position in a slice of a shard, as megatron-energon saves it. States of this library are plain data."""

    index: int
    current: int
