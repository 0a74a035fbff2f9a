"""``energon get``: print a part of samples, or list their parts."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from loader.errors import StorageError
from loader.inspect import format_bytes

from ...command import energon_command
from ...console import is_terminal, output_console, print_json, show_note
from ...dataset_options import dataset_options
from ...dataset_paths import check_ref
from ...options import NUMBER, shared_options
from .near_output import show_neighbours

if TYPE_CHECKING:
    from loader.format import DatasetRef
    from loader.inspect import ListedParts

_MAX_PARTS = 100  # of a sample, in a list to read
_MAX_CHECKED = 4096  # bytes that tell a text from other data


def _check_words(ctx: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    """Require keys, but with ``--like``."""
    if not given and ctx.params.get("like") is None and not ctx.resilient_parsing:
        raise click.MissingParameter(ctx=ctx, param=parameter)
    return given


@energon_command("get")
@click.argument("path")
@click.argument("words", nargs=-1, metavar="KEY… [PART]", callback=_check_words)
@click.option("--like", metavar="KEY", is_eager=True, help="Show the samples that are most similar to this one.")
@click.option("--column", metavar="NAME", help="Compare the vectors in this column, with --like.")
@click.option("-k", "--count", **NUMBER, default=10, help="Show this many samples with --like.")
@click.option(
    "-o", "--output", metavar="DEST", help="Write a part of one sample to this file, all else to this folder."
)
@shared_options("json", help="List the parts as a line of JSON for each sample.")
@dataset_options()
def get(
    ref: DatasetRef,
    *,
    words: tuple[str, ...],
    like: str | None,
    column: str | None,
    count: int,
    output: str | None,
    as_json: bool,
) -> None:
    """Print the bytes of the part PART of the samples KEY in the dataset at PATH; without PART, list their parts.

    KEY is <shard>/<key> as energon preview shows it, or the key alone if only one sample has it. The last of several
    words is PART if samples have such a part.

    PATH may also be a .jsonl, .bin or .parquet file, whose keys are numbers from 0, tar shards that are not prepared, a
    metadataset .yaml, whose datasets are all searched, or a URL.

    --like KEY prints the keys of the samples whose vectors in a column of energon embed are nearest, with similarities
    from 0 to 1.

    Bytes that are not text are not printed on a terminal: redirect them, or name a file with -o.

    Examples:
        List the parts of a sample:
            energon get /data/coco shard_000.tar/000017
        Print its caption:
            energon get /data/coco shard_000.tar/000017 txt
        Print the captions of three samples:
            energon get /data/coco 000017 000018 000171 txt
        Show its picture:
            energon get /data/coco 000017 jpg | display
        Write its picture to a file:
            energon get s3://bucket/coco 000017 jpg -o cat.jpg
        Write all parts of two samples to a folder:
            energon get /data/mix.yaml 000017 000018 -o cats/
        Find the ten samples that look most like one:
            energon get /data/coco --like 000017 --column phash
    """
    from loader.inspect import find_samples_of

    ref = check_ref(ref)
    if (like is None) != (column is None):
        raise click.UsageError("--like KEY and --column NAME belong together.")
    if like is not None and column is not None:
        if words or output is not None:
            raise click.UsageError("--like takes no other keys, and no -o.")
        show_neighbours(ref, like, column, count, as_json=as_json)
        return
    with find_samples_of(ref, words) as finder:
        # The last word is a part if samples have such a part.
        keys, part = finder.split_words(words)
        if part is not None and as_json:
            raise click.UsageError("--json lists parts; it has no use with PART.")
        samples = map(finder.read, finder.find(keys))
        if output is not None:
            _write_all(samples, part, output, is_file=part is not None and len(keys) == 1)
        elif part is not None:
            for sample in samples:
                _print(part, sample.part(part))
        elif not as_json:
            for position, sample in enumerate(samples):
                _show(sample, is_first=position == 0, is_only=sample.dataset == ref.path)
        if as_json:
            for sample in map(finder.read, finder.find(keys)):
                print_json(sample, in_one_line=True)


def _show(sample: ListedParts, *, is_first: bool, is_only: bool) -> None:
    from loader.inspect import print_table

    rows = [
        (part.name, format_bytes(part.size_bytes), "–" if part.offset is None else f"{part.offset:,}")
        for part in sample.parts[:_MAX_PARTS]
    ]
    console = output_console()
    if not is_first:
        console.print()
    console.print(f"{sample.shard}/{sample.key}" + ("" if is_only else f"  {sample.dataset}"))
    print_table(console, ("part", ">size", ">offset in the shard"), rows)
    if len(sample.parts) > _MAX_PARTS:
        console.print(f"… and {len(sample.parts) - _MAX_PARTS:,} more, which --json lists")


def _print(part: str, data: bytes) -> None:
    """Print a part as it is; on a terminal, a text ends with a newline."""
    if is_terminal(sys.stdout):
        if not _is_text(data):
            raise click.UsageError(
                f"{part} is not text ({format_bytes(len(data))}), and is not printed on a terminal. "
                "Redirect it, or name a file with -o."
            )
        data += b"" if data.endswith(b"\n") else b"\n"
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def _write_all(samples: Iterable[ListedParts], part: str | None, output: str, *, is_file: bool) -> None:
    from loader.inspect import write_parts

    for sample in samples:
        if is_file and part is not None:
            _write(output, sample.part(part))
            continue
        for written in write_parts(sample, output, part=part):
            show_note(f"wrote {written}")


def _write(path: str, data: bytes) -> None:
    try:
        with open(path, "xb") as file:
            file.write(data)
    except OSError as error:
        reason = (
            "this exists, and nothing is overwritten" if isinstance(error, FileExistsError) else str(error.strerror)
        )
        raise StorageError(reason, path=path, hint="name another file") from error


def _is_text(data: bytes) -> bool:
    """Return True if bytes are UTF-8 without control characters but whitespace."""
    try:
        text = data[:_MAX_CHECKED].decode("utf-8", "strict" if len(data) <= _MAX_CHECKED else "ignore")
    except UnicodeDecodeError:
        return False
    return all(character.isprintable() or character in "\n\r\t" for character in text)
