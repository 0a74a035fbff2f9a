"""Read the parts of a row, divide documents into pages, and convert pictures together with what belongs to them."""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import msgspec

from ...errors import EnergonError, SampleError, StorageError
from ...parts.kinds import HEADER_BYTES, kind_of_bytes, kind_of_name, part_extension, with_extension
from ..annotations.coordinates import PictureChange, Size, is_moved, move_document
from ..annotations.known_coordinates import Coordinates, find_coordinates
from ..readers.reader import About, Annotation
from ..readers.registry import read_annotation
from ..rows.documents import Item, lined_up_items, with_items
from ..rows.row import AnnotationRef, CellRef, FileRef, Row, UrlRef, ValueRef, unique_part
from ..tables.part_values import LossyJson
from ..writing.shard_file import FileContents, PartContents
from .contents import ContentReader, check_contents
from .cut_sounds import ShortenedSound
from .pictures import (
    PLAIN_MODES,
    UNREADABLE,
    ConvertedPicture,
    PictureOptions,
    convert_picture,
    count_frames,
    is_small_copy,
    opened_picture,
    upright_size,
)

_PIXELS_WITH_CLASSES = """
    annotation annotations depth disparity instance instances label labelmap labels mask masks panoptic seg segm
    segmentation semantic trimap
"""
_MASK_WORDS = frozenset(_PIXELS_WITH_CLASSES.split())
"""Words in the names of parts whose pixels are classes or distances."""

_PAGE = re.compile(r"\d+\.[^.]+")  # pictures of a document, which are no masks of each other
_NAMED = (FileRef, UrlRef, CellRef)
_SINGLE_CHANNEL = ("1", "L", "P", "I", "I;16", "I;16B")


class StrayCoordinatesError(SampleError):
    """Coordinates of an unknown layout would stay where they are while their picture is turned or resized."""


class SampleContents(NamedTuple):
    """The parts of a sample as they are written.

    Attributes:
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
        options: What to do with pictures.

    Raises:
        EnergonError: A part cannot be read.
        StrayCoordinatesError: Coordinates would no longer fit their picture.
        SampleError: A picture cannot be converted.
    """
    contents: dict[str, bytes | FileContents] = {}
    coco: set[str] = set()
    lossy = shortened = 0
    # Read the parts, under names that their contents may decide.
    for name, part in row.parts.items():
        data = reader.read(row.source, part)
        stored = part.part if isinstance(part, AnnotationRef) else part
        has_objects = stored is not part
        if isinstance(stored, ValueRef):
            has_objects |= stored.layout == "coco"
            lossy += stored.is_lossy
        elif isinstance(part, _NAMED) and part.named_by_contents:
            name = name_by_contents(name, data)  # noqa: PLW2901 - the name in the row is a guess
        # An empty text may say that a picture has no objects.
        check_contents("txt" if stored is not part else name, data)
        if name in contents:
            name = unique_part(name, contents)  # noqa: PLW2901
        contents[name] = data
        if has_objects:
            coco.add(name)
        shortened += type(data) is ShortenedSound
        lossy += type(data) is LossyJson
    # Count the bytes before pictures change them.
    read_bytes = sum(data.size_bytes if isinstance(data, FileContents) else len(data) for data in contents.values())
    for name, part in row.parts.items():
        if isinstance(part, AnnotationRef):
            contents[name] = _objects(name, contents, part.reader, reader.about(row.source, part))
    sample = SampleContents({**contents}, Counter())
    # Divide documents into pages, convert pictures, and bring pages and texts in order.
    if options.pages == "split":
        contents = split_pages(contents)
    if not options.keeps_bytes:
        sample = _converted(contents, coco, options)
    if options.pages == "split":
        sample = sample._replace(parts=with_document(sample.parts))
    if lossy or shortened:
        sample.changed.update(numbers_lost=lossy, segments_shortened=shortened)
    sample.changed["frames_unread"] += sum(has_frames(name, data) for name, data in sample.parts.items())
    return sample._replace(read_bytes=read_bytes)


def _objects(name: str, contents: Mapping[str, bytes | FileContents], kind: str, about: About) -> bytes:
    """Return the annotations in a part as objects in JSON."""
    data = contents[name]
    if isinstance(data, FileContents):
        raise SampleError(f"the annotations have {len(data):,} bytes, which is too many for one picture", at=name)

    def size() -> Size:
        pictures = {name: contents[name] for name in contents if kind_of_name(name) == "image"}
        masks = _masks(pictures) if len(pictures) > 1 else set()
        shown = sorted(pictures.keys() - masks, key=lambda name: ("." in name, name))
        # The picture with a plain name is meant, or else any of several pictures of one size.
        sizes = (
            {upright_size(pictures[name]) for name in (shown[:1] if "." not in shown[0] else shown)} if shown else set()
        )
        if len(sizes) != 1:
            raise SampleError(
                f"expected one picture that the boxes are for, found {len(shown)} of other sizes", at=name
            )
        return sizes.pop()

    return msgspec.json.encode(read_annotation(kind, Annotation(data, about, size)))


