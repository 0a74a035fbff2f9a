"""``energon prepare-media``: collect metadata of a folder's media files; and the media flags of ``prepare``."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from loader.errors import escape_controls, plural

from ...command import energon_command
from ...console import StatusLine, facts_of, output_console, print_json, show_warning
from ...options import combined, flag_option, shared_options
from ...progress import ProgressBar

if TYPE_CHECKING:
    from loader.format.media import MediaFilter

MEDIA_FACTS = "media_filter.strategy media_filter.patterns media_filter.exact entries collected broken"
"""The attributes of a report on media that JSON documents have."""

_FLAGS = "--media-metadata-by-glob, --media-metadata-by-header and --media-metadata-by-extension"


MEDIA_PARAMETERS = tuple(f"media_metadata_{name}" for name in ("by_glob", "by_header", "by_extension", "exact"))
"""Names of the parameters of the media flags."""

media_options = combined(
    click.option(
        "--media-metadata-by-glob",
        metavar="PATTERNS",
        help="Collect metadata (width, height, duration, …) of files that match: '*.jpg,*.png'.",
    ),
    flag_option(
        "--media-metadata-by-header", help="Collect metadata of files whose first bytes are image, audio or video."
    ),
    flag_option(
        "--media-metadata-by-extension", help="Collect metadata of files with an image, audio or video extension."
    ),
    flag_option(
        "--media-metadata-exact",
        help="Decode audio and video to their ends to count frames and samples, which takes minutes per GB.",
    ),
)
"""Add the media flags to a command, as parameters of the same names."""


def media_filter_of(flags: dict[str, Any]) -> MediaFilter | None:
    """Pop the media flags from a command's parameters, and return their filter; None without a flag."""
    from loader.format.media import MediaFilter, parse_patterns

    glob, header, extension, exact = map(flags.pop, MEDIA_PARAMETERS)
    if (glob is not None) + header + extension > 1:
        raise click.UsageError(f"{_FLAGS} are mutually exclusive: pass one of them.")
    if glob is not None:
        patterns = parse_patterns(glob)
        if not patterns:
            raise click.BadParameter("expected patterns such as '*.jpg,*.png'", param_hint="--media-metadata-by-glob")
        return MediaFilter(strategy="GLOB", patterns=patterns, exact=exact)
    if header or extension:
        return MediaFilter(strategy="HEADER" if header else "EXTENSION", exact=exact)
    if exact:
        raise click.UsageError(f"--media-metadata-exact needs one of {_FLAGS}.")
    return None


@energon_command("prepare-media")
@click.argument("path")
@media_options
@shared_options("num_workers", type=click.IntRange(min=0))
@shared_options("tmp_path", "progress", "json", "meta_folder")
def prepare_media(path: str, *, num_workers: int | None, as_json: bool, **flags: Any) -> int:
    """Collect metadata of the images, audio and video in PATH, a folder of plain files.

    Reads the width, height and format of images, and the duration, frames and rates of audio and video, from file
    headers. Where headers have no counts, or are known to be wrong, packets are counted; --media-metadata-exact decodes
    all audio and video. The result is PATH/.nv-meta/index.sqlite, which replaces an earlier one once it is complete.
    Hidden files and folders are skipped. Damaged and unreadable files are skipped with a warning.

    PATH may be a URL of an object store, such as s3://bucket/photos.

    Examples:
        Detect images, audio and video by their first bytes:
            energon prepare-media --media-metadata-by-header /data/files
        Read only files that match a pattern:
            energon prepare-media --media-metadata-by-glob '*.jpg,*.png' /data/files
    """
    media_filter = media_filter_of(flags)
    if media_filter is None:
        raise click.UsageError(
            "Choose the files to read with --media-metadata-by-header, --media-metadata-by-extension"
            " or --media-metadata-by-glob '*.jpg,*.png'."
        )
    from loader.engine import usable_cores
    from loader.format import DatasetRef
    from loader.prepare import check_destination, prepare_media_folder, unwritable_folder

    # Check that the folder may get an index.
    started = time.perf_counter()
    ref = DatasetRef(path, meta_folder=flags.pop("meta_folder"))
    storage = ref.storage()
    check_destination(storage, ref)
    fault = unwritable_folder(storage)
    if fault is not None:
        raise fault
    # Read the headers.
    with StatusLine() as status, ProgressBar("Reading headers", unit="files") as bar:
        status.show("listing files…")

        def show_progress(done: int, total: int | None) -> None:
            status.clear()
            bar.update(done, total)

        report = prepare_media_folder(
            storage,
            media_filter,
            workers=max(1, usable_cores() if num_workers is None else num_workers),
            on_progress=show_progress,
        )
    # Report.
    seconds = time.perf_counter() - started
    if as_json:
        print_json(facts_of(report, f"path {MEDIA_FACTS} seconds warnings", path=path, seconds=round(seconds, 3)))
        return report.entries
    console = output_console()
    text = f"prepared {escape_controls(path)}: media metadata of {plural(report.entries, 'file')} in {seconds:.1f} s"
    console.print(text, style="green")
    show_warning(*report.warnings)
    return report.entries
