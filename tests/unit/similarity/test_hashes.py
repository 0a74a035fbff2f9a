"""Hashes of pictures and texts: copies are recognised after edits, and different contents are kept apart."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from functools import cache

import msgspec
import numpy as np
import pytest
from demo_photographs import FOLDER as PHOTOGRAPHS
from PIL import Image, ImageDraw, ImageFont

from loader.arrays import Components
from loader.errors import SkipSample
from loader.format.columns.column import Column, VectorColumn
from loader.format.columns.column_record import ColumnRecord
from loader.similarity import hash_picture, hash_text, near_duplicate_groups
from loader.similarity.vectors import THRESHOLDS, vectors_of

WORDS = ("the", "of", "and", "a", "to", "in", "you", "that", "was", "for", "are", "with", "they", "have", "or")
TILE = 128  # pixels of a scene in a photograph

EDITS: dict[str, Callable[[Image.Image], Image.Image]] = {
    "half the size": lambda picture: picture.resize(
        (picture.width // 2, picture.height // 2), Image.Resampling.LANCZOS
    ),
    "JPEG 50": lambda picture: picture,
    "2 % cut off each side, and smaller": lambda picture: cropped(picture, 0.02).resize((170, 170)),
    "5 % cut off each side": lambda picture: cropped(picture, 0.05),
}


def cropped(picture: Image.Image, share: float) -> Image.Image:
    """Cut a share off each side."""
    width, height = picture.size
    return picture.crop(
        (round(width * share), round(height * share), round(width * (1 - share)), round(height * (1 - share)))
    )


@cache
def scenes() -> list[Image.Image]:
    """Squares of photographs that do not overlap."""
    return [*_scenes()]


def _scenes() -> Iterator[Image.Image]:
    if not PHOTOGRAPHS.is_dir():
        pytest.skip("no photographs: make setup")
    for path in sorted(PHOTOGRAPHS.rglob("*")):
        # Parts of these are alike: squares, and two views of one motorcycle.
        if path.suffix not in (".png", ".jpg") or path.stem.startswith(("chess", "motorcycle_right", "phantom")):
            continue
        with Image.open(path) as opened:
            photograph = opened.convert("RGB")
        for left in range(0, photograph.width - TILE + 1, TILE):
            for top in range(0, photograph.height - TILE + 1, TILE):
                yield photograph.crop((left, top, left + TILE, top + TILE)).resize((240, 240), Image.Resampling.BICUBIC)


def encoded(picture: Image.Image, form: str = "JPEG", *, quality: int = 90) -> bytes:
    file = io.BytesIO()
    picture.save(file, form, **({"quality": quality} if form == "JPEG" else {}))
    return file.getvalue()


@cache
def hashed() -> tuple[list[Image.Image], Column]:
    """Return the scenes that have a hash, and the column of the hashes."""
    pictures, hashes = [], []
    for scene in scenes():
        try:
            hashes.append(hash_picture(encoded(scene)))
        except SkipSample:
            continue
        pictures.append(scene)
    record = ColumnRecord(samples=len(hashes), shards="", length=90, metric="hamming", model="phash")
    return pictures, VectorColumn("phash", record, np.stack(hashes))


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.sampled(2)
def test_an_edited_copy_has_a_near_hash(edit: str) -> None:
    pictures, column = hashed()
    quality = 50 if edit.startswith("JPEG") else 90
    similarities = []
    for picture, original in zip(pictures, column.values, strict=True):
        try:
            edited = hash_picture(encoded(EDITS[edit](picture), quality=quality))
        except SkipSample:  # hardly any content is left
            similarities.append(0.0)
        else:
            similarities += vectors_of(column).similarities(edited[None], original[None]).tolist()
    assert len(pictures) > 300
    assert np.mean([similarity >= THRESHOLDS["hamming"] for similarity in similarities]) >= 0.99


def test_scenes_that_do_not_overlap_are_no_near_duplicates() -> None:
    _, column = hashed()
    vectors, pairs = vectors_of(column), 0
    for sample in range(1, len(column.values)):
        similar = vectors.similarities(column.values[:sample], column.values[sample][None])
        pairs += int((similar >= THRESHOLDS["hamming"]).sum())
    assert pairs == 0


def page(number: int) -> Image.Image:
    """A page of text of its own, in the lines and margins of all pages."""
    random, font = np.random.default_rng(number), ImageFont.load_default()
    picture = Image.new("L", (400, 560), 255)
    draw = ImageDraw.Draw(picture)
    for y in range(30, 530, 13):
        draw.text((30, y), " ".join(random.choice(WORDS, 20))[:60], fill=0, font=font)
    return picture


@pytest.mark.parametrize("form", ["PNG", "JPEG"])
@pytest.mark.sampled(2)
def test_different_pages_of_text_are_no_near_duplicates_and_their_copies_are(form: str) -> None:
    pages = [page(number) for number in range(30)]
    hashes = np.stack([hash_picture(encoded(each, form)) for each in pages])
    record = ColumnRecord(samples=len(pages), shards="", length=90, metric="hamming", model="phash")
    assert near_duplicate_groups(VectorColumn("phash", record, hashes)).groups == []
    # Columns of earlier versions have the first two hashes alone, by which pages are alike.
    record = msgspec.structs.replace(record, length=36)
    assert len(near_duplicate_groups(VectorColumn("phash", record, hashes[:, :36])).copies) > 10
    vectors = vectors_of(hashed()[1])
    for edit in EDITS.values():
        edited = np.stack([hash_picture(encoded(edit(each), quality=50)) for each in pages[:5]])
        assert (vectors.similarities(edited, hashes[:5]) >= THRESHOLDS["hamming"]).all()


def test_most_scenes_have_a_hash_and_pictures_of_one_colour_none() -> None:
    assert len(hashed()[0]) > 0.9 * len(scenes())
    for colour in (0, 128, 255):
        with pytest.raises(SkipSample, match="hardly any content"):
            hash_picture(encoded(Image.new("RGB", (300, 200), (colour,) * 3)))


def test_formats_and_modes_of_one_picture_have_near_hashes() -> None:
    with Image.open(PHOTOGRAPHS / "astronaut.png") as opened:
        picture = opened.convert("RGB")
    expected = hash_picture(encoded(picture))
    assert expected.dtype.str + str(expected.shape) == "|u1(90,)"
    for form, mode in (("PNG", "RGB"), ("PNG", "RGBA"), ("PNG", "L"), ("GIF", "P"), ("JPEG", "CMYK"), ("TIFF", "RGB")):
        bits = np.unpackbits(hash_picture(encoded(picture.convert(mode), form)) ^ expected)
        assert bits.sum() < 2 * 12, (form, mode)


def test_damaged_pictures_are_refused() -> None:
    with pytest.raises(Exception, match="cannot identify"):
        hash_picture(b"no picture")


def test_similar_texts_share_hashes_and_others_none() -> None:
    words = [f"word{number}" for number in range(200)]
    text = " ".join(words)
    changed = " ".join([*words[:100], "another", *words[101:]])
    half = " ".join([*words[:100], *(f"new{number}" for number in range(100))])
    base = hash_text(text)
    assert base.dtype.str + str(base.shape) == "<u4(128,)"
    assert (base == hash_text(text.upper().replace(" ", ", "))).all()
    assert (base == hash_text(changed)).mean() > 0.9  # 195 of 201 runs are equal
    assert (base == hash_text(half)).mean() == pytest.approx(98 / 298, abs=0.15)
    assert (base == hash_text(" ".join(f"other{number}" for number in range(200)))).mean() < 0.05


def test_short_and_unspaced_texts_have_hashes_and_empty_ones_none() -> None:
    assert (hash_text("a cat") == hash_text("A cat!")).all()
    assert (hash_text("a cat") == hash_text("cat a")).mean() < 0.1
    chinese = "这是一段用来测试的中文文本它没有空格"
    assert (hash_text(chinese) == hash_text(chinese + "了")).mean() > 0.7
    for text in ("", "  …!  "):
        with pytest.raises(SkipSample, match="no words"):
            hash_text(text)


def test_a_long_text_is_hashed_in_blocks() -> None:
    text = " ".join(f"w{number}" for number in range(20_000))
    assert (hash_text(text) == hash_text(text + " end")).mean() > 0.95


def test_components_join_chains() -> None:
    components = Components(10)
    components.join(np.array([1, 3, 5, 8]), np.array([2, 5, 7, 9]))
    components.join(np.array([2, 0]), np.array([3, 0]))
    assert [group.tolist() for group in components.groups()] == [[1, 2, 3, 5, 7], [8, 9]]
