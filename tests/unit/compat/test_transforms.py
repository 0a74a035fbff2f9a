"""Merged transforms of pictures. Small classes with torchvision's names and settings replace torchvision itself."""

from __future__ import annotations

import enum
import math
import sys
import types
from typing import Any

import numpy as np
import pytest
import torch
from megatron.energon.transforms import CustomTransform, MergeTransform, ResizeMapper
from megatron.energon.transforms.mappers import RandomPerspectiveMapper, RandomResizedCropMapper
from PIL import Image


class Mode(enum.Enum):
    """Interpolation modes, with torchvision's values."""

    NEAREST = "nearest"
    BILINEAR = "bilinear"


def settings(name: str, **defaults: Any) -> type:
    """Return a class that keeps its settings, as torchvision's transforms do."""

    def initialize(self: Any, **given: Any) -> None:
        torch.nn.Module.__init__(self)
        vars(self).update({**defaults, **given})

    return type(name, (torch.nn.Module,), {"__init__": initialize})


CLASSES = {
    "Resize": settings("Resize", interpolation=Mode.BILINEAR, max_size=None),
    "RandomResizedCrop": settings(
        "RandomResizedCrop", interpolation=Mode.BILINEAR, scale=(0.08, 1.0), ratio=(3 / 4, 4 / 3)
    ),
    "CenterCrop": settings("CenterCrop"),
    "RandomCrop": settings("RandomCrop", padding=None, pad_if_needed=False, fill=0),
    "RandomHorizontalFlip": settings("RandomHorizontalFlip", p=0.5),
    "RandomVerticalFlip": settings("RandomVerticalFlip", p=0.5),
    "RandomRotation": settings("RandomRotation", interpolation=Mode.NEAREST, expand=False, center=None, fill=0),
    "RandomPerspective": settings("RandomPerspective", interpolation=Mode.BILINEAR, p=1.0, fill=0),
}


