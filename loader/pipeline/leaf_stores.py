"""What a cooker may ask for beside a sample: the stores of the leaf that it is from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..cached_property import cached_property
from ..samples.decoder import SampleDecoder
from ..stores.aux_store import open_aux_store
from ..stores.dataset_file_store import DatasetFileStore
from ..stores.decode_file_store import DecodeFileStore
from ..stores.file_store import FileStore

__all__ = ["LeafStores"]


@dataclass(frozen=True, kw_only=True, eq=False)
class LeafStores:
    """The stores of a leaf; each process opens them when they are first asked for.

    Args:
        path: The folder of the leaf's own dataset; None where it has none that parts could be found in by name.
        aux_urls: The URLs of its auxiliary stores, by name.
        decoder: Decodes what they hold; None leaves it bytes.
        trust_code: Pickles in them may be loaded.
    """

    path: str | None = None
    aux_urls: Mapping[str, str] = field(default_factory=dict)
    decoder: SampleDecoder | None = None
    trust_code: bool = False

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in self.__dataclass_fields__}

    @cached_property
    def aux(self) -> dict[str, FileStore[Any]]:
        """The auxiliary stores by name.

        Raises:
            StorageError: A folder is missing or not prepared, or a protocol is not served.
        """
        return {name: self._decoded(open_aux_store(url)) for name, url in self.aux_urls.items()}

    @cached_property
    def primary(self) -> FileStore[Any] | None:
        """The store of the leaf's own parts."""
        return None if self.path is None else self._decoded(DatasetFileStore(self.path))

    def _decoded(self, store: FileStore[bytes]) -> FileStore[Any]:
        if self.decoder is None:
            return store
        return DecodeFileStore(store, decoder=self.decoder, trust_code=self.trust_code)
