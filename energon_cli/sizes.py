"""Sizes on the command line, such as ``1GB``."""

from __future__ import annotations

import re

import click

_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?)(i?)b?", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def parse_size(_ctx: click.Context, _parameter: click.Parameter, text: str) -> int:
    """Parse a size in bytes, as the callback of an option.

    Raises:
        click.BadParameter: It is no positive size.

    >>> [parse_size(None, None, text) for text in ("500MB", "1.5 GiB", "1000")]
    [500000000, 1610612736, 1000]
    """
    match = _SIZE.fullmatch(text.strip())
    number, power, binary = match.groups() if match else ("0", "", "")
    size_bytes = int(float(number) * (1024 if binary else 1000) ** _POWERS[power.lower()])
    if size_bytes < 1:
        raise click.BadParameter(f"expected a size such as 500MB, 1GB or 1GiB, found {text!r}")
    return size_bytes


def parse_size_or_megabytes(context: click.Context, parameter: click.Parameter, text: str) -> int:
    """Parse a size as :func:`parse_size` does; a number without a unit counts megabytes, as it always has in extract.

    >>> [parse_size_or_megabytes(None, None, text) for text in ("500", "1GB", "0.5")]
    [500000000, 1000000000, 500000]
    """
    has_unit = not text.strip().replace(".", "", 1).isdecimal()
    return parse_size(context, parameter, text if has_unit else f"{text}MB")
