"""Values find files one by one and together, by all forms of names."""

from __future__ import annotations

import random

import pytest

from loader.convert.tables.name_index import NameIndex

FOLDERS = ("", "a", "images", "images/train", "images/val", "Überblick")
STEMS = ("1", "01", "0001", "7.5", "cat", "Cat", "a b", "naïve", "nai\u0308ve", "img_000012", "x.nii")
EXTENSIONS = (".jpg", ".txt", ".gz", "")


def value_of(name: str, chance: random.Random) -> str:
    """Return one of the forms in which tables write a name, or a text that is none."""
    last = name.rpartition("/")[2]
    forms = [name, last, last.rpartition(".")[0], f"data/{name}", name.replace("/", "\\"), f"{last} ", f"../{last}"]
    forms += [f"https://x.org/{name}?v=1", last.lstrip("0"), "", "?", "a cat sleeps", "-1", "3.25", "0", "٣"]
    return chance.choice(forms)


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.sampled(4)
def test_values_together_name_the_same_files_as_each_alone(seed: int) -> None:
    chance = random.Random(seed)
    names = sorted(
        {
            f"{folder}/{chance.choice(STEMS)}{chance.choice(EXTENSIONS)}".lstrip("/")
            for folder in FOLDERS
            for _ in range(chance.randrange(8))
        }
    )
    index = NameIndex(names)
    is_plain = seed % 2  # no value of the column has an odd form
    texts = [value_of(chance.choice([*names, "b/c.png"]), chance) for _ in range(100)]
    if is_plain:
        texts = [text for text in texts if text.isascii() and text == text.strip() and not set("?\\:%") & set(text)]
    folder = chance.choice(FOLDERS)
    files, forms = index.find_all(texts, folder)
    alone = [index.find(text, folder) for text in texts]
    assert [*zip(files.tolist(), forms.tolist(), strict=True)] == [hit or (-1, 0) for hit in alone]
    assert any(hit is not None for hit in alone) or not names


def test_a_column_without_values_names_nothing() -> None:
    files, forms = NameIndex(["a.jpg"]).find_all([], "")
    assert (files.tolist(), forms.tolist()) == ([], [])
    files, _ = NameIndex([]).find_all(["a.jpg", "1"], "")
    assert files.tolist() == [-1, -1]
