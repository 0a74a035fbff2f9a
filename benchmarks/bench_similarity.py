"""Speed and recall of hashes of pictures, and the time of near-duplicates and neighbours among many vectors.

    python benchmarks/bench_similarity.py [--pictures 20000] [--vectors 300000] [--cells 1000000] [--queried 1000000]

Needs the photographs of `make setup`. The floor of hashing is the decoding alone. Times are
of this process; it prints the CPU time, too, which other programs on the machine change less.
"""

from __future__ import annotations

import argparse
import io
import resource
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from itertools import islice
from typing import Any

import numpy as np
import simplejpeg
from demo_photographs import FOLDER
from PIL import Image, ImageDraw, ImageFont

from loader.errors import SkipSample
from loader.format.columns.column import Column, VectorColumn
from loader.format.columns.column_record import ColumnRecord
from loader.similarity import hash_picture, near_duplicate_groups, neighbours
from loader.similarity.picture_hash import HASH_BITS, HASHES
from loader.similarity.vectors import vectors_of

TILE = 128  # pixels of a scene in a photograph
GENERATED = 2_500  # pictures of shapes: with the scenes, four million pairs
PAGES = 150  # of text
SIZE = (500, 375)  # of a picture, as in COCO and ImageNet
LENGTH = 512  # elements of a vector
COPIES = 0.02  # share of vectors that are another one with noise
THRESHOLD = 0.95
CHECKED = 100_000  # vectors for which the cells are compared with all pairs


@contextmanager
def timed(what: str) -> Iterator[None]:
    start, cpu = time.perf_counter(), time.process_time()
    yield
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"{what}: {time.perf_counter() - start:.2f} s, CPU {time.process_time() - cpu:.2f} s, peak {peak:.2f} GiB",
        flush=True,
    )


def scenes() -> list[Image.Image]:
    """Return squares of photographs that do not overlap; of two views of one scene, one."""
    tiles = []
    for path in sorted(FOLDER.rglob("*")):
        if path.suffix in (".png", ".jpg") and not path.stem.startswith(("chess", "motorcycle_right", "phantom")):
            photograph = Image.open(path).convert("RGB")
            for left in range(0, photograph.width - TILE + 1, TILE):
                for top in range(0, photograph.height - TILE + 1, TILE):
                    tile = photograph.crop((left, top, left + TILE, top + TILE))
                    tiles.append(tile.resize(SIZE, Image.Resampling.BICUBIC))
    return tiles


def generated(count: int) -> Iterator[Image.Image]:
    """Yield pictures of soft shapes, each of its own."""
    random = np.random.default_rng(0)
    for _ in range(count):
        small = random.integers(256, size=(random.integers(3, 24), random.integers(3, 24), 3), dtype=np.uint8)
        yield Image.fromarray(small).resize(SIZE, Image.Resampling.BICUBIC)


def jpeg(picture: Image.Image, quality: int = 88) -> bytes:
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=quality)
    return file.getvalue()


def cropped(picture: Image.Image, share: float) -> Image.Image:
    width, height = picture.size
    return picture.crop(
        (round(width * share), round(height * share), round(width * (1 - share)), round(height * (1 - share)))
    )


def pages(count: int) -> Iterator[Image.Image]:
    """Yield pages of text, each of its own, in the same lines and margins."""
    random, font = np.random.default_rng(0), ImageFont.load_default()
    words = "".join(map(chr, random.integers(97, 123, 2_000))).replace("e", " ").split()
    for _ in range(count):
        page = Image.new("L", (400, 560), 255)
        draw = ImageDraw.Draw(page)
        for y in range(30, 530, 13):
            draw.text((30, y), " ".join(random.choice(words, 20))[:60], fill=0, font=font)
        yield page


def hash_or_none(data: bytes) -> Any:
    try:
        return hash_picture(data)
    except SkipSample:
        return None


def decode(data: bytes) -> int:
    return len(simplejpeg.decode_jpeg(data, "GRAY", fastdct=True, min_height=80, min_width=80, min_factor=1))


def column_of(values: Any, model: str = "") -> Column:
    return VectorColumn(
        "vectors", ColumnRecord(samples=len(values), shards="", length=values.shape[1], model=model), values
    )


