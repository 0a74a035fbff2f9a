"""Show traced samples in the web pages of ``energon browse``."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Sequence
from urllib.parse import quote, urlencode, urlsplit

import click

__all__ = ["show_samples"]


def show_samples(samples: Sequence[tuple[str, str]]) -> None:
    """Serve the pages of samples until Ctrl-C, print their links, and open the first one.

    Args:
        samples: Path of the dataset and full key of each.

    Raises:
        Exit: The server cannot be started; it has printed the reason.
    """
    paths = list(dict.fromkeys(path for path, _ in samples))
    command = [sys.executable, "-m", "energon_cli", "browse", "--json", "--no-open", *paths]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        line = server.stdout.readline() if server.stdout is not None else ""
        if not line:
            raise click.exceptions.Exit(server.wait())
        try:
            links = _links(json.loads(line)["url"], samples)
            for (path, key), link in zip(samples, links, strict=True):
                click.echo(f"{key}  {path}\n  {link}")
            if sys.stdout.isatty():
                click.launch(links[0])
            click.echo("Ctrl-C ends", err=True)
            server.wait()
        except KeyboardInterrupt:
            pass
        finally:
            server.terminate()


def _links(url: str, samples: Sequence[tuple[str, str]]) -> list[str]:
    """Return the links of samples, each with the token."""
    start = urlsplit(url)
    catalogue = f"{start.scheme}://{start.netloc}/api/catalogue?{start.query}"
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    with opener.open(catalogue) as answer:
        names = {dataset["path"]: dataset["name"] for dataset in json.load(answer)["datasets"]}
    links = []
    for path, full_key in samples:
        shard, _, key = full_key.rpartition("/")
        place = "/".join(quote(part, safe="") for part in (names.get(path, path), shard, key))
        links.append(f"{start.scheme}://{start.netloc}/s/{place}?{urlencode({'token': start.query[6:]})}")
    return links
