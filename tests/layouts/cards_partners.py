"""Public data sets whose files belong together by pieces of their names, as their cards describe the files."""

from __future__ import annotations

import json
from pathlib import Path

from tests.layouts.layout import card, write

FLOWERS = {
    split: [f"{n}/image_{n:02d}{k}" for n in (1, 2, 10) for k in range(count)]
    for split, count in (("train", 4), ("valid", 2))
}


@card(
    samples={
        **{
            f"{split}/{name}": f"{split.removesuffix('id')}: cls jpg json"
            for split in FLOWERS
            for name in FLOWERS[split]
        },
        **{f"test/image_{n}": "test: jpg" for n in range(3)},
    },
    sample_type="ImageClassificationSample",
    holds={"train/10/image_101": '"10"'},
    note="there are no classes in test",
)
def flowers_102_with_a_flat_test(folder: Path) -> None:
    write(folder, [f"{split}/{name}.jpg" for split in FLOWERS for name in FLOWERS[split]])
    write(folder, [f"test/image_{n}.jpg" for n in range(3)])
    write(folder, {"cat_to_name.json": json.dumps({"1": "pink primrose", "2": "pocket orchid", "10": "thistle"})})


FLICKR = [f"10002682{n}_693b08cb0e" for n in range(6)]


@card(
    samples={
        f"Flicker8k_Dataset/{name}{again}": f"{'train' if n < 4 else 'val' if n == 4 else 'test'}: jpg txt"
        for n, name in enumerate(FLICKR)
        for again in ("", "-2", "-3")
    },
    sample_type="CaptioningSample",
    holds={f"Flicker8k_Dataset/{FLICKR[2]}-3": "A child 2 in 2 ."},
)
def flickr_8k_with_numbered_captions(folder: Path) -> None:
    write(folder, [f"Flicker8k_Dataset/{name}.jpg" for name in FLICKR])
    rows = [f"{name}.jpg#{k}\tA child {k} in {n} .\n" for n, name in enumerate(FLICKR) for k in range(3)]
    write(folder, {"Flickr8k.token.txt": "".join(rows)})
    for split, names in (("train", FLICKR[:4]), ("dev", FLICKR[4:5]), ("test", FLICKR[5:])):
        write(folder, {f"Flickr_8k.{split}Images.txt": "".join(f"{name}.jpg\n" for name in names)})