def bench_pictures(count: int) -> None:
    # Recall of each edit.
    pictures = [*scenes(), *generated(GENERATED)]
    hashes = [hash_or_none(jpeg(picture)) for picture in pictures]
    kept = [row for row, value in enumerate(hashes) if value is not None]
    column = column_of(np.stack([hashes[row] for row in kept]), "phash")
    vectors = vectors_of(column)
    edits: dict[str, Callable[[Image.Image], bytes]] = {
        "resize 1/2": lambda picture: jpeg(picture.resize((SIZE[0] // 2, SIZE[1] // 2), Image.Resampling.LANCZOS)),
        "JPEG 50": lambda picture: jpeg(picture, 50),
        "crop 2 % a side": lambda picture: jpeg(cropped(picture, 0.02)),
        "crop 5 % a side": lambda picture: jpeg(cropped(picture, 0.05)),
    }
    print(f"{len(pictures)} pictures, {len(kept)} with a hash")
    for name, edit in edits.items():
        edited = [hash_or_none(edit(pictures[row])) for row in kept]
        hits = sum(
            value is not None and vectors.similarities(value[None], column.values[row][None])[0] >= 0.78
            for row, value in enumerate(edited)
        )
        print(f"recall, {name}: {hits / len(kept):.4f}")
    # False pairs.
    pairs = false = 0
    for row in range(1, len(kept)):
        similar = vectors.similarities(column.values[:row], column.values[row][None])
        pairs, false = pairs + row, false + int((similar >= 0.78).sum())
    print(f"false pairs: {false} of {pairs:,}")
    written = np.stack([hash_picture(jpeg(page)) for page in pages(PAGES)])
    print(f"pages of text excluded: {len(near_duplicate_groups(column_of(written, 'phash')).copies)} of {PAGES}")
    # Speed.
    data = [jpeg(picture) for picture in islice(pictures, 400)]
    data = (data * (count // len(data) + 1))[:count]
    with ProcessPoolExecutor(2) as pool:
        for what, function in (("decoded", decode), ("hashed", hash_or_none)):
            list(pool.map(function, data[:100]))
            start = time.perf_counter()
            for _ in pool.map(function, data, chunksize=200):
                pass
            print(
                f"{count:,} pictures {what} by 2 processes: {count / (time.perf_counter() - start):,.0f}/s", flush=True
            )


def vectors(count: int) -> Any:
    """Return unit vectors of float16 around a common direction, as models make them, some with a copy."""
    random = np.random.default_rng(0)
    axes, centre = random.standard_normal((64, LENGTH), dtype=np.float32), random.standard_normal(LENGTH)
    values = np.empty((count, LENGTH), np.float16)
    for start in range(0, count, 20_000):
        rows = min(20_000, count - start)
        block = 0.5 * random.standard_normal((rows, LENGTH), dtype=np.float32) + centre.astype(np.float32)
        block += 0.1 * random.standard_normal((rows, 64), dtype=np.float32) @ axes
        values[start : start + rows] = block / np.linalg.norm(block, axis=1, keepdims=True)
    copies = random.choice(count // 2, int(count * COPIES), replace=False)
    # Similarities are from 0.95, which is the threshold, to nearly 1.
    scales = random.uniform(0.002, 0.0143, (len(copies), 1)).astype(np.float32)
    noise = scales * random.standard_normal((len(copies), LENGTH), dtype=np.float32)
    values[count - len(copies) :] = values[copies].astype(np.float32) + noise
    return values


def bench_groups(count: int, *, exact: bool) -> None:
    column = column_of(vectors(count))
    how = "exact" if exact else "in cells"
    with timed(f"groups of {count:,}, {how}"):
        result = near_duplicate_groups(column, THRESHOLD, exact=exact)
    print(f"{len(result.groups):,} groups")
    if not exact:
        check_cells(column_of(vectors(CHECKED)))


def check_cells(column: Column) -> None:
    whole = near_duplicate_groups(column, exact=True).copies
    some = near_duplicate_groups(column, exact=False).copies
    share = len(np.intersect1d(whole, some)) / max(1, len(whole))
    print(f"of {len(column.values):,}, cells have {share:.4f} of {len(whole):,} copies", flush=True)


def picture_hashes(count: int) -> Any:
    """Return random hashes of pictures, some with a copy of which up to 31 of 143 bits differ."""
    random = np.random.default_rng(0)
    bits = random.integers(2, size=(count, HASHES, HASH_BITS), dtype=np.uint8)
    copies = int(count * COPIES)
    for row in range(copies):
        bits[count - 1 - row] = bits[row]
        bits[count - 1 - row][:, random.choice(HASH_BITS, row % 32, replace=False)] ^= 1
    return np.packbits(bits, axis=2).reshape(count, -1)


def bench_query(count: int) -> None:
    column = column_of(np.resize(vectors(min(count, 100_000)), (count, LENGTH)))
    neighbours(column, column.values[0])
    with timed(f"neighbours among {count:,}"):
        neighbours(column, column.values[5], 10)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("pictures", 20_000), ("vectors", 300_000), ("cells", 1_000_000), ("queried", 1_000_000)):
        parser.add_argument(f"--{name}", type=int, default=default, help=f"number; 0 omits it (default {default:,})")
    options = parser.parse_args()
    if options.pictures:
        bench_pictures(options.pictures)
    if options.vectors:
        bench_groups(options.vectors, exact=True)
    if options.cells:
        bench_groups(options.cells, exact=False)
        check_cells(column_of(picture_hashes(CHECKED // 5), "phash"))
    if options.queried:
        bench_query(options.queried)


if __name__ == "__main__":
    main()
