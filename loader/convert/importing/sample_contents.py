"""Read the parts of a row, and convert its pictures together with what belongs to them."""

from __future__ import annotations

import io
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from PIL import Image

from ...accounting.kinds import HEADER_BYTES, kind_of_name, part_extension, with_extension
from ...errors import EnergonError, SampleError, StorageError
from ..annotations.coordinates import Coordinates, find_coordinates, is_moved, move_document
from ..annotations.picture_change import PictureChange
from ..rows.row import CellRef, FileRef, Row, UrlRef, ValueRef, unique_part
from ..writing.shard_file import FileContents, PartContents
from .contents import ContentReader, check_contents
from .pages import has_frames, split_pages, with_document
from .pictures import ConvertedPicture, PictureOptions, convert_picture

_PIXELS_WITH_CLASSES = """
    annotation annotations depth disparity instance instances label labelmap labels mask masks panoptic seg segm
    segmentation semantic trimap
"""
_MASK_WORDS = frozenset(_PIXELS_WITH_CLASSES.split())
"""Words in the names of parts whose pixels are classes or distances."""

_PAGE = re.compile(r"\d+\.[^.]+")  # pictures of a document, which are no masks of each other
_SINGLE_CHANNEL = ("1", "L", "P", "I", "I;16", "I;16B")


class StrayCoordinatesError(SampleError):
    """Coordinates of an unknown layout would stay where they are while their picture is turned or resized."""


class SampleContents(NamedTuple):
    """The parts of a sample as they are written.

    Attributes:
        parts: Part name → contents.
        changed: What was changed or lost → number of pictures or documents.
        read_bytes: Bytes of the parts before any change.
    """

    parts: dict[str, PartContents]
    changed: Counter[str]
    read_bytes: int = 0


def read_sample(reader: ContentReader, row: Row, options: PictureOptions) -> SampleContents:
    """Read the parts of a row, and convert its pictures.

    Args:
        reader: Reads the parts; large ones are open until its ``release()``.
        row: The row.
        options: What to do with pictures.

    Raises:
        EnergonError: A part cannot be read.
        StrayCoordinatesError: Coordinates would no longer fit their picture.
        SampleError: A picture cannot be converted.
    """
    contents: dict[str, bytes | FileContents] = {}
    coco: set[str] = set()
    for name, part in row.parts.items():
        data = reader.read(row.source, part)
        if isinstance(part, FileRef | UrlRef | CellRef) and part.named_by_contents:
            name = name_by_contents(name, data)  # noqa: PLW2901 - the name in the row is a guess
        check_contents(name, data)
        name = unique_part(name, contents)  # noqa: PLW2901
        contents[name] = data
        if isinstance(part, ValueRef) and part.layout == "coco":
            coco.add(name)
    read_bytes = sum(data.size_bytes if isinstance(data, FileContents) else len(data) for data in contents.values())
    sample = SampleContents({**contents}, Counter())
    if options.pages == "split":
        contents = split_pages(contents)
    if not options.keeps_bytes:
        sample = _Sample(contents, coco, options).converted()
    if options.pages == "split":
        sample = sample._replace(parts=with_document(sample.parts))
    sample.changed["frames_unread"] += sum(has_frames(name, data) for name, data in sample.parts.items())
    return sample._replace(read_bytes=read_bytes)