@pytest.fixture
def torchvision(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    package, module = types.ModuleType("torchvision"), types.ModuleType("torchvision.transforms")
    vars(module).update(CLASSES)
    package.transforms = module  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torchvision", package)
    monkeypatch.setitem(sys.modules, "torchvision.transforms", module)
    return module


def picture(height: int = 60, width: int = 100) -> Image.Image:
    """Return a picture whose value at (x, y) is 2 y + x."""
    values = np.add.outer(np.arange(height) * 2, np.arange(width)).astype(np.uint8)
    return Image.fromarray(values).convert("RGB")


def values(result: Any) -> Any:
    """Return the first channel."""
    return np.asarray(result)[..., 0] if isinstance(result, Image.Image) else result[0].numpy()


def tensor(height: int = 60, width: int = 100) -> torch.Tensor:
    return torch.from_numpy(np.array(picture(height, width))).permute(2, 0, 1)


def test_pictures_and_tensors_are_transformed_alike(torchvision: Any) -> None:
    merged = MergeTransform([torchvision.Resize(size=(30, 50)), torchvision.RandomHorizontalFlip(p=1.0)])
    result = merged(picture())
    assert (result.size, values(result)[0, :3].tolist()) == ((50, 30), [99, 97, 95])
    for image in (tensor(), tensor().float()):
        found = merged(image)
        assert (found.shape, found.dtype) == ((3, 30, 50), image.dtype)
        assert np.abs(values(found).astype(float) - values(result)).max() <= 1


@pytest.mark.parametrize(
    ("name", "options", "size", "first_row"),
    [
        ("CenterCrop", {"size": (20, 30)}, (30, 20), [75, 76, 77]),
        ("CenterCrop", {"size": 64}, (64, 64), [0, 0, 0]),
        ("RandomVerticalFlip", {"p": 1.0}, (100, 60), [118, 119, 120]),
        ("RandomHorizontalFlip", {"p": 0.0}, (100, 60), [0, 1, 2]),
        ("RandomRotation", {"degrees": (180, 180)}, (100, 60), [217, 216, 215]),
        ("RandomRotation", {"degrees": (90, 90), "expand": True}, (60, 100), [99, 101, 103]),
        ("RandomCrop", {"size": (60, 100), "padding": 0}, (100, 60), [0, 1, 2]),
        ("Resize", {"size": 30, "max_size": 40, "interpolation": Mode.NEAREST}, (40, 24), [3, 5, 8]),
    ],
)
def test_each_transform(torchvision: Any, name: str, options: dict[str, Any], size: Any, first_row: Any) -> None:
    result = MergeTransform([getattr(torchvision, name)(**options)])(picture())
    assert (result.size, values(result)[0, :3].tolist()) == (size, first_row)


@pytest.mark.parametrize(
    ("width", "height", "degrees", "size"),
    [(38, 21, -178.8, (40, 23)), (40, 23, -176.4, (42, 27)), (37, 20, -180.0, (37, 20))],
)
def test_an_expanded_rotation_has_the_canvas_of_torchvision(
    torchvision: Any, width: int, height: int, degrees: float, size: Any
) -> None:
    rotation = torchvision.RandomRotation(degrees=(degrees, degrees), expand=True)
    assert MergeTransform([rotation])(Image.new("RGB", (width, height))).size == size


def test_random_crops_are_parts_of_the_picture(torchvision: Any) -> None:
    torch.manual_seed(0)
    merged = MergeTransform([torchvision.RandomCrop(size=(20, 30))])
    corners = {int(values(merged(picture()))[0, 0]) for _ in range(30)}
    assert len(corners) > 10
    padded = MergeTransform([torchvision.RandomCrop(size=(80, 30), pad_if_needed=True, fill=200)])
    assert {int(values(padded(picture()))[0, 0]) for _ in range(30)} >= {200}
    with pytest.raises(ValueError, match="does not fit"):
        MergeTransform([torchvision.RandomCrop(size=(80, 30))])(picture())


def test_random_resized_crops_fit(torchvision: Any) -> None:
    mapper = RandomResizedCropMapper(torchvision.RandomResizedCrop(size=(20, 30)))
    torch.manual_seed(0)
    crops = [mapper.get_params((60, 100)) for _ in range(200)]
    assert crops[0] == (5, 0, 53, 61)  # as torchvision draws it
    assert all(0 <= top <= 60 - height and 0 <= left <= 100 - width for top, left, height, width in crops)
    assert all(0.7 < width / height < 1.4 for _, _, height, width in crops if height > 20)
    assert mapper.get_params((1000, 10)) == (493, 0, 13, 10)
    assert MergeTransform([mapper.transform])(picture()).size == (30, 20)


def test_a_perspective_maps_the_corners(torchvision: Any) -> None:
    start, end = [(0, 0), (99, 0), (99, 59), (0, 59)], [(5, 3), (90, 2), (95, 50), (1, 55)]
    matrix = RandomPerspectiveMapper.compute_homography(start, end)
    for (x, y), (u, v) in zip(start, end, strict=True):
        place = matrix @ [u, v, 1]
        assert (place / place[2])[:2] == pytest.approx((x, y), abs=1e-6)
    transform = torchvision.RandomPerspective(distortion_scale=0.5, fill=7)
    transform.get_params = lambda width, height, scale: (start, end)
    result = values(MergeTransform([transform])(picture()))
    assert (result.shape, result[0, 0], result[3, 5]) == ((60, 100), 7, pytest.approx(0, abs=3))
    assert np.abs(values(MergeTransform([transform])(tensor())).astype(int) - result)[10:40, 20:80].max() <= 1


def test_own_transforms_need_no_torchvision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchvision", None)

    class Shift(CustomTransform[None]):  # type: ignore[misc]  # not followed by mypy
        def __init__(self, distance: int) -> None:
            super().__init__(None)
            self.distance = distance

        def apply_transform(self, matrix: Any, dst_size: Any) -> Any:
            return self.translate(self.distance, 0) @ matrix, dst_size, ("Shift", self.distance)

    merged = MergeTransform([Shift(2), Shift(1)])
    assert values(merged(picture()))[0, :6].tolist() == [0, 0, 0, 0, 1, 2]
    with pytest.raises(ImportError, match="pip install torchvision"):
        MergeTransform([torch.nn.ReLU()])


def test_what_cannot_be_merged_is_refused(torchvision: Any) -> None:
    with pytest.raises(ValueError, match="ReLU cannot be merged; expected one of Resize"):
        MergeTransform([torch.nn.ReLU()])
    with pytest.raises(ValueError, match="different interpolations"):
        MergeTransform([torchvision.Resize(size=9), torchvision.RandomRotation(degrees=(0, 0))])
    with pytest.raises(ValueError, match="about the centre"):
        MergeTransform([torchvision.RandomRotation(degrees=(0, 0), center=(0, 0))])
    merged = MergeTransform([torchvision.CenterCrop(size=9)])
    with pytest.raises(TypeError, match="ndarray"):
        merged(np.zeros((3, 9, 9)))
    with pytest.raises(ValueError, match=r"\(1, 3, 9, 9\)"):
        merged(torch.zeros(1, 3, 9, 9))


def test_matrices() -> None:
    turned = ResizeMapper.rotate(math.pi / 2) @ [1, 0, 1]
    assert turned == pytest.approx([0, -1, 1])
    assert (ResizeMapper.shear(0.5, 0) @ [0, 2, 1]).tolist() == [1, 2, 1]
