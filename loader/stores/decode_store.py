"""A store of files that decodes them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ..errors import SampleError
from ..format.media.metadata import MediaMetadata
from ..samples.decoding.decoder import FileStoreDecoder, PartDecoders, SampleDecoder
from ..samples.source_info import SourceInfo
from ..samples.trust import is_trusted
from .file_store import FileStore


class DecodeFileStore(FileStore[Any]):
    """A store of the decoded files of another store.

    Args:
        inner: The store of bytes.
        decoder: A :class:`~loader.samples.SampleDecoder`, or another ``FileStoreDecoder``.
        trust_code: Let a ``SampleDecoder`` load pickles, which may run code.

    >>> DecodeFileStore(DatasetFileStore("photos"), decoder=SampleDecoder()).get("0001.txt")
    'a dog'
    """

    def __init__(self, inner: FileStore[bytes], *, decoder: FileStoreDecoder, trust_code: bool = False) -> None:
        self.inner = inner
        self.decoder = decoder
        self.trust_code = trust_code
        self._decode: Callable[[str, bytes], Any] = decoder.decode
        trusted = is_trusted(trust_code)
        if type(decoder) is SampleDecoder:
            # Like the decoder itself, but the function for a part name is looked up once for all files.
            self._decode = partial(_decode_part, PartDecoders(decoder, trust_code=trusted).decode)
        elif isinstance(decoder, SampleDecoder) and type(decoder).decode is SampleDecoder.decode:
            self._decode = partial(decoder.decode, trust_code=trusted)  # calls its own decode_part()

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), decoder=self.decoder, trust_code=self.trust_code), (self.inner,)

    def __getitem__(self, key: str) -> tuple[Any, SourceInfo]:
        """Read and decode a file.

        Raises:
            MissingFileError: The file does not exist.
            SampleError: The bytes do not decode as the name says.
            TrustError: The file is a pickle, and code is not trusted.
        """
        data, source = self.inner[key]
        return self.decode_raw(key, data), source

    def read_raw(self, key: str) -> tuple[Any, SourceInfo]:
        return self.inner.read_raw(key)

    def decode_raw(self, key: str, raw: Any) -> Any:
        data = self.inner.decode_raw(key, raw)
        try:
            return self._decode(key, data)
        except SampleError as error:
            message = f"file {key!r}: {error.message}"
            raise SampleError(
                message, key=key, part=error.part, source=self.get_path(), hint=error.hint
            ) from error.__cause__

    def get_path(self) -> str:
        return self.inner.get_path()

    def get_media_metadata(self, key: str) -> MediaMetadata:
        return self.inner.get_media_metadata(key)

    def identity(self) -> tuple[Any, ...]:
        return self.inner, self.trust_code, self.decoder

    def __hash__(self) -> int:
        return hash((DecodeFileStore, self.inner))  # a decoder need not have a hash

    def __repr__(self) -> str:
        return f"DecodeFileStore({self.inner!r}, decoder={self.decoder!r})"


def _decode_part(decode: Callable[[str, bytes], Any], fname: str, data: bytes) -> Any:
    part_name = fname[fname.rfind("/") + 1 :].partition(".")[2]
    return decode(part_name, data) if part_name else data
