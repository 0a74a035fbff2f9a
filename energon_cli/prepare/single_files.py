"""``energon prepare`` of a single file: index the lines of a JSONL file; other files of samples need no index."""

from __future__ import annotations

import click

from loader.inspect import format_bytes, plural
from loader.storage import open_parent

from ..console import output_console, print_json
from ..progress import ProgressBar
from .flags import PrepareFlags, check_flags


def check_file_flags(flags: PrepareFlags) -> None:
    """Reject flags that apply only to folders of shards.

    Raises:
        click.UsageError: One of them is set; the message names it.
    """
    of_folders = {
        "--decompress": flags.decompress,
        "--part": flags.part is not None,
        "--merge": flags.merge,
        "--engine dask": flags.engine == "dask",
    }
    for flag, given in of_folders.items():
        if given:
            raise click.UsageError(f"{flag} is valid only for folders of shards.")


def prepare_jsonl(flags: PrepareFlags) -> None:
    """Index the lines of a JSONL file."""
    from loader.format import jsonl

    check_flags(flags)
    if flags.media:
        raise click.UsageError(f"{flags.media.flag}: a JSONL file contains no media files.")
    storage, name = open_parent(flags.path)
    size_bytes = storage.stat(name).size_bytes
    with ProgressBar("Reading lines", unit="bytes", enabled=flags.progress) as bar:
        index_lines = jsonl.build_jsonl_index if flags.dry_run else jsonl.prepare_jsonl
        index = index_lines(storage, name, progress=lambda done: bar.update(done, size_bytes))
    document = {"path": flags.path, "samples": len(index), "bytes": size_bytes, "dry_run": flags.dry_run}
    if flags.as_json:
        print_json(document)
        return
    verb = "would index" if flags.dry_run else "indexed"
    output_console().print(
        f"{verb} {flags.path}: {plural(len(index), 'sample')}, {format_bytes(size_bytes)}", soft_wrap=True
    )


def check_record_file(flags: PrepareFlags) -> None:
    """Open a token file or Parquet file, and report that it needs no index."""
    from loader.format.records import open_record_path

    check_flags(flags)
    file = open_record_path(flags.path)
    document = {"path": flags.path, "samples": len(file), "bytes": file.size_bytes, "dry_run": flags.dry_run}
    if flags.as_json:
        print_json(document)
        return
    size = format_bytes(file.size_bytes)
    output_console().print(
        f"nothing to prepare: {flags.path} can be loaded as it is, {plural(len(file), 'sample')}, {size}",
        soft_wrap=True,
    )
