from abc import ABC

from .mappers import TransformMapper, TTransform

__all__ = ["CustomTransform"]


class CustomTransform(TransformMapper[TTransform], ABC):
    """A transform of one's own for :class:`MergeTransform`: override ``apply_transform``."""
