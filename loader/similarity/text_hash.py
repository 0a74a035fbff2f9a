"""The MinHash of a text: two texts have as large a share of equal hashes as they have of equal runs of words."""

from __future__ import annotations

import re
import zlib

import numpy as np
import numpy.typing as npt

from ..errors import SkipSample

TEXT_HASHES = 128
"""Hashes of a text."""

_RUN = 3  # words: of single ones, texts about one matter have too many in common
_SHINGLES_AT_ONCE = 4096
# Languages written without blanks have a word for each character.
_ALONE = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
_WORD = re.compile(rf"[{_ALONE}]|[^\W_{_ALONE}]+")


def hash_text(text: str) -> npt.NDArray[np.uint32]:
    """Return the MinHash of the runs of three words of a text, shape (128,); case and punctuation do not count.

    Raises:
        SkipSample: The text has no words.
    """
    words = _WORD.findall(text.lower())
    if not words:
        raise SkipSample("the text has no words")
    codes = np.array([zlib.crc32(word.encode("utf-8", "surrogatepass")) for word in words], np.uint64)
    runs = max(1, len(codes) - _RUN + 1)
    shingles = np.zeros(runs, np.uint64)
    for position in range(min(_RUN, len(codes))):
        shingles = _mixed(shingles + codes[position : position + runs])
    shingles = np.unique(shingles)
    least = np.full(TEXT_HASHES, np.iinfo(np.uint32).max, np.uint32)
    for start in range(0, len(shingles), _SHINGLES_AT_ONCE):
        products = shingles[start : start + _SHINGLES_AT_ONCE, None] * _FACTORS + _OFFSETS
        np.minimum(least, (products >> np.uint64(32)).astype(np.uint32).min(axis=0), out=least)
    return least


def _mixed(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return a hash of each integer: the end of the generator SplitMix64."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


_FACTORS, _OFFSETS = _mixed(np.arange(2 * TEXT_HASHES, dtype=np.uint64)).reshape(2, TEXT_HASHES) | np.array(
    [[1], [0]], np.uint64
)
