"""Decode the encoded images of a micro-batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from typing import Any

from ...errors import SampleError
from ...escaped_log import get_logger
from ...lazy_torch import torch
from ..decoding.encoded_image import EncodedImage
from ..nested_values import PLAIN, field_names, map_values
from .pad import pad_stack

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
    found: dict[int, tuple[EncodedImage, Any]] = {}
    _note_images(batch, None, found)
    if not found:
        return batch, None
    pixels: dict[int, Any] = {}  # as the GPU decoded them
    tensors: dict[int, Any] = {}
    kept: Any = None
    jpegs = [image for image, _ in found.values() if image.data is not None]
    if decoder is not None and jpegs:
        decoded, kept = decoder()([image.data for image in jpegs])
        pixels = {id(image): one for image, one in zip(jpegs, decoded, strict=True) if one is not None}
    for number, (image, key) in found.items():
        if number not in pixels:
            if decoder is not None and image.data is not None:
                _log.warning("the GPU cannot decode the image of sample %s; it is decoded on the CPU", key)
            tensors[number] = _on_cpu(image, key).to(device, non_blocking=True)

    def tensor(image: EncodedImage) -> Any:
        number = id(image)
        if number not in tensors:
            tensors[number] = _in_form(pixels[number].clone(memory_format=torch.contiguous_format), image)
        return tensors[number]

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


def _note_images(value: Any, key: Any, found: dict[int, tuple[EncodedImage, Any]]) -> None:
    """Collect the images in nested values by their addresses, each with the ``__key__`` of its sample."""
    if isinstance(value, EncodedImage):
        found[id(value)] = value, key
    elif isinstance(value, Mapping):
        key = value.get("__key__", key)
        for item in value.values():
            if type(item) not in PLAIN:
                _note_images(item, key, found)
    elif isinstance(value, list | tuple):
        each = _is_sequence_of(key, len(value))
        for number, item in enumerate(value):
            if type(item) not in PLAIN:
                _note_images(item, key[number] if each else key, found)
    elif is_dataclass(value) and not isinstance(value, type):
        key = getattr(value, "__key__", key)
        for name in field_names(type(value)):
            item = getattr(value, name, None)
            if type(item) not in PLAIN:
                _note_images(item, key, found)


def _is_sequence_of(key: Any, length: int) -> bool:
    return isinstance(key, Sequence) and not isinstance(key, str) and len(key) == length
