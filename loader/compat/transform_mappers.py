"""Transforms of torchvision as matrices. torchvision is imported only to compare a transform with its classes."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch import Tensor

TTransform = TypeVar("TTransform")
Matrix = npt.NDArray[np.float64]
Size = npt.NDArray[np.int64]

_ROUNDING = 1e-6  # pixels by which the edges of a rotated picture may be computed too far
_ATTEMPTS = 10  # of a random crop to fit into the picture, as in torchvision


class _TorchvisionClass:
    """A class attribute that imports ``torchvision.transforms`` when it is read."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type | None = None) -> type:
        try:
            from torchvision import transforms
        except ImportError as error:
            raise ImportError(
                f"torchvision.transforms.{self._name} needs torchvision: pip install torchvision", name="torchvision"
            ) from error
        transform: type = getattr(transforms, self._name)
        return transform


class TransformMapper(ABC, Generic[TTransform]):
    """A transform of pictures as a 3x3 matrix, which maps a point (x, y, 1) of the picture to a point of the result.

    Args:
        transform: The transform of torchvision with the settings.

    Attributes:
        source_type: Class of the transform.
    """

    source_type: ClassVar[Any]
    transform: TTransform

    def __init__(self, transform: TTransform) -> None:
        self.transform = transform

    def __call__(self, sample: Any) -> Any:
        """Apply the transform itself."""
        return self.transform(sample)  # type: ignore[operator]  # any transform can be called

    @abstractmethod
    def apply_transform(self, matrix: Matrix, dst_size: Size) -> tuple[Matrix, Size, Any]:
        """Draw the random settings of the transform, and apply it.

        Args:
            matrix: The transforms so far, of shape (3, 3).
            dst_size: Height and width of the picture so far.

        Returns:
            The matrix with this transform, the size of its result, and the settings that were drawn.
        """

    def fill(self) -> Any:
        """Return the value outside of the picture; None if the transform has none."""
        return None

    def interpolation(self) -> Any:
        """Return torchvision's interpolation mode; None if the transform has none."""
        return None

    @staticmethod
    def translate(x: float, y: float) -> Matrix:
        """Return the matrix of a shift."""
        return np.array([[1, 0, x], [0, 1, y], [0, 0, 1]], dtype=np.float64)

    @staticmethod
    def rotate(angle: float) -> Matrix:
        """Return the matrix of a counter-clockwise rotation about (0, 0), by an angle in radians."""
        cos, sin = math.cos(angle), math.sin(angle)
        return np.array([[cos, sin, 0], [-sin, cos, 0], [0, 0, 1]], dtype=np.float64)

    @staticmethod
    def scale(x: float, y: float) -> Matrix:
        """Return the matrix of a scaling."""
        return np.array([[x, 0, 0], [0, y, 0], [0, 0, 1]], dtype=np.float64)

    @staticmethod
    def shear(x: float, y: float) -> Matrix:
        """Return the matrix of a shear."""
        return np.array([[1, x, 0], [y, 1, 0], [0, 0, 1]], dtype=np.float64)

    @staticmethod
    def hflip() -> Matrix:
        """Return the matrix of a reflection from left to right, at x = 0."""
        return TransformMapper.scale(-1, 1)

    @staticmethod
    def vflip() -> Matrix:
        """Return the matrix of a reflection from top to bottom, at y = 0."""
        return TransformMapper.scale(1, -1)


class _TorchvisionMapper(TransformMapper[Any]):
    def fill(self) -> Any:
        return getattr(self.transform, "fill", None)

    def interpolation(self) -> Any:
        return getattr(self.transform, "interpolation", None)


class ResizeMapper(_TorchvisionMapper):
    """``Resize`` as a matrix."""

    source_type = _TorchvisionClass("Resize")

    def apply_transform(self, matrix: Matrix, dst_size: Size) -> tuple[Matrix, Size, Any]:
        height, width = map(int, dst_size)
        size = [self.transform.size] if isinstance(self.transform.size, int) else self.transform.size
        if len(size) == 1:
            ratio = size[0] / min(height, width)
            if self.transform.max_size is not None:
                ratio = min(ratio, self.transform.max_size / max(height, width))
            new_height, new_width = int(height * ratio), int(width * ratio)
        else:
            new_height, new_width = size
        scaled = self.scale(new_width / width, new_height / height) @ matrix
        return scaled, np.array([new_height, new_width]), ("Resize", size)


