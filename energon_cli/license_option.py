"""The option of commands that write new datasets, also to the Hugging Face Hub."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

import click

_HELP = "Write this licence to the dataset card of an hf:// DEST without one: cc-by-4.0 …, or none."
_LICENSES = "https://huggingface.co/docs/hub/repositories-licenses"


def license_option(destination: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that adds ``--license`` to a command; the function does not get it.

    Args:
        destination: Parameter of the path or URL that is written.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        @click.option("--license", "license_id", metavar="ID", help=_HELP)
        @wraps(function)
        def with_license(*arguments: Any, license_id: str | None, **others: Any) -> None:
            from loader.storage import is_hub_url

            if is_hub_url(others[destination] or ""):
                is_quick = others.get("dry_run") or others.get("yes") or not sys.stdin.isatty()
                _remember(others[destination], license_id, asks=not is_quick)
            elif license_id:
                raise click.UsageError("--license belongs to a DEST on the hub, hf://datasets/….")
            function(*arguments, **others)

        return with_license

    return decorate


def _remember(url: str, license_id: str | None, *, asks: bool) -> None:
    """Remember the licence for a URL; ask for it where a card has to be written."""
    from loader.storage import HubFolder, UnnamedLicenseError, remember_options

    folder = HubFolder(url)
    if license_id is None and asks:
        try:
            with folder:
                return
        except UnnamedLicenseError:
            license_id = click.prompt(f"Licence of the dataset, one of {_LICENSES}, or none", err=True)
    remember_options(folder.url, {"license": license_id})
