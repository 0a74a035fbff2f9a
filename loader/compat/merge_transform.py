"""Several transforms of pictures as one, so that the picture is resampled once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch import Tensor

from .transform_mappers import (
    CenterCropMapper,
    CustomTransform,
    RandomCropMapper,
    RandomHorizontalFlipMapper,
    RandomPerspectiveMapper,
    RandomResizedCropMapper,
    RandomRotationMapper,
    RandomVerticalFlipMapper,
    ResizeMapper,
    TransformMapper,
)

_MAPPERS: tuple[type[TransformMapper[Any]], ...] = (
    ResizeMapper,
    RandomResizedCropMapper,
    CenterCropMapper,
    RandomCropMapper,
    RandomHorizontalFlipMapper,
    RandomVerticalFlipMapper,
    RandomRotationMapper,
    RandomPerspectiveMapper,
)
_PIL = {
    "nearest": Image.Resampling.NEAREST,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
}


class MergeTransform(torch.nn.Module):
    """Geometric transforms of torchvision merged into one, which resamples the picture once.

    The picture is sampled at points, without the filter against aliasing that ``Resize`` has.

    Args:
        transforms: Transforms of torchvision (Resize, crops, flips, RandomRotation, RandomPerspective), or objects of
            classes derived from :class:`CustomTransform`.

    Raises:
        ValueError: A transform is not supported; or transforms have different interpolations or fill values.
        ImportError: torchvision is not installed, and not all transforms are derived from :class:`CustomTransform`.
    """

    transforms: list[TransformMapper[Any]]

    def __init__(self, transforms: Sequence[Any]) -> None:
        super().__init__()
        self.transforms = [_mapper_of(transform) for transform in transforms]
        self._fill = _common("fill values", (mapper.fill() for mapper in self.transforms), default=0)
        interpolations = (mapper.interpolation() for mapper in self.transforms)
        mode = _common("interpolations", interpolations, default="nearest")
        self._mode: str = getattr(mode, "value", mode)
        if self._mode not in _PIL:
            raise ValueError(f"expected one of the interpolations {sorted(_PIL)}, found {self._mode!r}")

    def forward(self, x: Any) -> Any:
        """Transform a picture of PIL, or a tensor (channels, height, width)."""
        if not isinstance(x, Image.Image | Tensor):
            raise TypeError(f"expected a picture of PIL or a tensor, found {type(x).__name__}")
        if isinstance(x, Tensor) and x.dim() != 3:
            raise ValueError(f"expected a tensor (channels, height, width), found one of shape {tuple(x.shape)}")
        size = np.array([x.height, x.width] if isinstance(x, Image.Image) else x.shape[-2:])
        matrix: npt.NDArray[np.float64] = np.eye(3)
        for mapper in self.transforms:
            matrix, size, _ = mapper.apply_transform(matrix, size)
        inverse = np.asarray(np.linalg.inv(matrix), dtype=np.float64)
        height, width = int(size[0]), int(size[1])
        if isinstance(x, Image.Image):
            return self._transform_picture(x, inverse, (width, height))
        return self._transform_tensor(x, inverse, (width, height))

    def _transform_picture(
        self, picture: Image.Image, inverse: npt.NDArray[np.float64], size: tuple[int, int]
    ) -> Image.Image:
        values = (inverse / inverse[2, 2]).flatten()
        is_affine = np.allclose(values[6:8], 0)
        method = Image.Transform.AFFINE if is_affine else Image.Transform.PERSPECTIVE
        fill = self._fill
        if isinstance(fill, int | float):
            fill = (int(fill),) * len(picture.getbands())
        return picture.transform(
            size,
            method,
            tuple(values[: 6 if is_affine else 8].tolist()),
            resample=_PIL[self._mode],
            fillcolor=tuple(fill) if len(fill) > 1 else fill[0],
        )

    def _transform_tensor(self, picture: Tensor, inverse: npt.NDArray[np.float64], size: tuple[int, int]) -> Tensor:
        width, height = size
        y, x = torch.meshgrid(torch.arange(height) + 0.5, torch.arange(width) + 0.5, indexing="ij")
        places = torch.stack([x, y, torch.ones_like(x)], dim=-1).double() @ torch.from_numpy(inverse.T.copy())
        extent = torch.tensor([picture.shape[-1], picture.shape[-2]], dtype=torch.float64)
        grid = places[..., :2] / places[..., 2:] / extent * 2 - 1
        values = picture if picture.is_floating_point() else picture.float()
        covered = torch.ones_like(values[:1])
        stacked = torch.cat([values, covered])[None]
        sampled = torch.nn.functional.grid_sample(
            stacked, grid[None].to(stacked), mode=self._mode, padding_mode="zeros", align_corners=False
        )[0]
        fill = torch.as_tensor(self._fill, dtype=values.dtype).reshape(-1, 1, 1)
        result = sampled[:-1] + fill * (1 - sampled[-1:])
        return result if picture.is_floating_point() else result.round().to(picture.dtype)


def _mapper_of(transform: Any) -> TransformMapper[Any]:
    if isinstance(transform, TransformMapper):
        return transform
    for mapper in _MAPPERS:
        if isinstance(transform, mapper.source_type):
            return mapper(transform)
    names = ", ".join(mapper.__name__.removesuffix("Mapper") for mapper in _MAPPERS)
    raise ValueError(
        f"{type(transform).__name__} cannot be merged; expected one of {names}, or a {CustomTransform.__name__}"
    )


def _common(what: str, values: Iterator[Any], *, default: Any) -> Any:
    """Return the only value that is not None."""
    found = [value for value in values if value is not None]
    if any(value != found[0] for value in found):
        raise ValueError(f"transforms have different {what}, but the merged one has one: {found}")
    return found[0] if found else default
