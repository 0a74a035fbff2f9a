"""``energon index``: write the index of a dataset as one file, and take the one of others."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from loader.errors import escape_controls, plural

from ...command import CONTEXT_SETTINGS, LazyCommand, LazyGroup, add_common_options, energon_command
from ...console import is_terminal, output_console, print_json, show_note
from ...dataset_options import dataset_options
from ...dataset_paths import check_ref
from ...options import shared_options

if TYPE_CHECKING:
    from loader.dataset.shared_index import PulledIndex
    from loader.format import DatasetRef


@energon_command("push")
@click.argument("path")
@click.argument("dest")
@shared_options("json")
@dataset_options()
def push(ref: DatasetRef, *, dest: str, as_json: bool) -> None:
    """Write the index of the prepared dataset at PATH as one file, DEST: a path or URL.

    A folder, or a URL that ends with /, gets a name by the dataset. The file has the index, the split, the sample type,
    columns and filters, and no code; a sample takes 4 to 20 bytes.

    Examples:
        Write the index of a bucket that others may read:
            energon index push s3://bucket/coco /shared/coco.energon-index
        Publish it on a web server's bucket:
            energon index push /data/coco s3://public/indexes/coco.energon-index
    """
    from loader.dataset.shared_index import push_index

    pushed = push_index(check_ref(ref, takes_tar=False), dest)
    if as_json:
        print_json(pushed)
        return
    each = f", {pushed.size_bytes / max(1, pushed.samples):.1f} bytes a sample"
    text = f"wrote {pushed.path}: {plural(pushed.samples, 'sample')} in {plural(pushed.shards, 'shard')}{each}"
    output_console().print(escape_controls(text), style="green")
    if pushed.files:
        show_note(f"with {', '.join(pushed.files)}")


@energon_command("pull")
@click.argument("url")
@click.argument("folder", required=False)
@click.option("--data", metavar="PATH", help="Path or URL of the data, if the index was made of a copy elsewhere.")
@click.option("--with-split/--without-split", default=None, help="Take the split and sample type of others, or not.")
@shared_options("force_overwrite", help="Replace files in FOLDER, and the metadata of another dataset.")
@shared_options("json")
def pull(
    url: str,
    folder: str | None,
    *,
    data: str | None,
    with_split: bool | None,
    force_overwrite: bool,
    as_json: bool,
) -> None:
    """Fetch the index file at URL, check it, and put it into FOLDER, which --meta-folder of other commands names.

    Without FOLDER, it goes to your folder of indexes, where commands and loaders find it by the path of the data. Each
    part of a sample is compared with its header in the shard when it is read, so a wrong index gives no wrong bytes.

    The split and the sample type are decisions of others: they are shown, and taken with --with-split. Files that
    FOLDER already has stay.

    Examples:
        Take the index that another team has published:
            energon index pull https://host/indexes/coco.energon-index
        Take its split and sample type, too:
            energon index pull https://host/indexes/coco.energon-index --with-split
        Use it for a copy of the data on this machine:
            energon index pull coco.energon-index --data /data/coco
        Put it into a folder of your own:
            energon index pull coco.energon-index /home/me/coco-meta
    """
    from loader.dataset.shared_index import pull_index

    pulled = pull_index(url, folder, data=data, with_split=bool(with_split), force=force_overwrite)
    left = [name for name in pulled.left if name in pulled.documents]
    # Show the documents of others, and ask for them.
    if left and not as_json and with_split is None:
        for name in left:
            click.echo(escape_controls(f"{name}:\n{pulled.documents[name]}", keep="\n"))
        if is_terminal(sys.stdin) and is_terminal(sys.stderr) and click.confirm("Take them?", err=True):
            pulled = pull_index(url, folder, data=data, with_split=True, force=force_overwrite)
    print_json(pulled) if as_json else _show(pulled, data or pulled.data)


def _show(pulled: PulledIndex, data: str) -> None:
    size = f"{plural(pulled.samples, 'sample')} in {plural(pulled.shards, 'shard')}"
    text = f"put the index of {data or 'the data'} into {pulled.folder}: {size}"
    output_console().print(escape_controls(text), style="green")
    if pulled.taken:
        show_note(f"with {', '.join(pulled.taken)}")
    if pulled.left:
        show_note(f"without {', '.join(pulled.left)}: pass --with-split for the split and sample type of others")


_COMMANDS = {
    "push": LazyCommand(".make.index:push", "Write the index of a dataset as one file."),
    "pull": LazyCommand(".make.index:pull", "Fetch an index file, check it, and use it."),
}
_EXAMPLES = (
    ("Write the index of a dataset as one file", "energon index push /data/coco /shared/coco.energon-index"),
    ("Use the index of others", "energon index pull https://host/coco.energon-index"),
)


@click.group(
    "index",
    cls=LazyGroup,
    lazy_commands=_COMMANDS,
    examples=_EXAMPLES,
    context_settings=CONTEXT_SETTINGS,
    no_args_is_help=True,
    short_help="Share the index of a dataset.",
)
def index() -> None:
    """Share the index of a dataset as one file, so that others need not scan its shards."""


add_common_options(index)
