"""``energon get``: print a part of a sample, or list its parts."""

from __future__ import annotations

import sys

import click

from ..command import energon_command
from ..dataset_path import check_path, given_name

__all__ = ["get"]

_EXAMPLES = (
    ("List the parts of a sample", "energon get /data/coco shard_000.tar/000017"),
    ("Print its caption", "energon get /data/coco shard_000.tar/000017 txt"),
    ("Show its picture", "energon get /data/coco 000017 jpg | display"),
    ("Write its picture to a file", "energon get s3://bucket/coco 000017 jpg -o cat.jpg"),
    ("Write all its parts to a folder", "energon get /data/coco 000017 -o cat/"),
)
_MAX_CHECKED = 4096  # bytes that tell a text from other data


@energon_command("get", examples=_EXAMPLES, short_help="Print a part of a sample, or list its parts.")
@click.argument("path")
@click.argument("key")
@click.argument("part", required=False)
@click.option("-o", "--output", metavar="PATH", help="Write to this file; without PART, to this folder.")
@click.option("--json", "as_json", is_flag=True, help="List the parts as JSON.")
@click.option("--split-config", metavar="NAME", default="split.yaml", show_default=True, help="Name of the split file.")
@click.option("--meta-folder", metavar="DIR", help="Folder to use instead of PATH/.nv-meta.")
def get(
    path: str,
    *,
    key: str,
    part: str | None,
    output: str | None,
    as_json: bool,
    split_config: str,
    meta_folder: str | None,
) -> None:
    """Print the bytes of the part PART of the sample KEY in the dataset at PATH; without PART, list the sample's parts.

    KEY is <shard>/<key> as energon preview shows it, or the key alone if only one sample has it. PATH may also be a
    .jsonl, .bin or .parquet file, whose keys are numbers from 0, or a URL.

    Bytes that are no text are not printed on a terminal: redirect them, or name a file with -o.
    """
    from loader.inspect import format_bytes
    from loader.inspect.extract import open_sample, write_parts

    from ..console import is_terminal, output_console, print_json, show_note

    if part is not None and as_json:
        raise click.UsageError("--json lists parts; it has no use with PART.")
    sample = open_sample(
        check_path(path, meta_folder=meta_folder),
        key,
        split_config=given_name("split_config", split_config),
        meta_folder=meta_folder,
    )
    if part is not None:
        data = sample.part(part)
        if output is not None:
            _write(output, data)
        elif is_terminal(sys.stdout) and not _is_text(data):
            raise click.UsageError(
                f"{part} is no text ({format_bytes(len(data))}), and is not printed on a terminal. "
                "Redirect it, or name a file with -o."
            )
        else:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        return
    if output is not None:
        for written in write_parts(sample, output):
            show_note(f"wrote {written}")
    if as_json:
        print_json(
            {
                "key": sample.key,
                "shard": sample.shard,
                "index": sample.index,
                "parts": [place._asdict() for place in sample.parts],
            }
        )
    elif output is None:
        from rich.table import Table
        from rich.text import Text

        table = Table("part", "size", "offset in the shard", box=None, pad_edge=False)
        for place in sample.parts:
            offset = "–" if place.offset is None else f"{place.offset:,}"
            table.add_row(Text(place.name), format_bytes(place.size_bytes), offset)
        console = output_console()
        console.print(Text(f"{sample.shard}/{sample.key}"))
        console.print(table)


def _write(path: str, data: bytes) -> None:
    from loader.errors import StorageError

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
