"""Images that workers pass on encoded, for a GPU to decode a batch of them together."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import simplejpeg

from .image_decode import ImageForm, decode_image, is_plain_jpeg

if TYPE_CHECKING:
    import torch


class EncodedImage:
    """An image that :meth:`.DataLoader.to_device` decodes: the bytes of a JPEG, or the pixels of another format.

    Attributes:
        data: The bytes of a JPEG with RGB or grey pixels; None if the worker has decoded the image.
        pixels: uint8 or float32, (3, H, W); None for a JPEG.
        form: The form of the tensor.
    """

    __slots__ = ("data", "form", "pixels")

    def __init__(self, form: ImageForm, *, data: bytes | None = None, pixels: torch.Tensor | None = None) -> None:
        self.form = form
        self.data = data
        self.pixels = pixels

    @property
    def shape(self) -> tuple[int, int, int]:
        """The shape of the tensor: (3, H, W). Only the header is read."""
        if self.data is None:
            _, height, width = self.decode().shape
            return 3, height, width
        height, width, *_ = simplejpeg.decode_jpeg_header(self.data)
        return 3, int(height), int(width)

    def decode(self) -> torch.Tensor:
        """Decode on the CPU, to the pixels that ``image_decode_device="cpu"`` gives.

        Returns:
            Shape (3, H, W), uint8 or float32 as ``image_decode`` says.

        Raises:
            Exception: Any exception of Pillow, for a damaged image.
        """
        if self.pixels is not None:
            return self.pixels
        decoded: torch.Tensor = decode_image(self.data or b"", self.form)
        return decoded

    def pin_memory(self) -> EncodedImage:
        """Return the image with its pixels, if it has any, in page-locked memory."""
        return self if self.pixels is None else EncodedImage(self.form, pixels=self.pixels.pin_memory())

    def __repr__(self) -> str:
        return f"EncodedImage(shape={self.shape}, {'pixels' if self.data is None else f'{len(self.data)} bytes'})"


def keep_encoded(data: bytes, form: ImageForm, *, trust_code: bool = False) -> EncodedImage:
    """Keep a JPEG encoded; decode an image of another format.

    Args:
        data: The file's bytes.
        form: The form of the tensor.
        trust_code: As in :func:`.decode_image`.

    Raises:
        TrustError: As in :func:`.decode_image`.
        Exception: Any exception of Pillow, for data that is not an image.
    """
    form = replace(form, device="cpu")
    if is_plain_jpeg(data, form.max_pixels):
        return EncodedImage(form, data=data)
    return EncodedImage(form, pixels=decode_image(data, form, trust_code=trust_code))