class RandomResizedCropMapper(_TorchvisionMapper):
    """``RandomResizedCrop`` as a matrix."""

    source_type = _TorchvisionClass("RandomResizedCrop")

    def get_params(self, size: tuple[int, int]) -> tuple[int, int, int, int]:
        """Draw a crop of a picture.

        Args:
            size: Height and width of the picture.

        Returns:
            Top, left, height and width of the crop.
        """
        # Draw area and aspect until a crop fits, as torchvision does.
        height, width = size
        low, high = self.transform.ratio
        for _ in range(_ATTEMPTS):
            area = height * width * _uniform(*self.transform.scale)
            ratio = math.exp(_uniform(math.log(low), math.log(high)))
            crop_height, crop_width = round(math.sqrt(area / ratio)), round(math.sqrt(area * ratio))
            if 0 < crop_height <= height and 0 < crop_width <= width:
                top = _randint(height - crop_height + 1)
                return top, _randint(width - crop_width + 1), crop_height, crop_width
        # Otherwise take the largest crop in the middle whose aspect is allowed.
        crop_height, crop_width = height, width
        if width / height < low:
            crop_height = round(width / low)
        elif width / height > high:
            crop_width = round(height * high)
        return (height - crop_height) // 2, (width - crop_width) // 2, crop_height, crop_width

    def apply_transform(self, matrix: Matrix, dst_size: Size) -> tuple[Matrix, Size, Any]:
        top, left, height, width = self.get_params((int(dst_size[0]), int(dst_size[1])))
        new_height, new_width = _pair(self.transform.size)
        cropped = self.scale(new_width / width, new_height / height) @ self.translate(-left, -top) @ matrix
        return cropped, np.array([new_height, new_width]), ("RandomResizedCrop", (top, left, height, width))


class CenterCropMapper(_TorchvisionMapper):
    """``CenterCrop`` as a matrix."""

    source_type = _TorchvisionClass("CenterCrop")

    def apply_transform(self, matrix: Matrix, dst_size: Size) -> tuple[Matrix, Size, Any]:
        height, width = _pair(self.transform.size)
        top, left = round((height - int(dst_size[0])) / 2), round((width - int(dst_size[1])) / 2)
        return (
            self.translate(left, top) @ matrix,
            np.array([height, width]),
            ("CenterCrop", (top, left, height, width)),
        )


class RandomCropMapper(_TorchvisionMapper):
    """``RandomCrop`` as a matrix."""

    source_type = _TorchvisionClass("RandomCrop")

    def apply_transform(self, matrix: Matrix, dst_size: Size) -> tuple[Matrix, Size, Any]:
        # Pad first; the picture may need more to reach the size of the crop.
        left, top, right, bottom = _padding(self.transform.padding)
        padded_height, padded_width = int(dst_size[0]) + top + bottom, int(dst_size[1]) + left + right
        height, width = _pair(self.transform.size)
        if self.transform.pad_if_needed:
            more_x, more_y = max(width - padded_width, 0), max(height - padded_height, 0)
            left, top = left + more_x, top + more_y
            padded_width, padded_height = padded_width + 2 * more_x, padded_height + 2 * more_y
        if height > padded_height or width > padded_width:
            raise ValueError(
                f"a crop of {(height, width)} does not fit into a picture of {(padded_height, padded_width)}"
            )
        y = _randint(padded_height - height + 1)
        x = _randint(padded_width - width + 1)
        cropped = self.translate(left - x, top - y) @ matrix
        return cropped, np.array([height, width]), ("RandomCrop", (x, y, height, width))


class RandomHorizontalFlipMapper(_TorchvisionMapper):
    """``RandomHorizontalFlip`` as a matrix."""

    source_type = _TorchvisionClass("RandomHorizontalFlip")

    def apply_transform(self, matrix: Matrix, dst_size: Size) -> tuple[Matrix, Size, Any]:
        flips = _happens(self.transform.p)
        if flips:
            matrix = self.translate(float(dst_size[1]), 0) @ self.hflip() @ matrix
        return matrix, dst_size, ("RandomHorizontalFlip", flips)