def _converted(contents: Mapping[str, bytes | FileContents], coco: set[str], options: PictureOptions) -> SampleContents:
    pictures = _converted_pictures(contents, options)
    changes = [picture.change for picture in pictures.values() if picture.change is not None]
    sample = SampleContents({}, Counter())
    for name, data in contents.items():
        written: PartContents = data
        if name in pictures:
            picture = pictures[name]
            sample.changed.update(picture.losses)
            # A converted picture may have another format, and so another name.
            name, written = picture.name, picture.data  # noqa: PLW2901 - the format of a picture names its part
        elif changes and not isinstance(data, FileContents):
            written, change = _with_moved_coordinates(name, data, changes, is_coco=name in coco, options=options)
            sample.changed.update(change)
        sample.parts[unique_part(name, sample.parts)] = written
    return sample


def _converted_pictures(
    contents: Mapping[str, bytes | FileContents], options: PictureOptions
) -> dict[str, ConvertedPicture]:
    names = [name for name in contents if kind_of_name(name) == "image" and not name.endswith(".gz")]
    masks = _masks({name: contents[name] for name in names})
    converted: dict[str, ConvertedPicture] = {}
    main: PictureChange | None = None
    # Masks come last, since they are turned as the picture that they belong to.
    for name in sorted(names, key=lambda name: name in masks):
        is_mask = name in masks
        converted[name] = convert_picture(name, contents[name], options, is_mask=is_mask, turned_like=main)
        if not is_mask:
            main = main or converted[name].change
    return converted


def _with_moved_coordinates(
    name: str, data: bytes, changes: Sequence[PictureChange], *, is_coco: bool, options: PictureOptions
) -> tuple[bytes, list[str]]:
    rest, changed = data, list[str]()
    # Move COCO's coordinates, and look for others in what is left.
    if is_coco and len(changes) == 1:
        try:
            document: dict[str, Any] = msgspec.json.decode(data)
            data = msgspec.json.encode(move_document(document, changes[0]))
            rest = msgspec.json.encode(_without_moved(document))
            changed.append("geometry_moved")
        except SampleError as error:
            if options.geometry == "refuse":
                raise SampleError(f"{name}: {error.message}", at=name) from error
    elif _has_size(name, data, changes):
        changed.append("sizes_kept")
    # Coordinates that were not moved would no longer fit.
    coordinates = find_coordinates(name, rest)
    is_turned = any(change.is_turned for change in changes)
    if coordinates is not None and (is_turned or not coordinates.is_relative):
        if options.geometry == "refuse":
            raise _stray(coordinates, changes, is_turned=is_turned)
        changed.append("geometry_ignored")
    return data, changed


def _without_moved(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_moved(item) for name, item in value.items() if not is_moved(name)}
    return [_without_moved(item) for item in value] if isinstance(value, list) else value


def _has_size(name: str, data: bytes, changes: Sequence[PictureChange]) -> bool:
    if part_extension(name) != "json":
        return False
    try:
        document = msgspec.json.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return False
    size = (document.get("width"), document.get("height")) if isinstance(document, dict) else None
    return any(size == change.stored != change.written for change in changes)


def _stray(coordinates: Coordinates, changes: Sequence[PictureChange], *, is_turned: bool) -> StrayCoordinatesError:
    change = next((change for change in changes if change.is_turned), changes[0])
    sizes = " to ".join(f"{width} × {height}" for width, height in (change.stored, change.written))
    verb = "turned" if is_turned else "resized"
    return StrayCoordinatesError(
        f"{coordinates.place} has coordinates, and its picture would be {verb} from {sizes} pixels;"
        " --geometry ignore writes them as they are",
        hint="omit --resize and --orient, or pass --geometry ignore if they are not those of the picture",
    )


def _masks(pictures: Mapping[str, bytes | FileContents]) -> set[str]:
    """Return the pictures whose pixels are classes or distances.

    Their name says so, or they have one channel and no losses, and there is a picture with colors of their size.
    """
    masks = {name for name in pictures if not _MASK_WORDS.isdisjoint(re.split(r"[^a-z]+", name.lower()))}
    if len(pictures) == 1 or masks:
        return masks
    # Without a name that says so, compare channels and sizes.
    headers = {name: _header(data) for name, data in pictures.items() if not _PAGE.fullmatch(name)}
    colored = {size for mode, size, _ in headers.values() if mode not in _SINGLE_CHANNEL}
    return {
        name
        for name, (mode, size, kind) in headers.items()
        if mode in _SINGLE_CHANNEL and kind in ("PNG", "TIFF", "BMP") and size in colored
    }


def _header(data: bytes | FileContents) -> tuple[str, tuple[int, int], str]:
    """Return mode, size and format of a picture; nothing for one that cannot be read, which its conversion reports."""
    try:
        with opened_picture(data) as picture:
            return picture.mode, picture.size, picture.format or ""
    except (*UNREADABLE, EnergonError):
        return "", (0, 0), ""


def name_by_contents(name: str, contents: bytes | FileContents) -> str:
    """Return a part name with the extension of the contents; as it is if their format is unknown."""
    return with_extension(name, _head(contents, HEADER_BYTES))


