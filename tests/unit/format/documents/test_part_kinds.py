from __future__ import annotations

import pytest
from webdataset.autodecode import IMAGE_EXTENSIONS, decoders

from loader.format.documents import part_kinds
from loader.format.documents.part_kinds import part_extension, part_kind


@pytest.mark.parametrize(
    ("part_name", "kind"),
    [
        ("jpg", "image"),
        ("JPG", "image"),
        ("seg.png", "image"),
        ("jpg.seg", "bytes"),
        ("txt", "text"),
        ("TXT", "text"),
        ("Json.GZ", "tree"),
        ("left.CLS", "label"),
        ("NPY", "array"),
        ("PKL", "pickle"),
        ("left.txt", "text"),
        ("cls", "label"),
        ("json", "tree"),
        ("json.gz", "tree"),
        ("gz", "bytes"),
        ("npy", "array"),
        ("pkl", "pickle"),
        ("mp4", "video"),
        ("MP4", "video"),
        ("wav", "audio"),
        ("bin", "bytes"),
        ("", "bytes"),
    ],
)
def test_the_last_extension_tells_what_a_part_holds(part_name: str, kind: str) -> None:
    assert part_kind(part_name) == kind


def test_compression_is_no_extension() -> None:
    assert part_extension("json.gz") == "json"
    assert part_extension("json.gz.gz") == "gz"


def test_the_images_are_those_of_webdataset_but_for_four_that_are_none() -> None:
    assert frozenset(IMAGE_EXTENSIONS) - part_kinds.IMAGE == {"mpg", "mpeg", "h5", "hdf"}
    assert frozenset(IMAGE_EXTENSIONS) >= part_kinds.IMAGE


def test_everything_that_webdataset_decodes_is_decoded_and_jsonl() -> None:
    ours = part_kinds.ARRAY | part_kinds.LABEL | part_kinds.PICKLE | part_kinds.TEXT | part_kinds.TREE
    assert ours == set(decoders) | {"jsonl"}


def test_no_extension_is_of_two_kinds() -> None:
    sets = ("ARRAY", "AUDIO", "IMAGE", "LABEL", "PICKLE", "TEXT", "TREE", "VIDEO")
    names = [name for kind in sets for name in getattr(part_kinds, kind)]
    assert len(names) == len(set(names))
