"""Decode the JPEGs of a batch on a GPU, by the package that is installed: nvImageCodec or torchvision.

Their pixels differ a little from those of libjpeg-turbo, which decodes on the CPU: by the rounding of the inverse
cosine transform, and, with torchvision, by the interpolation of colours that are stored at half the resolution.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol

import numpy as np
import torch
from torch.utils.dlpack import from_dlpack

from ...errors import ConfigError


class JpegDecoder(Protocol):
    """Decoder of the JPEGs of a batch."""

    def __call__(self, images: Sequence[bytes]) -> tuple[list[torch.Tensor | None], Any]:
        """Decode JPEGs in the current stream of the device.

        Args:
            images: Their bytes.

        Returns:
            uint8 tensors of shape (3, H, W) on the device, contiguous or views of (H, W, 3), None for images that it
            cannot decode; and what has to be kept until the stream is done.
        """


def jpeg_decoder(device: torch.device) -> JpegDecoder:
    """Return a decoder for a device.

    Raises:
        ConfigError: No package that decodes JPEGs on GPUs is installed.
    """
    if is_installed("nvidia.nvimgcodec"):
        return NvImageCodecDecoder(device)
    if is_installed("torchvision"):
        return TorchvisionDecoder(device)
    raise ConfigError(
        "image_decode_device='cuda' needs a package that decodes JPEGs on a GPU, and none is installed",
        hint="pip install nvidia-nvimgcodec-cu13 nvidia-nvjpeg (for CUDA 12 nvidia-nvimgcodec-cu12 "
        "nvidia-nvjpeg-cu12), or torchvision; or decode in the workers: image_decode_device='cpu'",
    )


def is_installed(package: str) -> bool:
    """Return True if a package, which may be part of another one, can be imported."""
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:
        return False


class NvImageCodecDecoder:
    """Decoder of NVIDIA's nvImageCodec, which interpolates colours as libjpeg-turbo does.

    Args:
        device: A GPU; for the CPU, nvImageCodec's own libjpeg-turbo decodes.
    """

    def __init__(self, device: torch.device) -> None:
        nvimgcodec: Any = import_module("nvidia.nvimgcodec")
        self._device = device
        self._codec = nvimgcodec
        options: dict[str, Any] = {"options": ":fancy_upsampling=1"}
        if device.type == "cpu":
            options |= {"device_id": _CPU_ONLY, "backends": [nvimgcodec.Backend(nvimgcodec.BackendKind.CPU_ONLY)]}
        else:
            options["device_id"] = device.index if ":" in str(device) else torch.cuda.current_device()
        self._decoder = nvimgcodec.Decoder(**options)
        self._params = nvimgcodec.DecodeParams(apply_exif_orientation=False)

    def __call__(self, images: Sequence[bytes]) -> tuple[list[torch.Tensor | None], Any]:
        stream = 0 if self._device.type == "cpu" else torch.cuda.current_stream(self._device).cuda_stream
        streams = [self._codec.CodeStream(image) for image in images]
        decoded = self._decoder.decode(streams, params=self._params, cuda_stream=stream)
        return [None if image is None else self._pixels(image).permute(2, 0, 1) for image in decoded], decoded

    def _pixels(self, image: Any) -> torch.Tensor:
        """Return the codec's own memory, (H, W, 3)."""
        if self._device.type == "cpu":
            return torch.from_numpy(np.asarray(image))
        return from_dlpack(image)


_CPU_ONLY = -99999  # nvImageCodec's number of no GPU


class TorchvisionDecoder:
    """Decoder of torchvision.

    Args:
        device: A GPU, or the CPU.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def __call__(self, images: Sequence[bytes]) -> tuple[list[torch.Tensor | None], Any]:
        data = [torch.frombuffer(bytearray(image), dtype=torch.uint8) for image in images]
        try:
            return [*self._decode(data)], None
        except RuntimeError:  # it returns nothing if one image is damaged
            return [self._decode_one(image) for image in data], None

    def _decode_one(self, image: torch.Tensor) -> torch.Tensor | None:
        try:
            (decoded,) = self._decode([image])
        except torch.cuda.OutOfMemoryError:
            raise
        except RuntimeError:
            return None
        return decoded

    def _decode(self, images: list[torch.Tensor]) -> list[torch.Tensor]:
        from torchvision.io import ImageReadMode, decode_jpeg

        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*deprecated.*")  # in favour of TorchCodec, since version 0.29
            decoded: list[torch.Tensor] = decode_jpeg(images, mode=ImageReadMode.RGB, device=self._device)
        return decoded