class _Sample:
    """The parts of a sample whose pictures are converted."""

    def __init__(self, contents: Mapping[str, bytes | FileContents], coco: set[str], options: PictureOptions) -> None:
        self._contents = contents
        self._coco = coco
        self._options = options
        self._changed: Counter[str] = Counter()

    def converted(self) -> SampleContents:
        pictures = self._pictures()
        changes = [picture.change for picture in pictures.values() if picture.change is not None]
        parts: dict[str, PartContents] = {}
        for name, data in self._contents.items():
            if name in pictures:
                picture = pictures[name]
                self._changed.update(picture.losses)
                parts[unique_part(picture.name, parts)] = picture.data
            elif changes and not isinstance(data, FileContents):
                parts[unique_part(name, parts)] = self._with_moved_coordinates(name, data, changes)
            else:
                parts[unique_part(name, parts)] = data
        return SampleContents(parts, self._changed)

    def _pictures(self) -> dict[str, ConvertedPicture]:
        """Convert the pictures; those that masks belong to are the first."""
        names = [name for name in self._contents if kind_of_name(name) == "image" and not name.endswith(".gz")]
        masks = _masks({name: self._contents[name] for name in names})
        converted: dict[str, ConvertedPicture] = {}
        main: PictureChange | None = None
        for name in sorted(names, key=lambda name: name in masks):
            converted[name] = convert_picture(
                name, self._contents[name], self._options, is_mask=name in masks, turned_like=main
            )
            if name not in masks:
                main = main or converted[name].change
        return converted

    def _with_moved_coordinates(self, name: str, data: bytes, changes: Sequence[PictureChange]) -> bytes:
        rest = data
        if name in self._coco and len(changes) == 1:
            try:
                document: dict[str, Any] = msgspec.json.decode(data)
                data = msgspec.json.encode(move_document(document, changes[0]))
                rest = msgspec.json.encode(_without_moved(document))
                self._changed["geometry_moved"] += 1
            except SampleError as error:
                if self._options.geometry == "refuse":
                    raise SampleError(f"{name}: {error.message}", at=name) from error
        elif _has_size(name, data, changes):
            self._changed["sizes_kept"] += 1
        found = find_coordinates(name, rest)
        is_turned = any(change.is_turned for change in changes)
        if found is None or (found.is_relative and not is_turned):
            return data
        if self._options.geometry == "refuse":
            raise _stray(found, changes, is_turned=is_turned)
        self._changed["geometry_ignored"] += 1
        return data


def _without_moved(value: Any) -> Any:
    """Return a document without what :func:`move_document` moves."""
    if isinstance(value, dict):
        return {name: _without_moved(item) for name, item in value.items() if not is_moved(name)}
    return [_without_moved(item) for item in value] if isinstance(value, list) else value


def _has_size(name: str, data: bytes, changes: Sequence[PictureChange]) -> bool:
    """Return True if a document states the width and height that a picture had."""
    if part_extension(name) != "json":
        return False
    try:
        size = msgspec.json.decode(data, type=_Size)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return False
    return any((size.width, size.height) == change.stored != change.written for change in changes)


class _Size(msgspec.Struct):
    width: float
    height: float


def _stray(found: Coordinates, changes: Sequence[PictureChange], *, is_turned: bool) -> StrayCoordinatesError:
    change = next((change for change in changes if change.is_turned), changes[0])
    sizes = " to ".join(f"{width} × {height}" for width, height in (change.stored, change.written))
    return StrayCoordinatesError(
        f"{found.place} has coordinates, and its picture would be {'turned' if is_turned else 'resized'} from {sizes}"
        " pixels; --geometry ignore writes them as they are",
        hint="omit --resize and --orient, or pass --geometry ignore if they are not those of the picture",
    )


def _masks(pictures: Mapping[str, bytes | FileContents]) -> set[str]:
    """Return the pictures whose pixels are classes or distances.

    Their name says so, or they have one channel and no losses, and there is a picture with colors of their size.
    """
    masks = {name for name in pictures if not _MASK_WORDS.isdisjoint(re.split(r"[^a-z]+", name.lower()))}
    if len(pictures) == 1 or masks:
        return masks
    headers = {name: _header(data) for name, data in pictures.items() if not _PAGE.fullmatch(name)}
    colored = {size for mode, size, _ in headers.values() if mode not in _SINGLE_CHANNEL}
    return {
        name
        for name, (mode, size, kind) in headers.items()
        if mode in _SINGLE_CHANNEL and kind in ("PNG", "TIFF", "BMP") and size in colored
    }


def _header(data: bytes | FileContents) -> tuple[str, tuple[int, int], str]:
    """Return mode, size and format of a picture; nothing for one that cannot be read, which its conversion reports."""
    file: Any = data.file if isinstance(data, FileContents) else io.BytesIO(data)
    try:
        picture = Image.open(file)
        return picture.mode, picture.size, picture.format or ""
    except (OSError, ValueError, SyntaxError, EnergonError, Image.DecompressionBombError):
        return "", (0, 0), ""
    finally:
        file.seek(0)


def name_by_contents(name: str, contents: bytes | FileContents) -> str:
    """Return a part name with the extension of the contents; as it is if their format is unknown.

    Raises:
        StorageError: The contents cannot be read.
    """
    if not isinstance(contents, FileContents):
        return with_extension(name, contents)
    file = contents.file
    try:
        head = file.read(HEADER_BYTES)
        file.seek(0, os.SEEK_SET)
    except OSError as error:
        raise StorageError(f"cannot read the start of a file: {error.strerror}") from error
    return with_extension(name, head)
