"""Picture transforms of torchvision, merged into one resampling."""

from .custom import CustomTransform
from .mappers import (
    CenterCropMapper,
    RandomCropMapper,
    RandomHorizontalFlipMapper,
    RandomPerspectiveMapper,
    RandomResizedCropMapper,
    RandomRotationMapper,
    RandomVerticalFlipMapper,
    ResizeMapper,
    TransformMapper,
)
from .merge import MergeTransform

__all__ = [
    "CenterCropMapper",
    "CustomTransform",
    "MergeTransform",
    "RandomCropMapper",
    "RandomHorizontalFlipMapper",
    "RandomPerspectiveMapper",
    "RandomResizedCropMapper",
    "RandomRotationMapper",
    "RandomVerticalFlipMapper",
    "ResizeMapper",
    "TransformMapper",
]
