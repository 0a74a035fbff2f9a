"""Decode the parts of a sample: images, audio and video to the forms that a decoder is set to, the rest by name."""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import Any, Literal, cast, get_args

from PIL import ImageColor

from ...errors import ConfigError, EnergonError
from ...format.documents.messages import did_you_mean
from ...parts.kinds import part_extension
from ...parts.picture_traits import DeepPixels
from ..trust import is_trusted
from .image_decode import IMAGE_FORMS, ImageForm
from .part_decode import part_decoder, part_error


class AVWebdatasetDecoder:
    """Decoder of audio and video for ``WebDataset.decode`` of webdataset.

    Args:
        video_decode_audio: With ``torch``, also decode the audio of videos.
        av_decode: The form, as for :class:`~loader.samples.decoding.decoder.SampleDecoder`.

    Raises:
        ConfigError: There is no such ``av_decode``.

    >>> AVWebdatasetDecoder(video_decode_audio=False)("0001.txt", b"a cat") is None
    True
    """

    def __init__(self, video_decode_audio: bool, av_decode: str | None = "AVDecoder") -> None:
        self.video_decode_audio = video_decode_audio
        self.av_decode = av_decode
        self._form = media_form(av_decode)

    def __call__(self, key: str, data: bytes) -> Any:
        """Decode a part.

        Args:
            key: Its name, ``"0001.mp4"`` or ``"mp4"``.
            data: Its bytes.

        Returns:
            None if it is not audio or video, so that the next decoder is asked.

        Raises:
            ImportError: PyAV is not installed.
            SampleError: The bytes are no audio or video.
        """
        if part_extension(key) not in MEDIA_EXTENSIONS:
            return None
        if self._form == "AVDecoder":
            return self.read_av_data(data)
        decode = media_decoder(key, self._form, with_audio=self.video_decode_audio)
        return None if decode is None else decode(data)

    def read_av_data(self, data: bytes) -> Any:
        """Return the :class:`~loader.av.av_decoder.AVDecoder` of a part.

        Raises:
            ImportError: PyAV is not installed.
        """
        from ...av import AVDecoder

        return AVDecoder(data)


MEDIA_EXTENSIONS = frozenset({"avi", "flac", "flv", "mkv", "mov", "mp3", "mp4", "wav", "webm"})
"""Extensions of the audio and video parts that are decoded, as in megatron-energon.

Parts of other media names stay bytes, which ``AVDecoder`` opens as well."""

_LATER_DEFAULTS: Mapping[str, Any] = {
    "image_decode_device": "cpu",
    "background": None,
    "deep": "scale",
    "float_range": None,
    "max_pixels": None,
}
"""Arguments that later versions added, and their defaults."""

MediaFormName = Literal["AVDecoder", "bytes", "pyav", "torch"]


class FileStoreDecoder(ABC):
    """Base of decoders of files by name. Worker processes get a pickled copy.

    >>> class Upper(FileStoreDecoder):
    ...     def decode(self, fname, raw):
    ...         return raw.decode().upper()
    >>> DecodeFileStore(DatasetFileStore("photos"), decoder=Upper()).get("0001.txt")
    'A DOG'
    """

    __slots__ = ()

    @abstractmethod
    def decode(self, fname: str, data: bytes) -> Any:
        """Decode one file.

        Args:
            fname: Its key in the store, ``"shard_0.tar/0001.jpg"`` or ``"photos/1.jpg"``.
            data: Its bytes.
        """


