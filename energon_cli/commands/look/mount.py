"""``energon mount``: show the samples of a dataset as files."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import click

from ...command import energon_command
from ...console import facts_of, print_json, show_note
from ...dataset_options import dataset_options
from ...dataset_paths import check_ref
from ...options import flag_option, shared_options
from ...progress import ProgressBar

if TYPE_CHECKING:
    from loader.format import DatasetRef


@energon_command("mount")
@click.argument("path")
@click.argument("directory")
@click.option(
    "-d/-f",
    "--detach/--foreground",
    default=False,
    show_default=False,
    help="Serve the files from a process in the background, or until Ctrl-C (default).",
)
@flag_option("-s", "--sample-folders", help="Show a folder for each sample, with a file for each part.")
@shared_options("by_shard", help="Show a folder for each shard.")
@shared_options("split_part")
@flag_option("-w", "--allow-slow", hidden=True, help="Accept megatron-energon's flag, which has no effect here.")
@shared_options("json", help="Print a line of JSON once the files can be read.")
@dataset_options("dataset_config")
def mount(
    ref: DatasetRef,
    *,
    directory: str,
    detach: bool,
    sample_folders: bool,
    by_shard: bool,
    split_part: str | None,
    allow_slow: bool,  # noqa: ARG001 - there is no slow mode here
    as_json: bool,
) -> None:
    """Mount the dataset at PATH as read-only files at DIRECTORY, an empty folder.

    PATH is a dataset, a JSONL, token or Parquet file, a metadataset, or tar shards that are not prepared: these are
    scanned first. Nothing is copied: the files are read from the shards. Each part is a file <key>.<part>; with -s,
    each sample is a folder. A slash in a key is written as %2F. Of samples with the same key, the last one is shown;
    --by-shard shows all shards apart.

    The splits and datasets of a metadataset .yaml are folders. Its filters and subsets are not applied.

    The command serves the files until Ctrl-C or an unmount (fusermount3 -u DIRECTORY). It needs the extra mount and
    libfuse 3.

    Examples:
        Show a dataset as files 000017.jpg, 000017.json …:
            energon mount /data/coco ~/coco
        With a folder for each sample, in the background:
            energon mount -s -d /data/coco ~/coco
        With a folder for each shard:
            energon mount --by-shard s3://bucket/coco ~/coco
        Show the datasets of a mix:
            energon mount -s /data/mix.yaml ~/mix
    """
    from loader.inspect import Naming, open_tree, serve_tree

    mounted = os.path.abspath(directory)
    # Mount in a process of its own, which outlives this one.
    if detach:
        facts = _start_detached()
        show_note(f"mounted at {mounted}; unmount it: fusermount3 -u {shlex.quote(mounted)}")
        if as_json:
            print_json(facts)
        return
    # Read the indexes, and serve files until Ctrl-C.
    with ProgressBar("Scanning", unit="shards") as bar:
        tree = open_tree(
            check_ref(ref),
            Naming(sample_folders=sample_folders, shard_folders=by_shard),
            split_part=split_part,
            on_progress=lambda now: bar.update(now.shards_done, now.shards_total),
        )

    def show() -> None:
        if as_json:
            facts = facts_of(ref, "path directory process", directory=mounted, process=os.getpid())
            print_json(facts, in_one_line=True)
            sys.stdout.flush()
        else:
            show_note(f"mounted at {mounted}; Ctrl-C unmounts")

    serve_tree(tree, mounted, on_ready=show)


def _start_detached() -> Any:
    """Run this command again in the background, and return its line of JSON once files can be read."""
    # Without -P, modules of the working directory, which may be a dataset, would be imported.
    command = [sys.executable, "-P", "-m", "energon_cli", *sys.argv[1:], "--foreground", "--json"]
    with tempfile.TemporaryFile() as messages:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=messages, start_new_session=True
        )
        with cast("BinaryIO", process.stdout) as answers:
            line = answers.readline()
        if line:
            return json.loads(line)
        code = process.wait()
        messages.seek(0)
        click.echo(messages.read().decode("utf-8", "replace"), err=True, nl=False)
    raise click.exceptions.Exit(code or 1)
