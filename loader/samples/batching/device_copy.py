"""Copy whole micro-batches to a device, by a stream of their own."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from ...errors import ConfigError, SampleError
from ...escaped_log import get_logger
from ...lazy_torch import torch
from ..decoding.image_decode import EncodedImage
from ..sample_dataclass import PLAIN, field_names, map_values
from .collate import pad_stack


@dataclass(frozen=True, slots=True)
class PendingCopy:
    """A micro-batch whose copy was started."""

    batch: Any  # the copy
    event: Any = None  # recorded after the copy in its stream; None if the copy is done


class DeviceCopies:
    """Copies of micro-batches to a device.

    To a CUDA device, tensors are copied from page-locked memory by a side stream, so that the copies overlap with
    computations, and the JPEGs of a micro-batch are decoded there together. To the CPU nothing is copied. To other
    devices torch copies in its own way. There, images are decoded on the CPU.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream: Any = None
        self._decoder: Any = None
        self._kept: deque[tuple[Any, ...]] = deque()  # events, and what their streams read

    def start(self, batch: Any) -> PendingCopy:
        # Only CUDA copies in the background; other devices copy at once.
        if self._device.type == "cpu":
            return PendingCopy(decode_images(batch, self._device, None)[0])
        if self._device.type != "cuda":
            if self._stream is None:
                self._check(lambda: torch.empty(0, device=self._device))
                self._stream = "that of torch"
            return PendingCopy(self._moved(decode_images(batch, self._device, None)[0]))
        if self._stream is None:
            self._stream = self._check(lambda: torch.cuda.Stream(self._device))  # type: ignore[no-untyped-call]
        # Copy in a stream of its own, so that the training step runs meanwhile.
        with torch.cuda.stream(self._stream):
            decoded, kept = decode_images(batch, self._device, self._jpeg_decoder)
            moved = self._moved(decoded)
            event = self._stream.record_event()
        # Memory must not be freed before the copy has read it: keep each batch until then.
        while self._kept and self._kept[0][0].query():
            self._kept.popleft()
        self._kept.append((event, batch, kept))
        return PendingCopy(moved, event)

    def _check(self, use: Callable[[], Any]) -> Any:
        try:
            return use()
        except (RuntimeError, NotImplementedError) as error:
            cause = str(error).partition("\n")[0]
            raise ConfigError(
                f"cannot copy micro-batches to the device {str(self._device)!r}: {cause}",
                hint="this machine has no such device, or torch was installed without it; pass to_device('cpu'), or "
                "see what torch.cuda.is_available() says",
            ) from error

    def _jpeg_decoder(self) -> Any:
        if self._decoder is None:
            self._decoder = jpeg_decoder(self._device)
        return self._decoder

    def finish(self, pending: PendingCopy) -> Any:
        """Return the copy, which the current stream of the device may use from now on."""
        if pending.event is not None:
            current = torch.cuda.current_stream(self._device)
            current.wait_event(pending.event)
            for tensor in _tensors(pending.batch):
                if tensor.is_cuda:
                    # Its memory belongs to the side stream, which must not use it again before this one is done.
                    tensor.record_stream(current)
        return pending.batch

    def _moved(self, batch: Any) -> Any:
        done: dict[int, Any] = {}  # a tensor that comes twice is copied once

        def move(value: Any) -> Any:
            if not isinstance(value, torch.Tensor):
                return self._copy(value)
            if id(value) not in done:
                done[id(value)] = self._copy(value)
            return done[id(value)]

        return map_values(batch, move)

    def _copy(self, value: Any) -> Any:
        if isinstance(value, torch.nn.utils.rnn.PackedSequence):
            return value.to(self._device, non_blocking=True)  # type: ignore[arg-type] # torch's annotation lacks devices
        if not isinstance(value, torch.Tensor):
            return value
        if self._device.type == "cuda" and value.device.type == "cpu" and not value.is_pinned():
            value = value.pin_memory()  # the host would wait for a copy from other memory
        return value.to(self._device, non_blocking=True)


def _tensors(batch: Any) -> Iterator[Any]:
    tensors: list[Any] = []

    def note(value: Any) -> Any:
        if isinstance(value, torch.nn.utils.rnn.PackedSequence):
            tensors.append(value.data)
        elif isinstance(value, torch.Tensor):
            tensors.append(value)
        return value

    map_values(batch, note)
    return iter(tensors)


_log = get_logger(__name__)