class SampleDecoder(FileStoreDecoder):
    """Decode the parts of a sample by their names, to the values of webdataset's decoders.

    Args:
        image_decode: The form of images: ``l8 rgb8 rgba8`` (uint8 arrays, (H, W, C) or (H, W)), ``l rgb rgba`` (the
            same as float32 in [0, 1]), ``torchl8 torchrgb8 torchrgba8`` (uint8 tensors, (C, H, W) or (H, W)),
            ``torchl torchrgb torch torchrgba`` (the same as float32), ``pill pilrgb pilrgba`` (Pillow images), ``pil``
            (a Pillow image of the mode that the file has).
        av_decode: The form of audio and video (parts ``avi flac flv mkv mov mp3 mp4 wav webm``): ``AVDecoder``, which
            decodes requested clips, or bytes where PyAV is not installed; ``torch``, an ``AVData`` with all frames, or
            all samples of audio; ``pyav``, an open container of PyAV; ``bytes`` or None.
        video_decode_audio: With ``torch``, also decode the audio of videos.
        guess_content: Decode parts of unknown names as images if they begin like one.
        image_decode_device: ``"cpu"``: workers decode images. ``"cuda"``: they keep JPEGs as
            :class:`~.image_decode.EncodedImage`, and ``loader.to_device("cuda")`` decodes the images of a batch
            together on the GPU. It needs ``image_decode`` ``torchrgb``, ``torch`` or ``torchrgb8``.
        background: Colour under transparent pixels, for forms without an alpha channel: ``"white"``, ``"#8080ff"`` or
            three numbers from 0 to 255. None drops the alpha channel, as megatron-energon does.
        deep: ``"scale"`` maps the largest value of 16 and 32 bits to white; ``"clip"`` makes all values above 255
            white, as megatron-energon does. ``pil`` does neither.
        float_range: The values of pictures of floats that become black and white. None refuses such pictures, except
            with ``pil`` or ``"clip"``.
        max_pixels: A picture of more pixels, as its header states, is a SampleError. None for the limit of the
            environment variable ``ENERGON_MAX_PIXELS``, or of Pillow, 178,956,970.

    Raises:
        ConfigError: There is no such ``image_decode``, ``av_decode``, ``image_decode_device``, ``background`` or
            ``deep``, the device does not decode to this ``image_decode``, ``float_range`` is empty, or ``max_pixels``
            is no positive number.

    >>> decoder = SampleDecoder(image_decode="rgb8")
    >>> decoder({"__key__": "0", "txt": b"a cat", "json": b'{"id": 3}', "bin": b"?"})
    {'__key__': '0', 'txt': 'a cat', 'json': {'id': 3}, 'bin': b'?'}
    """

    __slots__ = (
        "av_decode",
        "background",
        "deep",
        "float_range",
        "guess_content",
        "image_decode",
        "image_decode_device",
        "max_pixels",
        "video_decode_audio",
    )

    def __init__(
        self,
        *,
        image_decode: str = "torchrgb",
        av_decode: str | None = "AVDecoder",
        video_decode_audio: bool = False,
        guess_content: bool = False,
        image_decode_device: str = "cpu",
        background: str | Sequence[int] | None = None,
        deep: str = "scale",
        float_range: Sequence[float] | None = None,
        max_pixels: int | None = None,
    ) -> None:
        if image_decode not in IMAGE_FORMS:
            raise ConfigError(f"there is no image_decode {image_decode!r}{did_you_mean(image_decode, IMAGE_FORMS)}")
        _check_device(image_decode_device, image_decode)
        self.image_decode_device = image_decode_device
        media_form(av_decode)
        if deep not in get_args(DeepPixels):
            raise ConfigError(f"expected deep='scale' or deep='clip', found {deep!r}")
        if max_pixels is not None and (type(max_pixels) is not int or max_pixels < 1):
            raise ConfigError(f"expected max_pixels of a positive number of pixels, or None, found {max_pixels!r}")
        self.image_decode = image_decode
        self.av_decode = av_decode
        self.video_decode_audio = video_decode_audio
        self.guess_content = guess_content
        self.background = background
        self.deep = deep
        self.float_range = float_range
        self.max_pixels = max_pixels
        self.image_form()  # checks background and float_range

    def image_form(self) -> ImageForm:
        """Return the form of images."""
        return replace(
            IMAGE_FORMS[self.image_decode],
            device=cast("Literal['cpu', 'cuda']", self.image_decode_device),
            background=_colour(self.background),
            deep=cast("DeepPixels", self.deep),
            float_range=_range(self.float_range),
            max_pixels=self.max_pixels,
        )

    def decode_part(self, part_name: str, data: bytes, *, trust_code: bool = False) -> Any:
        """Decode one part.

        Args:
            part_name: Its name, ``"jpg"`` or ``"seg.png"``.
            data: Its bytes.
            trust_code: Load pickles, which may run code.

        Raises:
            SampleError: The bytes do not match the name.
            TrustError: The part is a pickle, and the caller does not trust it.
        """
        return PartDecoders(self, trust_code=trust_code).decode(part_name, data)

    def decode(self, fname: str, raw: bytes, *, trust_code: bool = False) -> Any:
        """Decode one file by its name: the part name follows the first dot of the last path component.

        Args:
            fname: Its name, ``"photos/0001.seg.png"``; a file without a dot stays bytes.
            raw: Its bytes.
            trust_code: Load pickles, which may run code.

        Raises:
            SampleError: The bytes do not match the name.
            TrustError: The file is a pickle, and the caller does not trust it.
        """
        part_name = fname[fname.rfind("/") + 1 :].partition(".")[2]
        return self.decode_part(part_name, raw, trust_code=trust_code) if part_name else raw

    def __call__(self, sample: Mapping[str, Any], *, trust_code: bool = False) -> dict[str, Any]:
        """Decode every part of a sample; names such as ``__key__``, and values that are not bytes, are unchanged."""
        decode = partial(self.decode_part, trust_code=is_trusted(trust_code))
        return {
            name: value if name.startswith("__") or not isinstance(value, bytes) else decode(name, value)
            for name, value in sample.items()
        }

    def config(self) -> dict[str, Any]:
        """Return the arguments as plain data."""
        names = ["image_decode", "av_decode", "video_decode_audio", "guess_content"]
        return {name: getattr(self, name) for name in (*names, *self._changed())}

    def __repr__(self) -> str:
        names = sorted({*SampleDecoder.__slots__} - _LATER_DEFAULTS.keys() | {*self._changed()})
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    def _changed(self) -> list[str]:
        """Return the names of later arguments that are not the defaults: states of earlier versions lack them."""
        return [name for name, default in _LATER_DEFAULTS.items() if getattr(self, name) != default]


