"""Check that a new dataset is not written into a folder that it is made of."""

from __future__ import annotations

import os
from collections.abc import Iterable

from ...errors import ConfigError
from ...storage import is_url


def check_outside(output: str, sources: Iterable[str]) -> None:
    """Raise a ``ConfigError`` if an output is one of some folders, or inside of one.

    The next run, and each later one on that folder, would take the new shards for samples.

    Args:
        output: Path or URL of the new dataset.
        sources: Paths or URLs of what it is made of.
    """
    if is_url(output) or os.path.isfile(output):  # a file is refused anyway
        return
    target = os.path.join(os.path.realpath(output), "")
    for path in sources:
        if not is_url(path) and os.path.isdir(path) and target.startswith(os.path.join(os.path.realpath(path), "")):
            raise ConfigError(
                "the new dataset would be inside of the folder that it is made of",
                at=output,
                hint=f"name a folder outside of {path}",
            )
