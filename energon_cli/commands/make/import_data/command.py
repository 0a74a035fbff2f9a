"""``energon import``: convert files, tables and archives to a prepared dataset."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import click

from ....command import energon_command
from ....engine_options import engine_options
from ....license_option import license_option
from ....options import SIZE, NameChoice, flag_option, parse_pairs, shared_options, shuffle_options

_KINDS = (
    *("folder", "csv", "tsv", "jsonl", "parquet", "arrow", "hf", "coco", "conversations", "vqa", "interleaved"),
    *("webdataset", "tar", "zip", "tokens", "mds", "litdata"),
)  # those of loader.convert.sources, whose import would delay --help


def _failures(_ctx: click.Context, _parameter: click.Parameter, given: str | None) -> float | None:
    """Return a number of failures, or a share below 1; None for the default."""
    if given is None:
        return None
    text = given.strip()
    try:
        limit = float(text.removesuffix("%"))
    except ValueError:
        limit = -1
    is_share = text.endswith("%")
    if not 0 <= limit < math.inf or (is_share and limit > 100) or (not is_share and limit != int(limit)):
        raise click.BadParameter(f"expected a number or a share such as 5%, found {text!r}")
    return min(limit / 100, 1 - 1e-9) if is_share else limit


def _colour(_ctx: click.Context, _parameter: click.Parameter, name: str) -> tuple[int, ...]:
    from PIL import ImageColor

    try:
        return ImageColor.getrgb(name)[:3]
    except ValueError as error:
        raise click.BadParameter(f"expected a name of a color or #rrggbb, found {name!r}") from error


def _range_of_floats(_ctx: click.Context, _parameter: click.Parameter, text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    try:
        low, high = map(float, text.split(","))
    except ValueError:
        low = high = math.nan
    if not (low < high and math.isfinite(high - low)):
        raise click.BadParameter(f"expected two ascending numbers such as 0,1, found {text!r}")
    return low, high


class _Grouping(click.Choice[str]):
    """Accept what the files of a sample share, or ``column:NAME`` for rows of a table."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return value if value.startswith("column:") and value != "column:" else super().convert(value, param, ctx)