class ArrayDecoder(SampleDecoder):
    """Decode parts as :class:`SampleDecoder`, with pictures in arrays of the values and shapes of its tensors.

    Nothing here needs torch: for samples that are only shown. Parts that only torch decodes stay bytes.
    """

    __slots__ = ()

    def image_form(self) -> ImageForm:
        return replace(super().image_form(), container="planes")


def _colour(background: str | Sequence[int] | None) -> tuple[int, int, int] | None:
    if background is None:
        return None
    try:
        colour = tuple(ImageColor.getrgb(background) if isinstance(background, str) else map(int, background))
    except (TypeError, ValueError):
        colour = ()
    if len(colour) != 3 or not all(0 <= value <= 255 for value in colour):
        raise ConfigError(f"expected a background such as 'white', '#8080ff' or (128, 128, 255), found {background!r}")
    return colour


def _range(float_range: Sequence[float] | None) -> tuple[float, float] | None:
    if float_range is None:
        return None
    try:
        low, high = map(float, float_range)
    except (TypeError, ValueError):
        low = high = 0.0
    if not low < high:
        raise ConfigError(f"expected a float_range of two numbers, the smaller first, found {float_range!r}")
    return low, high


def _check_device(device: str, image_decode: str) -> None:
    if device not in ("cpu", "cuda"):
        raise ConfigError(
            f"expected an image_decode_device of 'cpu' or 'cuda', found {device!r}",
            hint="loader.to_device() chooses which GPU" if str(device).startswith("cuda") else None,
        )
    form = IMAGE_FORMS[image_decode]
    if device == "cuda" and (form.container, form.mode) != ("torch", "RGB"):
        raise ConfigError(
            f"image_decode_device='cuda' decodes to RGB tensors, not to image_decode={image_decode!r}",
            hint="pass image_decode='torchrgb8', or 'torchrgb' for floats",
        )


AnyDecoder = SampleDecoder | Callable[[dict[str, Any]], Mapping[str, Any]]
"""A decoder of parts, or a function that decodes a whole sample: from a dict of its parts to one of their values."""


