"""``energon browse``: show the samples of datasets in a web browser."""

from __future__ import annotations

import os
import secrets
import socket
import sys
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from loader.errors import ConfigError, StorageError

from ....command import energon_command
from ....console import print_json, show_note
from ....dataset_options import dataset_options
from ....dataset_paths import check_ref, writable
from ....options import flag_option, shared_options
from ....progress import ProgressBar

if TYPE_CHECKING:
    from loader.format import DatasetRef


@energon_command("browse")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@click.option("--host", default="127.0.0.1", help="Listen at this address.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Listen at this port; 0 takes a free one.")
@click.option(
    "--open/--no-open", "opens", default=True, show_default=False, help="Open the browser.  [default: on a terminal]"
)
@flag_option("--edit", help="Let pages exclude and tag samples; without it, nothing is written.")
@flag_option("--embed", help="Let pages of this machine, such as notebooks, show it in a frame.")
@click.option("--token", metavar="TOKEN", help="Put this secret into the URL instead of a random one.")
@shared_options("json", help="Print a line of JSON once pages are served.")
@dataset_options("dataset_config")
def browse(
    refs: tuple[DatasetRef, ...],
    *,
    host: str,
    port: int,
    opens: bool,
    token: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Show the samples of the datasets and metadatasets at PATH in a web browser, straight from the shards.

    PATH may also be a single .jsonl, .bin or .parquet file, or tar shards that are not prepared, a folder or a file:
    their headers are scanned first.

    Nothing is imported or copied. The printed URL contains a random token; without it the server answers nothing.
    It listens at this machine only; from another one, use ssh -L. Ctrl-C ends it. It needs the extra browse.

    Examples:
        Open a dataset in the browser:
            energon browse /data/coco
        Browse the datasets of a mix:
            energon browse /data/mix.yaml
        On a machine without a screen, at a fixed port:
            energon browse --no-open --port 8800 /data/coco
        Browse tar files that are not prepared:
            energon browse /data/downloads
        Allow to exclude samples:
            energon browse --edit /data/coco
    """
    from loader.inspect.browse import Catalogue

    # Import the server, which is an extra.
    try:
        from .app import serve_pages
    except ImportError as error:
        raise ConfigError(
            f"energon browse needs {error.name}, which is not installed",
            hint="run: pip install 'energon-toolkit[browse]'",
        ) from error
    # Read the indexes; shards that are not prepared are scanned. Previews read the default dataset file.
    checked = [check_ref(replace(ref, dataset_config=None)) for ref in refs]
    if options["edit"]:
        checked = [writable(ref) for ref in checked]
    with ProgressBar("Scanning", unit="shards") as bar:
        catalogue = Catalogue(checked, lambda now: bar.update(now.shards_done, now.shards_total))
    # Serve pages until Ctrl-C; the address is shown once they can be opened.
    listener = _listen(host, port)
    token = token or secrets.token_urlsafe(24)
    url = f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}/?token={token}"

    def show() -> None:
        if as_json:
            print_json({"url": url, "process": os.getpid()}, in_one_line=True)
            sys.stdout.flush()
        else:
            # Alone on its line, so that terminals make it a link and people can copy it.
            show_note("browse the dataset at this address (Ctrl-C stops the server):")
            click.echo(url, err=True)
        if opens and not as_json and sys.stdout.isatty():
            click.launch(url)

    with closing(catalogue):
        serve_pages(catalogue, listener, host=host, token=token, on_start=show, **options)


def _listen(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except socket.gaierror as error:
        raise click.BadParameter(f"there is no address {host!r}: {error.strerror}", param_hint="--host") from error
    except OSError as error:
        raise StorageError(
            f"cannot listen at this address: {error.strerror or error}",
            path=f"{host}:{port}",
            hint="name another --port, or none for a free one",
        ) from error
