"""Captions or detections in the JSON of COCO: a sample for each picture."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, islice, pairwise
from typing import Any
from urllib.parse import unquote

import msgspec
import numpy as np

from ...arrays import IntArray
from ...errors import SampleError
from ..annotations.coordinates import area_of
from ..annotations.json_elements import Element, ElementList, decode, fault_row, list_in, object_of, open_lists
from ..rows.key_names import key_of_path
from ..rows.row import FaultRef, PartRef, Row, ValueRef
from ..tables.named_files import NamedFiles, is_link, path_of_url
from ..tables.split_names import split_of_file
from .source import AnnotationSource, Listing, picture_extension, picture_ref

_FIRST = 100
"""Annotations that tell captions from objects."""


_Id = int | float | str
_Segments = list[dict[str, msgspec.Raw]]


class _Image(msgspec.Struct):
    id: _Id
    file_name: str = ""
    coco_url: str = ""
    flickr_url: str = ""
    url: str = ""

    def name(self) -> str:
        """Return the name of the picture: its path, or the path of its URL."""
        if self.file_name:
            return self.file_name
        url = self.coco_url or self.flickr_url or self.url
        name = unquote(path_of_url(url) if is_link(url) else url)
        if not name.rpartition("/")[2]:
            raise SampleError("has no file_name, coco_url or flickr_url")
        return name


class _Object(msgspec.Struct):
    image_id: _Id
    id: _Id | None = None


class _Caption(_Object, kw_only=True):
    caption: str


class _Category(msgspec.Struct):
    id: _Id
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CocoSource(AnnotationSource):
    """The pictures of a COCO file with their captions, or their objects.

    A picture with captions has the parts ``jpg``, ``txt`` (the first caption) and ``json`` (all); one without fails. A
    picture with objects, or with an empty list of them, has the parts ``jpg`` and ``json``.
    """

    kind: str = "coco"

    def rows(self, listing: Listing) -> Iterator[Row]:
        with open_lists(self.path) as lists:
            file = _CocoFile(self.path, lists)
            for row in file.rows(self.named_files(listing)):
                if self.files is None:
                    listing.pictures.add(row.parts.values())
                yield row
        listing.notes.extend(file.notes)


class _CocoFile:
    def __init__(self, path: str, lists: Mapping[str, ElementList | None]) -> None:
        self._path = path
        self._images = list_in(lists, "images", path=path)
        self._annotations = list_in(lists, "annotations", path=path)
        categories = list_in(lists, "categories", path=path) if "categories" in lists else ()
        # One annotation may be damaged, so several are inspected.
        self._has_captions = any(map(_is_caption, islice(self._annotations, _FIRST)))
        self._repeats: dict[int, str] = {}  # number of an image → what is wrong, if another one has its id
        self._unnamed: list[object] = []  # ids of categories that are not defined
        self.notes: list[str] = []
        self._categories = {}
        # Objects get the names of their categories.
        for element in categories:
            category = decode(element, _Category)
            self._categories[_plain_id(category.id)] = category.name

    def rows(self, files: NamedFiles) -> Iterator[Row]:
        # Find the annotations of each picture.
        split = split_of_file(self._path)
        faults: list[Row] = []
        owners = self._owners(faults)
        order = np.argsort(owners, kind="stable")
        bounds = np.searchsorted(owners[order], np.arange(len(self._images) + 1))
        # Make rows in the order of the pictures; annotations without a picture are rows that fail.
        rows = (
            self._row(image, files, [self._annotations[n] for n in order[start:stop].tolist()])
            for image, (start, stop) in enumerate(pairwise(bounds.tolist()))
        )
        for row in chain(rows, faults):
            yield msgspec.structs.replace(row, split=split) if split else row
        if self._unnamed:
            fault = f"objects of categories that are not defined: {len(self._unnamed):,}, such as {self._unnamed[0]!r}"
            self.notes.append(f"{fault}; they have no name of a category")

    def _owners(self, faults: list[Row]) -> IntArray:
        """Return the number of the image of each annotation, -1 for none, which is a fault."""
        # Find the image of each annotation by its id.
        numbers = self._numbers_of_images()
        hashes = np.arange(len(self._annotations))  # of ids; those of annotations without one repeat no other
        owners = np.full(len(self._annotations), -1, np.int64)
        kind: type[_Object | _Caption] = _Caption if self._has_captions else _Object
        for index, element in enumerate(self._annotations):
            try:
                annotation = decode(element, kind)
            except SampleError as error:
                faults.append(fault_row(element, error))
                continue
            if annotation.id is not None:
                hashes[index] = hash(repr(_plain_id(annotation.id)))
            owners[index] = numbers.get(_plain_id(annotation.image_id), -1)
            if owners[index] < 0:
                faults.append(fault_row(element, f"no image has the id {annotation.image_id!r}"))
        _, firsts, groups = np.unique(hashes, return_index=True, return_inverse=True)
        repeats = np.flatnonzero(firsts[groups] != np.arange(len(hashes)))
        if len(repeats):
            first = int(firsts[groups[repeats[0]]])
            identifier = _plain_id(decode(self._annotations[first], kind).id)
            self.notes.append(
                f"annotations with the id of an earlier one: {len(repeats):,}, such as {identifier!r} of element"
                f" {first:,}; all are written"
            )
        return owners

    def _numbers_of_images(self) -> dict[int | str, int]:
        numbers: dict[int | str, int] = {}
        for index, element in enumerate(self._images):
            try:
                image = decode(element, _Image)
                name = image.name()
            except SampleError:
                continue  # its row fails
            # The first image keeps the id; it is in doubt, too, if both are different pictures.
            first = numbers.setdefault(_plain_id(image.id), index)
            if first == index:
                continue
            self._repeats[index] = f"element {first:,} has the same id"
            if decode(self._images[first], _Image).name() != name:  # annotations may be those of either
                self._repeats.setdefault(first, f"element {index:,} has the same id")
        return numbers

    def _row(self, index: int, files: NamedFiles, annotations: list[Element]) -> Row:
        element = self._images[index]
        if index in self._repeats:
            return fault_row(element, self._repeats[index])
        try:
            path = decode(element, _Image).name()
            name = files.name(path)
            picture = picture_ref(files, path)
            parts: dict[str, PartRef] = {picture_extension(name): picture}
            # Keep all fields of the image, and add its captions or objects.
            fields = object_of(element)
            document: dict[str, object] = {"image_id": fields.pop("id"), **fields}
            if self._has_captions:
                captions = [decode(annotation, _Caption).caption for annotation in annotations]
                if not captions:
                    return fault_row(element, f"{name} has no caption")
                document["captions"] = captions
                parts["txt"] = ValueRef(captions[0].strip().encode())
            else:
                if isinstance(picture, FaultRef):  # the sample fails without its objects, which may be very many
                    annotations = []
                document["objects"] = [each for annotation in annotations for each in self._objects(annotation)]
            is_lossy = any(each.is_lossy for each in (element, *([] if self._has_captions else annotations)))
            parts["json"] = ValueRef(msgspec.json.encode(document), layout="coco", is_lossy=is_lossy)
        except SampleError as error:
            return fault_row(element, error)
        return Row(key=key_of_path(os.path.splitext(name)[0]), parts=parts, origin=element.place)

    def _objects(self, annotation: Element) -> Iterator[dict[str, object]]:
        fields: dict[str, object] = {**object_of(annotation)}
        del fields["image_id"]
        # The segments of a panoptic annotation are the objects; its file has their pixels.
        segments = fields.pop("segments_info", None)
        try:
            for segment in msgspec.json.decode(segments, type=_Segments) if isinstance(segments, msgspec.Raw) else [{}]:
                yield self._object({**fields, **segment})
        except msgspec.MsgspecError as error:
            raise SampleError(f"segments_info is damaged: {error}") from error

    def _object(self, fields: dict[str, object]) -> dict[str, object]:
        # Add the name of the category, and the area where it is missing.
        category = fields.get("category_id")
        if isinstance(category, msgspec.Raw):
            value = msgspec.json.decode(category)
            name = self._categories.get(_plain_id(value)) if isinstance(value, _Id) else None
            fields |= {} if name is None else {"category": name}
            self._unnamed += [value] if name is None and self._categories else []
        if "area" not in fields:
            with suppress(SampleError):  # of a polygon that is damaged; it is written as it is
                area = area_of(msgspec.json.decode(msgspec.json.encode(fields)))
                fields |= {} if area is None else {"area": area}
        return fields


def _plain_id(value: Any) -> Any:
    """Return an id in the form that ids of images and annotations are compared in: 7 for ``7``, ``7.0`` and ``"7"``."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and value == str(int(value)):
        return int(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _is_caption(element: Element) -> bool:
    try:
        return "caption" in object_of(element)
    except SampleError:
        return False  # its row fails
