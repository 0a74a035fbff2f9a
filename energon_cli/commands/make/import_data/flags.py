"""The flags of ``energon import``: parse and check them before reading any data."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import click

from loader.convert.importing import PictureOptions
from loader.convert.rows import FileAccess
from loader.convert.sources import SourceOptions
from loader.format import usable_cores
from loader.format.prepare import parse_ratio
from loader.storage import DownloadOptions

from ....console import is_terminal


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportFlags:
    """The parsed command line; ``energon import --help`` describes each flag."""

    sources: tuple[str, ...]
    output: str
    kind: str | None
    parts: tuple[str, ...]
    key_column: str | None
    split_column: str | None
    root: str | None
    allow_outside: bool | None
    follow_links: bool | None
    classes: bool | None
    splits: bool | None
    keep_text_only: bool
    download: bool
    keep_urls: bool
    allow_private: bool
    max_size: int
    group_by: Literal["name", "folder", "parallel", "number"] | None
    split_ratio: str | None
    shuffle_seed: int | None
    shard_size: int
    samples_per_shard: int
    verify: bool
    resize: int | None
    picture_format: Literal["jpg", "png", "webp"] | None
    quality: int
    orient: bool
    geometry: Literal["refuse", "ignore"]
    pages: Literal["keep", "split"]
    frames: Literal["refuse", "first"]
    background: str
    float_range: str | None
    max_failures: str
    sample_type: str | None
    field_map: str | None
    yes: bool
    dry_run: bool
    compat: bool | None
    num_workers: int | None
    progress: bool | None
    as_json: bool
    strict: bool

    @property
    def asks_by_menus(self) -> bool:
        """True if prompts are wanted, and there is a terminal for menus."""
        asks = not (self.yes or self.dry_run)
        return asks and is_terminal(sys.stdin) and is_terminal(sys.stderr if self.as_json else sys.stdout)

    @property
    def workers(self) -> int:
        """Number of worker processes."""
        return usable_cores() if self.num_workers is None else self.num_workers

    def ratio(self) -> Mapping[str, float] | None:
        """Return the ratio of ``--split-ratio``; None without it."""
        return None if self.split_ratio is None else parse_ratio(self.split_ratio)

    def failures(self) -> float:
        """Return the number of ``--max-failures``, below 1 for a share.

        Raises:
            click.BadParameter: It is neither a number nor a share.
        """
        text = self.max_failures.strip()
        try:
            number = float(text.removesuffix("%"))
        except ValueError:
            number = -1
        is_share = text.endswith("%")
        if number < 0 or (is_share and number > 100) or (not is_share and number != int(number)):
            raise click.BadParameter(
                f"expected a number or a share such as 5%, found {text!r}", param_hint="--max-failures"
            )
        return min(number / 100, 1 - 1e-9) if is_share else number

    def source_options(self, access: FileAccess) -> SourceOptions:
        """Return the settings of sources.

        Args:
            access: Decides which files they may name.

        Raises:
            click.BadParameter: A part has no column.
        """
        pairs = [part.partition("=") for part in self.parts]
        for part, separator, column in pairs:
            if not (part and separator and column):
                raise click.BadParameter("expected PART=COLUMN, such as jpg=image", param_hint="--part")
        return SourceOptions(
            parts={part: column for part, _, column in pairs},
            key=self.key_column,
            split=self.split_column,
            root=self.root,
            access=access,
            classes=self.classes,
            splits=self.splits,
            keep_text_only=self.keep_text_only or None,  # conversations are kept in any case
            keep_urls=self.keep_urls,
            group_by=self.group_by,
        )

    def downloads(self) -> DownloadOptions | None:
        """Return what may be downloaded; None for nothing.

        Raises:
            click.UsageError: URLs are to be downloaded, and kept as text.
        """
        if self.download and self.keep_urls:
            raise click.UsageError("--download fetches the files at URLs, and --keep-urls none: omit one of them")
        return DownloadOptions(allow_private=self.allow_private, max_bytes=self.max_size) if self.download else None

    def pictures(self) -> PictureOptions:
        """Return the settings of pictures.

        Raises:
            click.BadParameter: The background is no color, or the range of floats no range.
        """
        from PIL import ImageColor

        try:
            red, green, blue = ImageColor.getrgb(self.background)[:3]
        except ValueError as error:
            raise click.BadParameter(
                f"expected a name of a color or #rrggbb, found {self.background!r}", param_hint="--background"
            ) from error
        return PictureOptions(
            verify=self.verify,
            max_side=self.resize,
            format=self.picture_format,
            quality=self.quality,
            orient=self.orient,
            geometry=self.geometry,
            pages=self.pages,
            frames=self.frames,
            background=(red, green, blue),
            float_range=self._range_of_floats(),
        )

    def _range_of_floats(self) -> tuple[float, float] | None:
        if self.float_range is None:
            return None
        try:
            low, high = map(float, self.float_range.split(","))
        except ValueError:
            low = high = math.nan
        if not (low < high and math.isfinite(high - low)):
            raise click.BadParameter(
                f"expected two ascending numbers such as 0,1, found {self.float_range!r}", param_hint="--float-range"
            )
        return low, high
