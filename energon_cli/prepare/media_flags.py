"""The flags that choose what media metadata is collected, which two commands have."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from loader.format.media.kind import MediaFilter

__all__ = ["media_filter_of", "media_options"]

_FLAGS = "--media-metadata-by-glob, --media-metadata-by-header and --media-metadata-by-extension"


def media_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the three flags to a command, as parameters of the same names."""
    for option in (
        click.option(
            "--media-metadata-by-extension",
            is_flag=True,
            help="Collect media metadata of what is named like an image, audio or video.",
        ),
        click.option(
            "--media-metadata-by-header",
            is_flag=True,
            help="Collect media metadata of what starts like an image, audio or video, whatever its name.",
        ),
        click.option(
            "--media-metadata-by-glob",
            metavar="PATTERNS",
            help="Collect media metadata (width, height, duration, …) of what is named so: '*.jpg,*.png'.",
        ),
    ):
        command = option(command)
    return command


def media_filter_of(flags: dict[str, Any]) -> MediaFilter | None:
    """Take the three flags out of a command's parameters; give what they choose.

    Raises:
        click.UsageError: There are several, or no pattern.
    """
    from loader.format.media.kind import MediaFilter, parse_patterns

    glob: str | None = flags.pop("media_metadata_by_glob")
    header: bool = flags.pop("media_metadata_by_header")
    extension: bool = flags.pop("media_metadata_by_extension")
    if (glob is not None) + header + extension > 1:
        raise click.UsageError(f"{_FLAGS} exclude each other: give one of them.")
    if glob is not None:
        patterns = parse_patterns(glob)
        if not patterns:
            raise click.BadParameter("expected patterns such as '*.jpg,*.png'", param_hint="--media-metadata-by-glob")
        return MediaFilter(strategy="GLOB", patterns=patterns)
    return MediaFilter(strategy="HEADER") if header else MediaFilter(strategy="EXTENSION") if extension else None
