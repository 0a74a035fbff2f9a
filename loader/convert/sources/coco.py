"""Captions or detections in the JSON of COCO: a sample for each picture."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, pairwise

import msgspec
import numpy as np
import numpy.typing as npt

from ...errors import SampleError
from ..annotations.element_rows import fault_row
from ..annotations.json_elements import Element, decode, object_of, read_list, read_object
from ..annotations.picture_files import find_picture_folder, picture_extension, picture_ref
from ..annotations.split_names import split_of_file, subset_of_file
from ..rows.keys import key_of_path
from ..rows.row import PartRef, Row, ValueRef
from .source import Listing, SampleProposal, Source

__all__ = ["CocoSource"]


_FIRST = 100
"""Annotations that tell captions from objects."""


class _Image(msgspec.Struct):
    id: int | str
    file_name: str


class _Object(msgspec.Struct):
    image_id: int | str


class _Caption(msgspec.Struct):
    image_id: int | str
    caption: str


class _Category(msgspec.Struct):
    id: int | str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CocoSource(Source):
    """The pictures of a COCO file with their captions, or their objects.

    A picture with captions has the parts ``jpg``, ``txt`` (the first caption) and ``json`` (all); one without fails. A
    picture with objects has the parts ``jpg`` and ``json``, also if there are none.

    Attributes:
        path: The file.
        root: Folder of the pictures; None finds it near the file.
    """

    path: str
    root: str | None = None
    kind: str = "coco"

    def rows(self, listing: Listing) -> Iterator[Row]:  # noqa: ARG002 - files are read in any order
        """Yield the samples in the order of ``images``, then the annotations that belong to none.

        Raises:
            ConfigError: The file has no ``images`` or ``annotations``, or the pictures cannot be found.
            FormatError: It is not valid JSON.
            StorageError: It cannot be read.
        """
        yield from _CocoFile(self.path).rows(self.root)

    def proposal(self) -> SampleProposal:
        """Return the type for captions, or the crude one for objects."""
        return _CocoFile(self.path).proposal()


class _CocoFile:
    """The lists of a COCO file."""

    def __init__(self, path: str) -> None:
        self._path = path
        fields = read_object(path)
        self._images = read_list(fields, "images", path=path)
        self._annotations = read_list(fields, "annotations", path=path)
        categories = read_list(fields, "categories", path=path) if "categories" in fields else []
        self._has_captions = any(_is_caption(element) for element in self._annotations[:_FIRST])
        self._repeats: dict[int, int] = {}  # number of an image → number of an earlier one with its id
        self._categories = {}
        for element in categories:
            category = decode(element, _Category)
            self._categories[category.id] = category.name

    def proposal(self) -> SampleProposal:
        if not self._has_captions:
            return SampleProposal(sample_type="CrudeSample")
        parts = dict.fromkeys(picture_extension(image.file_name) for image in self._valid_images())
        return SampleProposal(sample_type="CaptioningSample", field_map={"image": ",".join(parts), "caption": "txt"})

    def rows(self, root: str | None) -> Iterator[Row]:
        names = ([image.file_name] for image in self._valid_images())
        folder, _ = find_picture_folder(self._path, root, names, subset=subset_of_file(self._path))
        split = split_of_file(self._path)
        faults: list[Row] = []
        owners = self._owners(faults)
        order = np.argsort(owners, kind="stable")
        bounds = np.searchsorted(owners[order], np.arange(len(self._images) + 1))
        rows = (
            self._row(number, folder, [self._annotations[n] for n in order[start:stop].tolist()])
            for number, (start, stop) in enumerate(pairwise(bounds.tolist()))
        )
        for row in chain(rows, faults):
            yield msgspec.structs.replace(row, split=split) if split else row

    def _valid_images(self) -> Iterator[_Image]:
        for element in self._images:
            try:
                yield decode(element, _Image)
            except SampleError:
                continue  # its row fails

    def _owners(self, faults: list[Row]) -> npt.NDArray[np.int64]:
        """Return the number of the image of each annotation, -1 for none, which is a fault."""
        numbers: dict[int | str, int] = {}
        for number, element in enumerate(self._images):
            try:
                first = numbers.setdefault(decode(element, _Image).id, number)
            except SampleError:
                continue  # its row fails
            if first != number:
                self._repeats[number] = first
        owners = np.full(len(self._annotations), -1, np.int64)
        kind: type[_Object | _Caption] = _Caption if self._has_captions else _Object
        for number, element in enumerate(self._annotations):
            try:
                image = decode(element, kind).image_id
            except SampleError as error:
                faults.append(fault_row(element, error))
                continue
            owners[number] = numbers.get(image, -1)
            if owners[number] < 0:
                faults.append(fault_row(element, f"no image has the id {image!r}"))
        return owners

    def _row(self, number: int, folder: str, annotations: list[Element]) -> Row:
        element = self._images[number]
        if number in self._repeats:
            return fault_row(element, f"element {self._repeats[number]:,} has the same id")
        try:
            image = decode(element, _Image)
            picture = {picture_extension(image.file_name): picture_ref(folder, image.file_name)}
            fields = object_of(element)
            document: dict[str, object] = {"image_id": fields.pop("id"), **fields}
            texts: dict[str, PartRef] = {}
            if self._has_captions:
                captions = [decode(annotation, _Caption).caption for annotation in annotations]
                if not captions:
                    return fault_row(element, f"{image.file_name} has no caption")
                document["captions"] = captions
                texts["txt"] = ValueRef(captions[0].strip().encode())
            else:
                document["objects"] = [self._object(annotation) for annotation in annotations]
            parts = {**picture, **texts, "json": ValueRef(msgspec.json.encode(document))}
        except SampleError as error:
            return fault_row(element, error)
        return Row(key=key_of_path(os.path.splitext(image.file_name)[0]), parts=parts, origin=element.place)

    def _object(self, annotation: Element) -> dict[str, object]:
        fields: dict[str, object] = {**object_of(annotation)}
        del fields["image_id"]
        category = fields.get("category_id")
        if isinstance(category, msgspec.Raw):
            name = self._categories.get(msgspec.json.decode(category))
            if name is not None:
                fields["category"] = name
        return fields


def _is_caption(element: Element) -> bool:
    try:
        return "caption" in object_of(element)
    except SampleError:
        return False  # its row fails
