"""The decoder of all parts of a sample."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ...errors import ConfigError, EnergonError
from ...format.documents.messages import did_you_mean
from ..trust import is_trusted
from .image_decode import IMAGE_FORMS
from .media_decode import media_form
from .part_decode import part_decoder, part_error

__all__ = ["FileStoreDecoder", "PartDecoders", "SampleDecoder"]


class FileStoreDecoder(ABC):
    """Makes values of files. Derive from it for a decoder of your own; worker processes get a pickled copy."""

    __slots__ = ()

    @abstractmethod
    def decode(self, fname: str, data: bytes) -> Any:
        """Decode one file.

        Args:
            fname: Its key in the store, ``"shard_0.tar/0001.jpg"`` or ``"photos/1.jpg"``.
            data: Its bytes.
        """


class SampleDecoder(FileStoreDecoder):
    """Decode the parts of a sample by their names, to the values that webdataset's own decoders give.

    Args:
        image_decode: What pictures become: ``l8 rgb8 rgba8`` (uint8 arrays, (H, W, C) or (H, W)), ``l rgb rgba`` (the
            same as float32 in [0, 1]), ``torchl8 torchrgb8 torchrgba8`` (uint8 tensors, (C, H, W) or (H, W)),
            ``torchl torchrgb torch torchrgba`` (the same as float32), ``pill pil pilrgb pilrgba`` (Pillow images).
        av_decode: What audio and video become (parts ``avi flac flv mkv mov mp3 mp4 wav webm``): ``AVDecoder``, which
            decodes the clips that it is asked for, or bytes where PyAV is not installed; ``torch``, an ``AVData`` with
            all frames, or all samples of audio; ``pyav``, a container that PyAV opened; ``bytes`` or None.
        video_decode_audio: With ``torch``, also decode the audio of videos.
        guess_content: Decode as a picture what looks like one, where the part's name says nothing.

    Raises:
        ConfigError: There is no such ``image_decode`` or ``av_decode``.

    >>> decoder = SampleDecoder(image_decode="rgb8")
    >>> decoder({"__key__": "0", "txt": b"a cat", "json": b'{"id": 3}', "bin": b"?"})
    {'__key__': '0', 'txt': 'a cat', 'json': {'id': 3}, 'bin': b'?'}
    """

    __slots__ = ("av_decode", "guess_content", "image_decode", "video_decode_audio")

    def __init__(
        self,
        *,
        image_decode: str = "torchrgb",
        av_decode: str | None = "AVDecoder",
        video_decode_audio: bool = False,
        guess_content: bool = False,
    ) -> None:
        if image_decode not in IMAGE_FORMS:
            raise ConfigError(f"there is no image_decode {image_decode!r}{did_you_mean(image_decode, IMAGE_FORMS)}")
        media_form(av_decode)
        self.image_decode = image_decode
        self.av_decode = av_decode
        self.video_decode_audio = video_decode_audio
        self.guess_content = guess_content

    def decode_part(self, part_name: str, data: bytes, *, trust_code: bool = False) -> Any:
        """Decode one part.

        Args:
            part_name: Its name, ``"jpg"`` or ``"seg.png"``.
            data: Its bytes.
            trust_code: Load pickles, which may run code.

        Raises:
            SampleError: The bytes are not what the name says.
            TrustError: The part is a pickle, and the caller does not trust it.
        """
        return PartDecoders(self, trusted=is_trusted(trust_code)).decode(part_name, data)

    def decode(self, fname: str, data: bytes, *, trust_code: bool = False) -> Any:
        """Decode one file by its name: what stands behind the first dot of the last path component is the part name.

        Args:
            fname: Its name, ``"photos/0001.seg.png"``; one without a dot stays bytes.
            data: Its bytes.
            trust_code: Load pickles, which may run code.

        Raises:
            SampleError: The bytes are not what the name says.
            TrustError: The file is a pickle, and the caller does not trust it.
        """
        part_name = fname[fname.rfind("/") + 1 :].partition(".")[2]
        return self.decode_part(part_name, data, trust_code=trust_code) if part_name else data

    def __call__(self, sample: Mapping[str, Any], *, trust_code: bool = False) -> dict[str, Any]:
        """Decode every part of a sample; names such as ``__key__``, and what is not bytes, are passed on."""
        decode = partial(self.decode_part, trust_code=is_trusted(trust_code))
        return {
            name: value if name.startswith("__") or not isinstance(value, bytes) else decode(name, value)
            for name, value in sample.items()
        }

    def __repr__(self) -> str:
        return f"SampleDecoder({', '.join(f'{name}={getattr(self, name)!r}' for name in sorted(self.__slots__))})"


class PartDecoders(dict[str, Callable[[bytes], Any] | None]):
    """Part name → what decodes it, None where it stays bytes; found once for each name.

    Args:
        decoder: What pictures become, and so on.
        trusted: Pickles may load.
    """

    def __init__(self, decoder: SampleDecoder, *, trusted: bool) -> None:
        super().__init__()
        self._form = IMAGE_FORMS[decoder.image_decode]
        self._guesses = decoder.guess_content
        self._media = media_form(decoder.av_decode, video_decode_audio=decoder.video_decode_audio)
        self._trusted = trusted

    def __missing__(self, part_name: str) -> Callable[[bytes], Any] | None:
        found = part_decoder(
            part_name, form=self._form, trusted=self._trusted, guess_content=self._guesses, media=self._media
        )
        self[part_name] = found
        return found

    def decode(self, part_name: str, data: bytes) -> Any:
        """Decode one part; raises as :meth:`SampleDecoder.decode_part` does."""
        decoder = self[part_name]
        if decoder is None:
            return data
        try:
            return decoder(data)
        except (EnergonError, ImportError):
            raise
        except Exception as error:
            raise part_error(part_name, data, error) from error
