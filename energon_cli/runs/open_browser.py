"""Show traced samples in the web pages of ``energon browse``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Sequence
from urllib.parse import urlsplit

import click


def show_samples(samples: Sequence[tuple[str, str]]) -> None:
    """Serve the pages of samples until Ctrl-C, print their links, and open the first one.

    Args:
        samples: Path of the dataset and full key of each.

    Raises:
        Exit: The server cannot be started; it has printed the reason.
    """
    from loader.errors import escape_controls

    from ..console import show_note

    paths = list(dict.fromkeys(path for path, _ in samples))
    # Without -P, modules of the working directory, which may be a dataset, would be imported.
    command = [sys.executable, "-P", "-m", "energon_cli", "browse", "--json", "--no-open", *paths]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        line = server.stdout.readline() if server.stdout is not None else ""
        if not line:
            raise click.exceptions.Exit(server.wait())
        try:
            links = _links(json.loads(line)["url"], samples)
            for (path, key), link in zip(samples, links, strict=True):
                click.echo(f"{escape_controls(f'{key}  {path}')}\n  {link or 'has no page'}")
            first = next(filter(None, links), None)
            if sys.stdout.isatty() and first is not None:
                click.launch(first)
            show_note("Ctrl-C ends")
            server.wait()
        except KeyboardInterrupt:
            pass
        finally:
            server.terminate()


def _links(url: str, samples: Sequence[tuple[str, str]]) -> list[str | None]:
    """Return the links of samples, each with the token; None for a sample without a page."""
    from loader.inspect.browse import page_url

    start = urlsplit(url)
    catalogue = f"{start.scheme}://{start.netloc}/api/catalogue?{start.query}"
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    with opener.open(catalogue) as answer:
        names = {dataset["path"]: dataset["name"] for dataset in json.load(answer)["datasets"]}
    links = []
    for path, full_key in samples:
        name = names.get(path if "://" in path else os.path.abspath(path))
        links.append(None if name is None else page_url(url, name, *_shard_and_key(full_key)))
    return links


def _shard_and_key(full_key: str) -> tuple[str, str]:
    """Split the full key of a sample; keys in tar shards may have slashes, too."""
    shard, separator, key = full_key.partition(".tar/")
    if separator:
        return f"{shard}.tar", key
    shard, _, key = full_key.rpartition("/")
    return shard, key