@energon_command("import")
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@click.argument("output", metavar="DEST")
@click.option(
    "--from",
    "kind",
    metavar="KIND",
    type=NameChoice(_KINDS, "sources"),
    help=f"Read sources of this kind: {', '.join(_KINDS)}. Without it, the kind is detected.",
)
@click.option(
    "--part",
    "parts",
    metavar="PART=COLUMN",
    multiple=True,
    callback=parse_pairs,
    help="Write this column of a table as the part PART, such as jpg or txt; other columns are left out.  [repeatable]",
)
@shared_options("key_column")
@click.option("--split-column", metavar="COLUMN", help="Take the split parts from this column of a table.")
@click.option(
    "--root",
    metavar="DIR",
    help="Resolve paths in a table from this folder, which they may not leave.  [default: the folder of the table]",
)
@click.option(
    "--allow-outside/--no-allow-outside",
    default=None,
    help="Let a table name any file of this machine, or let rows fail whose files are outside of the folder.",
)
@click.option(
    "--follow-links/--no-follow-links",
    default=None,
    help="Follow links in a folder to files outside of it, or leave these files out.",
)
@click.option(
    "--classes/--no-classes",
    default=None,
    help="Use the names of subfolders as labels, or do not. Without either, they are labels if the pictures have"
    " no texts.",
)
@click.option(
    "--splits/--no-splits",
    default=None,
    help="Use the subfolders train, val and test as split parts, or do not. Without either, their names decide.",
)
@flag_option(
    "--keep-text-only",
    help="Write rows of a table without a picture, too, such as conversations of text; without it, they are left out.",
)
@flag_option("--download", help="Fetch the files at URLs in a table; without it, none is fetched or written.")
@flag_option("--keep-urls", help="Write URLs in a table as text, and fetch nothing.")
@flag_option("--allow-private", help="Let --download connect to private addresses, too.")
@click.option("--max-size", **SIZE, default="1GiB", help="Refuse to fetch larger files with --download.")
@click.option(
    "--group-by",
    metavar="WHAT",
    type=_Grouping(["name", "folder", "parallel", "number"]),
    help="Choose what the files of a sample share: their name; their folder; parallel, the path but for one"
    " folder, as images/a.jpg and labels/a.txt do; number, the one that ends their names. Or let rows with one"
    " value of column:NAME be a sample, with a list of them in json. Without it, the paths decide.",
)
@click.option(
    "--segments",
    metavar="WHAT",
    type=click.Choice(["cut", "whole"]),
    help="Choose what samples get whose rows name segments of recordings, in seconds: cut writes the segment of a"
    " WAV or FLAC, whole the recording. Without it, such rows are refused.",
)
@click.option(
    "--split-lists",
    metavar="PATTERN",
    help="Read the split parts from the tables and lists that match this pattern: '*1.txt' reads train1.txt and"
    " test1.txt, and leaves out train2.txt and test2.txt.  [default: all]",
)
@shared_options("split_ratio", help="Divide the samples into train, val and test in this ratio.")
@shuffle_options
@shared_options("shard_bytes", "samples_per_shard")
@flag_option("--verify", help="Decode all pictures, and let samples with a damaged one fail.")
@click.option(
    "--resize",
    "max_side",
    metavar="PIXELS",
    type=click.IntRange(min=1),
    help="Shrink pictures whose longer side has more pixels than this.",
)
@click.option(
    "--format",
    "format",
    type=click.Choice(["jpg", "png", "webp"]),
    help="Convert pictures of other formats to this one.",
)
@click.option(
    "--quality",
    metavar="N",
    type=click.IntRange(1, 100),
    default=90,
    help="Set the quality of pictures that are encoded as JPEG or WebP.",
)
@flag_option("--orient", help="Turn pictures as their EXIF orientation says; without it, they keep the orientation.")
@click.option(
    "--geometry",
    type=click.Choice(["refuse", "ignore"]),
    default="refuse",
    help="Refuse or ignore coordinates whose picture is resized or turned. Coordinates of COCO are moved.",
)
@click.option(
    "--pages",
    type=click.Choice(["keep", "split"]),
    default="keep",
    help="Keep a TIFF of several pages as one part, of which training reads the first, or make each page a part.",
)
@click.option(
    "--frames",
    type=click.Choice(["refuse", "first"]),
    default="refuse",
    help="Refuse a picture of several frames that is encoded again, or keep its first frame.",
)
@click.option(
    "--background",
    metavar="COLOR",
    callback=_colour,
    default="white",
    help="Fill transparent pixels of pictures that are encoded as JPEG with this color: a name, or '#rrggbb'.",
)
@click.option(
    "--float-range",
    metavar="LOW,HIGH",
    callback=_range_of_floats,
    help="Map these values to black and white when pictures of floats are encoded again. Without it, such"
    " pictures fail.",
)
@click.option(
    "--max-failures",
    metavar="N|PERCENT",
    callback=_failures,
    help="Stop if more samples fail than this number, or than this share, such as 5%.  [default: 1%, at least 1]",
)
@shared_options("sample_type", "field_map", "yes", "dry_run", "compat")
@license_option("output")
@engine_options
@shared_options("strict", "progress", "json")
def import_data(sources: tuple[str, ...], output: str, **flags: Any) -> None:
    """Write the samples of each SOURCE as tar shards to DEST, a new folder or URL, which is a prepared dataset then.

    SOURCE is a folder of files, or one of the kinds that --from takes. In a folder, files that share a name are the
    parts of a sample: a.jpg and a.txt. Contents are copied; pictures are only changed if an option requests it.

    On a terminal, the command shows what was found and prompts for the split and the sample type. Otherwise it reads
    the answers from standard input, one per line. It never prompts with --yes.

    The same sources and options write the same bytes, with any number of workers. After an interruption, the same
    command continues. Samples that cannot be read are listed in DEST/.nv-meta/import_failures.jsonl.

    Examples:
        Import a folder of pictures with captions, with prompts:
            energon import ~/photos /data/photos
        Accept all proposals, shuffle, and split by samples:
            energon import ~/photos /data/photos --yes --shuffle --split-ratio 8,1,1
        Check that all pictures decode, and shrink large ones:
            energon import ~/photos /data/photos --yes --verify --resize 1024
        Import a table with a column of paths and one of captions:
            energon import captions.csv /data/captions --yes --part jpg=image --part txt=caption
        Fetch the pictures at URLs in a table:
            energon import urls.csv /data/pictures --yes --download
        Import to an object store:
            energon import ~/photos s3://bucket/photos --yes
        Publish on the Hugging Face Hub:
            energon import ~/photos hf://datasets/me/photos --yes --license cc-by-4.0
        Import from one bucket to another, a share in each job of a Slurm array:
            energon import s3://raw/photos s3://bucket/photos --yes --share auto
        Commit the shards of all shares:
            energon import s3://raw/photos s3://bucket/photos --yes --merge
        Show what would be imported:
            energon import ~/photos /data/photos --dry-run
    """
    from loader.format.documents import IMPORT_DEST

    from .choices import ImportFlags
    from .run import import_sources

    # A way that is meant for one of several sources has a folder of its own.
    token = IMPORT_DEST.set(output if len(sources) == 1 else "")
    click.get_current_context().call_on_close(partial(IMPORT_DEST.reset, token))
    import_sources(ImportFlags.of(sources=sources, output=output, **flags))