def decode_images(batch: Any, device: torch.device, decoder: Any) -> tuple[Any, Any]:
    """Decode the images of a micro-batch to tensors on a device.

    A list of images becomes one tensor, zero-padded to the largest, as the default ``batch`` makes of tensors.

    Args:
        batch: The micro-batch.
        device: The device of the tensors.
        decoder: Called for a ``JpegDecoder`` if there are JPEGs; None decodes them on the CPU.

    Returns:
        The micro-batch, itself if it has no images, and what has to be kept until the stream of the device is done.

    Raises:
        SampleError: An image cannot be decoded on the CPU either; the message names its sample.
        ConfigError: As the decoder.
    """
    # Find the images by their addresses: one that comes twice is decoded once.
    images: dict[int, tuple[EncodedImage, Any]] = {}
    _note_images(batch, None, images)
    if not images:
        return batch, None
    # Decode JPEGs on the GPU together, and on the CPU what it cannot decode.
    pixels: dict[int, Any] = {}  # as the GPU decoded them
    tensors: dict[int, Any] = {}
    kept: Any = None
    jpegs = [image for image, _ in images.values() if image.data is not None]
    if decoder is not None and jpegs:
        decoded, kept = decoder()([image.data for image in jpegs])
        pixels = {id(image): pixel for image, pixel in zip(jpegs, decoded, strict=True) if pixel is not None}
    for image_id, (image, key) in images.items():
        if image_id not in pixels:
            if decoder is not None and image.data is not None:
                _log.warning("the GPU cannot decode the image of sample %s; it is decoded on the CPU", key)
            tensors[image_id] = _on_cpu(image, key).to(device, non_blocking=True)

    # Put the tensors into the places of the images; lists of images become one tensor.
    def tensor(image: EncodedImage) -> Any:
        image_id = id(image)
        if image_id not in tensors:
            tensors[image_id] = _in_form(pixels[image_id].clone(memory_format=torch.contiguous_format), image)
        return tensors[image_id]

    def tensor_of(value: Any) -> Any:
        if isinstance(value, EncodedImage):
            return tensor(value)
        if not _is_list(value):
            return value
        if all(id(image) in pixels for image in value) and len({image.form for image in value}) == 1:
            return _in_form(_stack([pixels[id(image)] for image in value]), value[0])
        return pad_stack(list(map(tensor, value)))

    return map_values(batch, tensor_of, is_leaf=_is_list), kept


def _stack(images: list[torch.Tensor]) -> torch.Tensor:
    """Stack images (3, H, W), views of (H, W, 3) or not, zero-padded to the largest, with few kernels."""
    rows = [image.permute(1, 2, 0) for image in images]
    if len({image.shape for image in images}) == 1 and all(row.is_contiguous() for row in rows):
        return torch.stack(rows).permute(0, 3, 1, 2).contiguous()
    return pad_stack(images)


def _is_list(value: Any) -> bool:
    return type(value) is list and bool(value) and all(isinstance(item, EncodedImage) for item in value)


def _in_form(tensor: torch.Tensor, image: EncodedImage) -> torch.Tensor:
    return tensor.float().div_(255) if image.form.floating else tensor


def _on_cpu(image: EncodedImage, key: Any) -> torch.Tensor:
    try:
        return image.decode()
    except Exception as error:
        cause = str(error).partition("\n")[0]
        raise SampleError(
            f"the image of sample {key} cannot be decoded: {cause or type(error).__name__}",
            key=key if isinstance(key, str) else None,
            hint="rewrite it, or exclude the sample (energon lint --fix does)",
        ) from error


def _note_images(value: Any, key: Any, images: dict[int, tuple[EncodedImage, Any]]) -> None:
    """Collect the images in nested values by their addresses, each with the ``__key__`` of its sample."""
    if isinstance(value, EncodedImage):
        images[id(value)] = value, key
    elif isinstance(value, Mapping):
        key = value.get("__key__", key)
        for item in value.values():
            if type(item) not in PLAIN:
                _note_images(item, key, images)
    elif isinstance(value, list | tuple):
        # A batch has a list of keys, one for each of its samples.
        each = isinstance(key, Sequence) and not isinstance(key, str) and len(key) == len(value)
        for index, item in enumerate(value):
            if type(item) not in PLAIN:
                _note_images(item, key[index] if each else key, images)
    elif is_dataclass(value) and not isinstance(value, type):
        key = getattr(value, "__key__", key)
        for name in field_names(type(value)):
            item = getattr(value, name, None)
            if type(item) not in PLAIN:
                _note_images(item, key, images)


JpegDecoder = Callable[[Sequence[bytes]], "tuple[list[torch.Tensor | None], Any]"]
"""Decodes the JPEGs of a batch, given as bytes, in the current stream of the device.

It returns uint8 tensors of shape (3, H, W) on the device, contiguous or views of (H, W, 3), None for images that it
cannot decode; and what has to be kept until the stream is done.
"""


def jpeg_decoder(device: torch.device) -> JpegDecoder:
    """Return a decoder for a device."""
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
        return torch.utils.dlpack.from_dlpack(image)


_CPU_ONLY = -99999  # nvImageCodec's number of no GPU


class TorchvisionDecoder:
    """Decoder of torchvision."""

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
