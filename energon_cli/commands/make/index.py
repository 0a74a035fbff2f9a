"""``energon index``: write the index of a dataset as one file, and take the one of others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from loader.errors import escape_controls, plural

from ...command import CONTEXT_SETTINGS, LazyCommand, LazyGroup, add_common_options, energon_command
from ...console import output_console, print_json, show_note
from ...dataset_options import dataset_options
from ...dataset_paths import check_ref
from ...options import flag_option, shared_options

if TYPE_CHECKING:
    from loader.dataset import SharedIndex
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
        Publish it in a repository of the Hugging Face Hub:
            energon index push s3://bucket/coco hf://datasets/me/indexes/coco.energon-index
    """
    from loader.dataset import push_index

    pushed = push_index(check_ref(ref, takes_tar=False), dest)
    _show(pushed, f"wrote {pushed.path}", as_json=as_json)


@energon_command("pull")
@click.argument("url")
@click.argument("folder", required=False)
@click.option("--data", metavar="PATH", help="Read data at this path or URL, if the index is of a copy elsewhere.")
@flag_option("--with-split", help="Take the split and the sample type that others chose.")
@shared_options("force_overwrite", help="Replace files in FOLDER, and the metadata of another dataset.")
@shared_options("json")
def pull(
    url: str,
    folder: str | None,
    *,
    data: str | None,
    with_split: bool,
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
    from loader.dataset import pull_index

    pulled = pull_index(url, folder, data=data, with_split=with_split, force=force_overwrite)
    _show(pulled, f"put the index of {data or pulled.data or 'the data'} into {pulled.path}", as_json=as_json)


def _show(shared: SharedIndex, text: str, *, as_json: bool) -> None:
    if as_json:
        print_json(shared)
        return
    for name in shared.left:
        if name in shared.documents:
            click.echo(escape_controls(f"{name}:\n{shared.documents[name]}", keep="\n"))
    text += f": {plural(shared.samples, 'sample')} in {plural(shared.shards, 'shard')}"
    text += f", {shared.size_bytes / max(1, shared.samples):.1f} bytes a sample"
    output_console().print(escape_controls(text), style="green")
    if shared.files:
        show_note(f"with {', '.join(shared.files)}")
    if shared.left:
        why = "pass --with-split for the split and sample type of others" if shared.documents else "they are too large"
        show_note(f"without {', '.join(shared.left)}: {why}")


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
