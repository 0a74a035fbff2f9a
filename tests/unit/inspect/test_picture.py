"""Reduce arrays to RGB pictures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from loader.samples.picture import array_picture

BYTES = np.random.default_rng(0).integers(0, 256, (3, 6, 5), dtype=np.uint8)  # (C, H, W)


def pixels(array: Any) -> list[list[list[int]]]:
    picture = array_picture(array)
    assert picture is not None
    found: list[list[list[int]]] = np.asarray(picture.load(100)).tolist()  # (H, W, C)
    return found


@pytest.mark.parametrize(
    "array",
    [
        torch.from_numpy(BYTES),
        torch.from_numpy(BYTES) / 255,
        torch.from_numpy(BYTES).double() / 255,
        torch.from_numpy(BYTES).half() / 255,
        BYTES.transpose(1, 2, 0) / np.float32(255),
        torch.from_numpy(BYTES).float().div(255).requires_grad_(),
    ],
)
def test_bytes_and_numbers_up_to_one_are_the_same_picture(array: Any) -> None:
    assert pixels(array) == BYTES.transpose(1, 2, 0).tolist()


def test_what_is_no_number_is_black() -> None:
    numbers = BYTES / np.float32(255)
    numbers[:, 0, 0] = np.nan
    expected = BYTES.copy()
    expected[:, 0, 0] = 0
    assert pixels(numbers) == expected.transpose(1, 2, 0).tolist()


def test_other_numbers_are_scaled_to_their_range() -> None:
    numbers = np.zeros((3, 6, 5), np.float32)  # (C, H, W)
    numbers[:, 0, 0], numbers[:, 0, 1] = -1.0, 1.0
    assert pixels(numbers)[0][:3] == [[0] * 3, [255] * 3, [127] * 3]


def test_one_channel_and_four_are_pictures_too() -> None:
    assert pixels(BYTES[:1]) == BYTES[:1].repeat(3, axis=0).transpose(1, 2, 0).tolist()
    opaque = np.concatenate([BYTES, np.full((1, 6, 5), 255, np.uint8)])
    assert pixels(opaque) == BYTES.transpose(1, 2, 0).tolist()