def whole_sample_decoder(decoder: AnyDecoder | None) -> Callable[[dict[str, Any]], Mapping[str, Any]] | None:
    """Return a decoder that has to be called with a whole sample; None for one that decodes part by part.

    >>> whole_sample_decoder(SampleDecoder()) is None, whole_sample_decoder(dict) is dict
    (True, True)
    """
    if isinstance(decoder, SampleDecoder):
        return None if type(decoder).__call__ is SampleDecoder.__call__ else decoder
    return None if decoder is None or hasattr(decoder, "decode_part") else decoder


class PartDecoders(dict[str, Callable[[bytes], Any] | None]):
    """Cache of the decoder of each part name; None for parts that stay bytes."""

    def __init__(self, decoder: SampleDecoder, *, trust_code: bool) -> None:
        super().__init__()
        self._form = decoder.image_form()
        self._guesses = decoder.guess_content
        self._media = cast("MediaFormName", decoder.av_decode or "bytes")
        self._with_audio = decoder.video_decode_audio
        self._trust_code = trust_code

    def __missing__(self, part_name: str) -> Callable[[bytes], Any] | None:
        decoder = part_decoder(
            part_name,
            form=self._form,
            trust_code=self._trust_code,
            guess_content=self._guesses,
            media_decoder=media_decoder(part_name, self._media, with_audio=self._with_audio),
        )
        self[part_name] = decoder
        return decoder

    def decode(self, part_name: str, data: bytes) -> Any:
        """Decode one part; raises the errors of :meth:`SampleDecoder.decode_part`."""
        decoder = self[part_name]
        if decoder is None:
            return data
        try:  # decode_with, without the call: small parts decode in a microsecond
            return decoder(data)
        except (EnergonError, ImportError):
            raise
        except Exception as error:
            raise part_error(part_name, data, error) from error


def part_function(decoder: AnyDecoder | None, *, trust_code: bool) -> Callable[[str, bytes], Any] | None:
    """Return the function that decodes a part, given its name and bytes; None keeps all parts as bytes."""
    if type(decoder) is SampleDecoder:
        return PartDecoders(decoder, trust_code=trust_code).decode
    if decoder is None or whole_sample_decoder(decoder) is not None:
        return None
    return partial(cast("SampleDecoder", decoder).decode_part, trust_code=is_trusted(trust_code))


def media_form(av_decode: str | None) -> MediaFormName:
    """Check an ``av_decode`` option, and return the form of audio and video; None means bytes."""
    names: tuple[MediaFormName, ...] = get_args(MediaFormName)
    for name in names:
        if name == (av_decode or "bytes"):
            return name
    raise ConfigError(f"there is no av_decode {av_decode!r}{did_you_mean(str(av_decode), names)}")


def media_decoder(part_name: str, form: MediaFormName, *, with_audio: bool = False) -> Callable[[bytes], Any] | None:
    """Return the decoder of audio or video parts of a name; None where they stay bytes.

    Without PyAV, parts whose form is ``AVDecoder`` stay bytes: this form is the default, and a dataset's other parts
    must not need an optional package. The other forms raise ImportError when they decode.

    Args:
        part_name: The name.
        form: ``AVDecoder``, which decodes requested clips; ``torch``, an ``AVData`` of tensors; ``pyav``, an open
            container of PyAV; or ``bytes``.
        with_audio: With ``torch``, also decode the audio of a video into the ``AVData``.
    """
    if part_extension(part_name) not in MEDIA_EXTENSIONS or form == "bytes":
        return None
    if form == "AVDecoder":
        return _av_decoder if find_spec("av") is not None else None
    if form == "torch":
        return _av_data_with_audio if with_audio else _av_data
    return _container


def _av_decoder(data: bytes) -> Any:
    from ...av import AVDecoder

    return AVDecoder(data)


def _av_data(data: bytes) -> Any:
    return _av_decoder(data).get_frames()


def _av_data_with_audio(data: bytes) -> Any:
    return _av_decoder(data).get_frames(video_decode_audio=True)


def _container(data: bytes) -> Any:
    from ...format.media.import_av import import_av, media_error, open_container

    av = import_av()
    try:
        return open_container(io.BytesIO(data))
    except av.FFmpegError as error:
        raise media_error(data, error) from error
