"""Documents of texts and pictures in reading order, from files of JSON: MMC4, OBELICS, and lists of items."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ...accounting.kinds import usual_extension
from ...errors import SampleError
from ..annotations.element_rows import document_key, fault_row
from ..annotations.json_elements import Element, decode, read_elements
from ..annotations.picture_files import find_picture_folder, picture_extension, picture_ref
from ..annotations.split_names import split_of_file, subset_of_file
from ..rows.documents import Item, take_items, with_items
from ..rows.file_access import FileAccess
from ..rows.row import PartRef, Row, ValueRef
from .source import Listing, SampleProposal, Source


@dataclass(frozen=True, slots=True, kw_only=True)
class InterleavedSource(Source):
    """The documents of a JSON list or JSONL file, each with its pictures.

    The part ``json`` has ``texts`` and ``images``, lists that line up: in each place is either a text or the name of a
    part. The other values of the document stay. Layouts of documents:

    - ``text_list`` and ``image_info`` with ``matched_text_index`` and ``image_name``, or the picture in base64 as
      ``image_base64``: the picture precedes that text;
    - ``texts`` and ``images``, which line up; at the same place, the picture comes first;
    - ``text`` with ``<image>`` at the places of ``images``;
    - a list of items, or one as ``sequence``, ``content`` …: texts, and paths of pictures, or objects with either.

    Attributes:
        path: The file.
        root: Folder of the pictures; None finds it near the file.
        access: Decides which files paths may name.
    """

    path: str
    root: str | None = None
    access: FileAccess = field(default_factory=FileAccess, repr=False, compare=False)
    kind: str = "interleaved"

    def rows(self, listing: Listing) -> Iterator[Row]:  # noqa: ARG002 - files are read in any order
        """Yield the samples.

        Raises:
            ConfigError: The file has no list, or the pictures cannot be found.
            FormatError: It is not valid JSON.
            StorageError: It cannot be read.
        """
        files, _ = find_picture_folder(
            self.path, self._pictures(), root=self.root, access=self.access, subset=subset_of_file(self.path)
        )
        split = split_of_file(self.path)
        for number, element in enumerate(read_elements(self.path)):
            try:
                document, items = read_document(element)
                key = document_key(document, number)
                yield document_row(
                    key, document, items, ref=lambda path: picture_ref(files, path), origin=element.place, split=split
                )
            except SampleError as error:
                yield fault_row(element, error, split=split)

    def proposal(self) -> SampleProposal:
        """Return the type for documents, which code builds."""
        return SampleProposal(sample_type="InterleavedSample")

    def _pictures(self) -> Iterator[list[str]]:
        for element in read_elements(self.path):
            try:
                _, items = read_document(element)
            except SampleError:
                continue  # its row fails
            yield from ([item.picture] for item in items if isinstance(item.picture, str) and item.picture)


def read_document(element: Element, pictures: Sequence[str] | None = None) -> tuple[dict[str, Any], list[Item]]:
    """Return the other values of a document, and its items.

    Args:
        element: The document.
        pictures: Paths of its pictures, if it has places for them and no list; None if they are unknown.

    Raises:
        SampleError: The document is of no known layout.
    """
    kind: Any = dict[str, Any] | list[Any]
    value: Any = decode(element, kind)
    document: dict[str, Any] = value if isinstance(value, dict) else {"items": value}
    return document, take_items(document, pictures)


def document_row(
    key: str,
    document: dict[str, Any],
    items: Sequence[Item],
    *,
    ref: Callable[[str], PartRef],
    origin: str,
    split: str = "",
) -> Row:
    """Return the row of a document: numbered pictures, and the part ``json``.

    Args:
        key: Its key.
        document: Its other values.
        items: Its texts and pictures.
        ref: Returns the reference to a picture by its path.
        origin: Its place, for reports.
        split: Its split part.

    Raises:
        SampleError: A picture cannot be referenced.
    """
    parts: dict[str, PartRef] = {}
    for item in items:
        if isinstance(item.picture, bytes):
            parts[f"{len(parts)}.{usual_extension(item.picture) or 'jpg'}"] = ValueRef(item.picture)
        elif item.picture is not None:
            parts[f"{len(parts)}.{picture_extension(item.picture)}"] = ref(item.picture)
    parts["json"] = ValueRef(msgspec.json.encode(with_items(document, items, [*parts])))
    return Row(key=key, parts=parts, origin=origin, split=split)
