"""Check the parts of samples, and that they make samples, for ``energon lint``.

torch is imported only for datasets with tensors or arrays, and to build samples by a dataset's own code.
"""

from __future__ import annotations

import io
import zlib
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from importlib.util import find_spec
from typing import Any, Final

import numpy as np
import simplejpeg
from PIL import Image

from ...cached_property import cached_property
from ...errors import EnergonError, SampleError, error_text
from ...format.documents.conversation import conversation_turns
from ...format.documents.dataset_config import DatasetConfig
from ...format.documents.sample_types import FieldKind
from ...format.media.av_decode import media_fault
from ...format.media.metadata import media_type_of_name
from ...lint.report import Caution, PictureCounts
from ...parts.kinds import foreign_contents, is_compressed, kind_of_name
from ...parts.large_parts import LargePart
from ...parts.open_picture import pixel_limit
from ...parts.picture_traits import picture_traits
from ...parts.unread_picture import UnreadPictureError
from ..decoding.image_decode import IMAGE_FORMS, convert_image, open_image
from ..decoding.media_values import media_contents
from ..decoding.part_decode import decode_part, part_error
from ..trust import is_trusted
from .dataset_code import DatasetCode

_JPEG = b"\xff\xd8\xff"
_MAX_FRAME_PIXELS = 1 << 27  # of the frames of a picture that are decoded: half a second, and four copies in memory
_TRIED_SIDE = 64  # of the corner that is converted: the mode decides if it can be
_DAMAGE = ("Corrupt JPEG data", "Premature end of JPEG file")
_PNG = b"\x89PNG\r\n\x1a\n"
_EASY_MODES = frozenset({"1", "CMYK", "I", "I;16", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBX", "RGBa", "YCbCr", "La"})
"""Pillow's modes whose conversion to RGB cannot fail. Floats are refused unless the decoder has their range."""


class DecodeCheck:
    """Check the parts of samples; picklable, so that worker processes can use it.

    Args:
        config: The content of ``dataset.yaml``; None checks only that the parts decode.
        code: The dataset's files of code; those and pickles are not checked if they may not run.
        decode_media: Decode sound and video to their ends, which may take minutes for each.
        max_json_bytes: Larger JSON parts are not checked; None checks all.

    >>> from loader.samples.building.dataset_code import DatasetCode
    >>> check = DecodeCheck(None, DatasetCode("dataset/.nv-meta", trust_code=False))
    >>> check("0001", {"txt": b"a cat", "json": b"{"})
    [('json', "part 'json' does not decode as json: Expecting property name enclosed in double quotes: ...")]
    """

    def __init__(
        self,
        config: DatasetConfig | None,
        code: DatasetCode,
        *,
        decode_media: bool = True,
        max_json_bytes: int | None = None,
    ) -> None:
        self._config = config
        self._decode_media = decode_media
        self.max_json_bytes = max_json_bytes
        self._code = replace(code, trust_code=is_trusted(code.trust_code))
        self._pictures: PictureCounts = Counter()

    def take_pictures(self) -> PictureCounts:
        """Return the traits of the pictures that were checked since the last call."""
        taken, self._pictures = self._pictures, Counter()
        return taken

    @property
    def unchecked(self) -> str | None:
        """The part of the check that is not done, and the reason; None if everything is checked."""
        config = self._config
        if config is None or config.crude or self._code.trust_code:
            return None
        if config.sample_loader is not None:
            return f"samples were not built: {config.sample_loader} is code, which runs only with --trust-code"
        if config.spec is None:
            named = (
                (config.module, config.sample_type)
                if config.sample_type
                else (config.dataset_module, config.dataset_class)
            )
            return f"samples were not built: {named[0]}.{named[1]} is imported only with --trust-code"
        return None

    @property
    def undecoded_media(self) -> str | None:
        """Why sound and video are not decoded; None if they are."""
        if not self._decode_media:
            return "it would take too long"
        return None if find_spec("av") else "PyAV is missing, pip install 'energon-toolkit[av]'"

    def __call__(self, key: str, parts: Mapping[str, bytes]) -> list[tuple[str | None, str]]:
        """Check a sample.

        Args:
            key: The sample's key.
            parts: All of its parts, by name.

        Returns:
            The faults: each the name of a part (None for the sample as a whole) and one line of text. An empty part is
            a fault, unless it is text. A :class:`.Caution` is about a whole part that no decoder here reads.
        """
        faults: list[tuple[str | None, str]] = []
        values: dict[str, Any] = {}
        cautions: dict[str | None, Caution] = {}
        # Report all damaged parts; the sample is built only of whole ones.
        for name, data in parts.items():
            try:
                values[name] = self._check_part(name, data)
            except (EnergonError, ImportError, UnreadPictureError) as error:
                cause = error.__cause__ or error
                if isinstance(cause, (ImportError, UnreadPictureError)):
                    cautions[name] = Caution(f"part {name!r} cannot be checked: {cause}")
                    values[name] = CHECKED_IMAGE
                else:
                    faults.append((name, getattr(error, "message", "")))
        if not cautions:  # as in most samples
            return faults or self._check_sample(key, parts, values)
        if not faults and all(kind_of_name(name or "") == "image" for name in cautions):
            faults = [fault for fault in self._check_sample(key, parts, values) if fault[0] not in cautions]
        return [*faults, *cautions.items()]

    def check_values(self, key: str, values: Mapping[str, Any]) -> list[tuple[str | None, str]]:
        """Check a sample whose parts are final values, as the columns of Parquet files are.

        It takes the arguments of a call. Of the values, only media are decoded.
        """
        faults: list[tuple[str | None, str]] = []
        checked: dict[str, Any] = {}
        for name, value in values.items():
            try:
                checked[name] = self._check_media(name, value)
            except (ImportError, UnreadPictureError):
                checked[name] = CHECKED_IMAGE
            except EnergonError as error:
                faults.append((name, f"column {name!r}: {error.message}"))
        return faults or self._check_sample(key, values, checked, decodes=False)

    def _check_media(self, name: str, value: Any) -> Any:
        if isinstance(value, list) and value and isinstance(value[0], Mapping):
            return [self._check_media(name, each) for each in value]
        if not isinstance(value, Mapping) or "bytes" not in value or not value.keys() <= {"bytes", "path"}:
            return value
        contents = media_contents(value, name, "")
        return None if contents is None else self._check_part(*contents)

    def _check_part(self, name: str, data: bytes) -> Any:
        # A part may be too large to be read, or empty, whatever its kind.
        if isinstance(data, LargePart):
            raise part_error(name, data, ValueError())
        kind = kind_of_name(name)
        if not data and kind != "text":
            raise SampleError(f"part {name!r} is empty (0 bytes)", part=name)
        # Pictures are decoded here: a placeholder replaces their pixels in later checks.
        if kind == "image" and not is_compressed(name):
            fault = _image_fault(data, name, trust_code=self._code.trust_code)
            if fault is not None:
                raise SampleError(fault, part=name)
            with suppress(Exception):  # of any type: that it decodes was checked, and some damage is tolerated
                self._pictures.update((name, trait) for trait in picture_traits(io.BytesIO(data)).names)
            return CHECKED_IMAGE
        if kind in ("audio", "bytes", "text", "video"):  # no other decoder than the task encoder's reads these
            fault = foreign_contents(name, data)
            if fault is not None:
                raise SampleError(fault, part=name)
        # Sound and video are decoded only on request, since that takes long.
        if media_type_of_name(f"key.{name}") == "av":
            fault = None if self.undecoded_media else media_fault(data)
            if fault is not None:
                raise SampleError(f"part {name!r} is damaged audio or video: {fault}", part=name)
            return data
        # Pickles of data that is not trusted stay bytes.
        if kind == "pickle" and not self._code.trust_code:
            return data
        return decode_part(name, data, form=IMAGE_FORMS["rgb8"], trust_code=self._code.trust_code)

    def _check_sample(
        self, key: str, parts: Mapping[str, Any], values: dict[str, Any], *, decodes: bool = True
    ) -> list[tuple[str | None, str]]:
        config = self._config
        if config is None or config.crude:
            return []
        spec = config.spec
        if config.field_map is None or spec is None:
            return self._build(key, parts, decodes=decodes)
        try:
            fields = config.field_map.apply(values, optional=spec.optional)
        except SampleError as error:
            # If the part exists, the fault is a value missing inside it, so the sample as a whole is reported.
            return [(None if error.part in parts else error.part, error.message)]
        faults: list[tuple[str | None, str]] = []
        for name, value in fields.items():
            field = spec.field(name)
            # Many datasets store a single answer as text, and a field map cannot wrap it in a list.
            fine = (value is None and not field.required) or (name == "answers" and isinstance(value, str))
            fault = None if fine else kind_fault(field.kind, value)
            if fault is not None:
                expression = config.field_map.expressions()[name]
                faults.append((None, f"field {name!r} ({expression}): {fault}"))
        if not faults and "turns" in fields:
            counts = {name: _count_media(fields.get(name)) for name in ("images", "videos", "audios")}
            fault = _fault_of_turns(fields["turns"], **counts)
            faults += [(None, f"field 'turns': {fault}")] if fault else []
        return faults

    def _build(self, key: str, parts: Mapping[str, Any], *, decodes: bool) -> list[tuple[str | None, str]]:
        """Build the sample as training does, with the dataset's own code."""
        builder = self._builder if decodes else self._value_builder
        if builder is None:
            return []
        needed = {name: data for name, data in parts.items() if builder.part_filter(name)}
        try:
            builder.build(needed, key=key)
        except SampleError as error:
            return [(error.part, error.message.removeprefix(f"sample {key!r}: "))]
        except Exception as error:  # noqa: BLE001 - the dataset's own code may raise anything
            return [(None, f"building the sample fails: {error_text(error)}")]
        return []

    @cached_property
    def _builder(self) -> Any:
        from ..decoding.decoder import SampleDecoder  # imports torch

        return self._make_builder(SampleDecoder()) if self.unchecked is None else None

    @cached_property
    def _value_builder(self) -> Any:
        return self._make_builder(None) if self.unchecked is None else None

    def _make_builder(self, decoder: Any) -> Any:
        from .sample_builder import SampleBuilder  # imports torch

        return SampleBuilder(self._config, self._code, decoder=decoder)


def check_image_bytes(data: bytes, part_name: str, *, trust_code: bool = False) -> str | None:
    """Check that an image is complete, faster than by decoding it; return one line if it is not, else None.

    A JPEG is decoded at an eighth of its size: that reads every bit of the entropy-coded data, where damage shows, and
    skips most of the arithmetic. The checksums of PNG chunks are verified, which decoding does not always do.

    Args:
        data: The file's bytes.
        part_name: The part's name, for the message.
        trust_code: Also check formats that are programs (EPS, which Ghostscript runs).

    Returns:
        One line about the damage, also for images that decode to damaged pixels.

    >>> check_image_bytes(b"<!DOCTYPE html>", "jpg")
    "part 'jpg' is not an image, but an HTML page, as web servers answer with an error"
    """
    try:
        return _image_fault(data, part_name, trust_code=trust_code)
    except (ImportError, UnreadPictureError) as error:
        return f"part {part_name!r} cannot be checked: {error}"


def _image_fault(data: bytes, part_name: str, *, trust_code: bool) -> str | None:
    damage = None
    # A JPEG that the quick check finds whole needs no other check.
    if data.startswith(_JPEG):
        is_whole, damage = _check_jpeg(data)
        if is_whole:
            return None
    elif data.startswith(_PNG):
        damage = _png_damage(data)
    try:
        # An image may be damaged though it opens, and the conversion of an unusual mode may fail.
        image = open_image(data, trust_code=trust_code)
        if image.mode not in _EASY_MODES:
            corner = image.crop((0, 0, min(image.width, _TRIED_SIDE), min(image.height, _TRIED_SIDE)))
            convert_image(corner, "RGB", IMAGE_FORMS["rgb8"])
        damage = damage or _damage_of_frames(image, data)
    except (ImportError, UnreadPictureError):
        raise
    except Exception as error:  # noqa: BLE001 - decoders raise exceptions of every kind
        return part_error(part_name, data, error).message
    return f"part {part_name!r} is a damaged image, though it decodes: {damage}" if damage else None


def _damage_of_frames(image: Image.Image, data: bytes) -> str | None:
    """Return the first fault of the frames after the first one, among those that are decoded."""
    frames = getattr(image, "n_frames", 1)
    for frame in range(1, min(frames, _MAX_FRAME_PIXELS // max(1, image.width * image.height))):
        try:
            image.seek(frame)
            image.load()
        except Exception as error:  # noqa: BLE001 - decoders raise exceptions of every kind
            return f"frame {frame + 1} of {frames} does not decode ({str(error) or type(error).__name__})"
    is_cut = image.format == "GIF" and b";" not in data.rstrip(b"\0")[-4:]  # its last block
    return f"it ends at byte {len(data)}, before its last block" if is_cut else None


def _check_jpeg(data: bytes) -> tuple[bool, str | None]:
    """Return (True, None) for a complete JPEG, or (False, damage); damage is None where Pillow must decide."""
    try:
        height, width, colours, _ = simplejpeg.decode_jpeg_header(data)
        if height * width > pixel_limit():
            return False, None
        target = "CMYK" if colours in ("CMYK", "YCCK") else "GRAY"  # libjpeg skips the colour arithmetic for grey
        simplejpeg.decode_jpeg(data, target, min_height=1, min_width=1, min_factor=8)
    except ValueError as error:
        # Other errors are about features that simplejpeg does not support, such as rare subsampling.
        message = str(error).strip()
        return False, message if message.startswith(_DAMAGE) else None
    return True, None


def _png_damage(data: bytes) -> str | None:
    position = len(_PNG)
    # Walk over the chunks: each has its size, a name, contents and a checksum.
    while position + 12 <= len(data):
        size_bytes = int.from_bytes(data[position : position + 4], "big")
        body = data[position + 4 : position + 8 + size_bytes]
        checksum = data[position + 8 + size_bytes : position + 12 + size_bytes]
        if len(checksum) < 4:
            break
        name = body[:4]
        if zlib.crc32(body) != int.from_bytes(checksum, "big"):
            return f"the checksum of chunk {name!r} at byte {position} is wrong"
        if name == b"IEND":
            return None
        position += 12 + size_bytes
    return f"it ends at byte {len(data)}, before its last chunk"


CHECKED_IMAGE: Final = object()
"""Placeholder for an image that was checked and dropped."""


def kind_fault(kind: FieldKind, value: object) -> str | None:
    """Check a value of a field; return one line if it is not of the field's kind, else None.

    >>> kind_fault("text", "a cat"), kind_fault("text", {"en": "a cat"})
    (None, "expected text, found dict: {'en': 'a cat'}")
    """
    if kind == "turns":
        return _fault_of_turns(value)
    check = _CHECKS.get(kind)
    if check is None:
        return None
    fits, expected = check
    if fits(value):
        return None
    if value is CHECKED_IMAGE:
        return f"expected {expected}, found an image"
    shown = "" if value is None else f": {value!r}"
    return f"expected {expected}, found {type(value).__name__}{shown[:60]}"


def _is_image(value: object) -> bool:
    # Arrays (npy) and tensors of two or three dimensions may be images, too.
    return value is CHECKED_IMAGE or getattr(value, "ndim", 0) in (2, 3)


def _are_images(value: object) -> bool:
    return all(map(_is_image, value)) if isinstance(value, list | tuple) else _is_image(value)


def _count_media(value: object) -> int:
    return 0 if value is None else len(value) if isinstance(value, list | tuple) else 1


def _fault_of_turns(value: object, *, images: int | None = None, videos: int = 0, audios: int = 0) -> str | None:
    try:
        conversation_turns(value, images=images, videos=videos, audios=audios)
    except ValueError as error:
        return str(error)
    return None


def _is_list_of_text(value: object) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(item, str) for item in value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _is_list(value: object) -> bool:
    return isinstance(value, list | tuple) or hasattr(value, "ndim")


def _is_media(value: object) -> bool:
    return isinstance(value, bytes) or hasattr(value, "ndim")


_CHECKS: Mapping[FieldKind, tuple[Callable[[Any], bool], str]] = {
    "audio": (_is_media, "audio"),
    "image": (_is_image, "an image"),
    "image_list": (_are_images, "images"),
    "images": (_is_list, "a list of images"),
    "label": (_is_number, "a whole number"),
    "label_name": (lambda value: isinstance(value, str), "text"),
    "sequence": (_is_list, "a list"),
    "tensor": (_is_list, "numbers"),
    "text": (lambda value: isinstance(value, str), "text"),
    "text_list": (_is_list_of_text, "a list of texts"),
    "video": (_is_media, "a video"),
}