class RandomVerticalFlipMapper(_TorchvisionMapper):
    """``RandomVerticalFlip`` as a matrix."""

    source_type = _TorchvisionClass("RandomVerticalFlip")

    def apply_transform(self, matrix: Matrix, dst_size: Size) -> tuple[Matrix, Size, Any]:
        flips = _happens(self.transform.p)
        if flips:
            matrix = self.translate(0, float(dst_size[0])) @ self.vflip() @ matrix
        return matrix, dst_size, ("RandomVerticalFlip", flips)


class RandomRotationMapper(_TorchvisionMapper):
    """``RandomRotation`` about the centre as a matrix.

    Raises:
        ValueError: The transform rotates about another point.
    """

    source_type = _TorchvisionClass("RandomRotation")

    def __init__(self, transform: Any) -> None:
        if transform.center is not None:
            raise ValueError(f"expected a rotation about the centre, found center={transform.center}")
        super().__init__(transform)

    def apply_transform(self, matrix: Matrix, dst_size: Size) -> tuple[Matrix, Size, Any]:
        degrees = _uniform(*self.transform.degrees)
        height, width = map(int, dst_size)
        rotation = self.rotate(math.radians(degrees))
        new_height, new_width = height, width
        if self.transform.expand:
            halves = np.abs(rotation[:2, :2]) @ (width / 2, height / 2)
            new_width, new_height = (
                math.ceil(middle + half - _ROUNDING) - math.floor(middle - half + _ROUNDING)
                for middle, half in zip((width / 2, height / 2), halves, strict=True)
            )
        centred = rotation @ self.translate(-width / 2, -height / 2) @ matrix
        rotated = self.translate(new_width / 2, new_height / 2) @ centred
        return rotated, np.array([new_height, new_width]), ("RandomRotation", degrees)


class RandomPerspectiveMapper(_TorchvisionMapper):
    """``RandomPerspective`` as a matrix."""

    source_type = _TorchvisionClass("RandomPerspective")

    @staticmethod
    def compute_homography(
        startpoints: Sequence[Sequence[float]], endpoints: Sequence[Sequence[float]]
    ) -> npt.NDArray[np.float64]:
        """Return the matrix that maps each end point (x, y) to its start point; there are four of each."""
        rows: list[list[float]] = []
        for (x, y), (u, v) in zip(startpoints, endpoints, strict=True):
            rows.append([u, v, 1, 0, 0, 0, -x * u, -x * v])
            rows.append([0, 0, 0, u, v, 1, -y * u, -y * v])
        values = np.array([value for point in startpoints for value in point], dtype=np.float64)
        solution, *_ = np.linalg.lstsq(np.array(rows, dtype=np.float64), values, rcond=None)
        return np.append(solution, 1.0).reshape(3, 3)

    def apply_transform(self, matrix: Matrix, dst_size: Size) -> tuple[Matrix, Size, Any]:
        if not _happens(self.transform.p):
            return matrix, dst_size, ("RandomPerspective", None, None)
        height, width = map(int, dst_size)
        start, end = self.transform.get_params(width, height, self.transform.distortion_scale)
        return self.compute_homography(end, start) @ matrix, dst_size, ("RandomPerspective", start, end)


def _uniform(low: float, high: float) -> float:
    return float(torch.empty(1).uniform_(float(low), float(high)))


def _randint(end: int) -> int:
    return int(torch.randint(0, end, (1,)))


def _happens(probability: float) -> bool:
    return bool(torch.rand(1) < probability)


def _pair(size: Any) -> tuple[int, int]:
    """Return height and width of a size in torchvision's forms."""
    if isinstance(size, int):
        return size, size
    return (int(size[0]), int(size[-1]))


def _padding(padding: Any) -> tuple[int, int, int, int]:
    """Return the padding of the four sides, left first, of torchvision's forms."""
    if padding is None:
        return 0, 0, 0, 0
    sides = [padding] if isinstance(padding, int) else list(padding)
    if len(sides) == 4:
        return sides[0], sides[1], sides[2], sides[3]
    return sides[0], sides[-1], sides[0], sides[-1]


class CustomTransform(TransformMapper[TTransform], ABC):
    """A transform of one's own for :class:`MergeTransform`: override ``apply_transform``."""


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
    given = [value for value in values if value is not None]
    if any(value != given[0] for value in given):
        raise ValueError(f"transforms have different {what}, but the merged one has one: {given}")
    return given[0] if given else default