_PNG_HEAD_BYTES = 1 << 16  # within which an animated PNG says so
_TEXT_KEYS = ("text", "content", "caption")


def has_frames(name: str, data: PartContents) -> bool:
    """Return True for a picture with later frames or pages; smaller copies of the first do not count.

    Most pictures are recognised by their first bytes. The second picture in a JPEG file is no frame.
    """
    if kind_of_name(name) != "image":
        return False
    # The first bytes tell the format; few formats have frames.
    extension = kind_of_bytes(_head(data, HEADER_BYTES)).extension
    if extension == "png":  # counting its frames would take longer than writing it
        return b"acTL" in _head(data, _PNG_HEAD_BYTES).partition(b"IDAT")[0]
    if extension not in ("avif", "gif", "tif", "webp"):
        return False
    try:
        with opened_picture(data) as picture:
            return count_frames(picture) > 1
    except UNREADABLE:
        return False  # a damaged picture is written as it is


def _head(data: PartContents, size_bytes: int) -> bytes:
    if not isinstance(data, FileContents):
        return bytes(data[:size_bytes])
    try:
        head = data.file.read(size_bytes)
        data.file.seek(0)
    except OSError as error:
        raise StorageError(f"cannot read the start of a file: {error.strerror}") from error
    return bytes(head or b"")


def split_pages(contents: Mapping[str, bytes | FileContents]) -> dict[str, bytes | FileContents]:
    """Return the parts of a sample with each page of its TIFF pictures as a part: ``0.png``, ``1.png`` for ``tif``.

    A picture of one page keeps its bytes: ``0.tif``. Pages of a mode that PNG does not have are TIFF.
    """
    parts: dict[str, bytes | FileContents] = {}
    for name, data in contents.items():
        if kind_of_name(name) != "image" or kind_of_bytes(_head(data, HEADER_BYTES)).extension != "tif":
            parts[name] = data
            continue
        # Number the pages of a document, where its name was.
        stem, dot, extension = name.rpartition(".")
        pages: Sequence[tuple[str, bytes | FileContents]] = _pages(name, data) or [(extension, data)]
        parts |= {f"{stem}{dot}{index}.{kind}": page for index, (kind, page) in enumerate(pages)}
    return parts


def _pages(name: str, data: PartContents) -> list[tuple[str, bytes]]:
    """Return the extension and contents of each page; none for a picture of one page."""
    pages: list[tuple[str, bytes]] = []
    frame = 0
    try:
        with opened_picture(data) as picture:
            several = picture.n_frames if count_frames(picture) > 1 else 0
            for frame in range(several):
                picture.seek(frame)
                if frame and is_small_copy(picture, frame):
                    continue
                picture.load()
                is_png = picture.mode in PLAIN_MODES["png"]
                kind = {"format": "PNG"} if is_png else {"format": "TIFF", "compression": "tiff_adobe_deflate"}
                kept = {key: picture.info[key] for key in ("dpi", "icc_profile") if picture.info.get(key)}
                page = io.BytesIO()
                picture.copy().save(page, **kind, **kept)
                pages.append(("png" if is_png else "tif", page.getvalue()))
    except UNREADABLE as error:
        raise SampleError(f"page {frame} cannot be decoded: {error}", part=name) from error
    return pages


def with_document(parts: Mapping[str, PartContents]) -> dict[str, PartContents]:
    """Return parts with the pages of a document and its text in reading order: ``texts`` and ``images`` in ``json``.

    Texts in ``json[texts]`` line up with the pages; another text follows the last one. Samples without text, with
    other media, or with ``json[images]`` stay as they are.

    Args:
        parts: Part name → contents, with numbered pages.
    """
    # Only samples of pages, a text and a document can be in reading order.
    pages = [name for name in parts if _PAGE.fullmatch(name) and kind_of_name(name) == "image"]
    others = {kind_of_name(name): name for name in parts if name not in pages}
    values = {kind: parts[name] for kind, name in others.items()}
    is_alone = len(pages) + len(others) == len(parts) and {*others} <= {"text", "tree"}
    if not pages or not is_alone or any(isinstance(value, FileContents) for value in values.values()):
        return {**parts}
    # Find the order in the document and the text.
    tree = others.get("tree", "json")
    try:
        document: dict[str, Any] = msgspec.json.decode(cast("bytes", values.get("tree", b"{}")), type=dict[str, Any])
        items = _items(document, pages, cast("bytes", values.get("text", b"")).decode("utf-8-sig"))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, SampleError):
        return {**parts}
    if "images" in document or not items or tree.lower() not in ("json", "jsn"):
        return {**parts}
    return {**{name: parts[name] for name in pages}, tree: msgspec.json.encode(with_items(document, items, pages))}


def _items(document: dict[str, Any], pages: Sequence[str], text: str) -> list[Item]:
    """Return pages and texts in reading order; none if the texts do not fit."""
    if isinstance(document.get("texts"), list):
        return [] if text else lined_up_items(document["texts"], pages)
    text = text or next((document[key] for key in _TEXT_KEYS if isinstance(document.get(key), str)), "")
    return [*(Item(picture=page) for page in pages), Item(text=text)] if text else []
