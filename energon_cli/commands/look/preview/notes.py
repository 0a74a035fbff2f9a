"""Samples that a user noted for exclusion."""

from __future__ import annotations

import json
import re

from loader.inspect import SampleView

_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]*")


class Notes:
    """Keys of samples, by the dataset that they are from."""

    def __init__(self) -> None:
        self._keys: dict[str | None, dict[str, None]] = {}

    def __contains__(self, sample: SampleView) -> bool:
        return sample.key is not None and sample.key in self._keys.get(sample.origin, {})

    def __len__(self) -> int:
        return sum(map(len, self._keys.values()))

    def toggle(self, sample: SampleView) -> None:
        """Note a sample, or drop the note."""
        if sample.key is None:
            return
        keys = self._keys.setdefault(sample.origin, {})
        if sample.key in keys:
            del keys[sample.key]
        else:
            keys[sample.key] = None

    def lines(self) -> list[str]:
        """Return the lines for ``split.yaml``; a comment before the lines of each dataset names it."""
        lines = []
        for origin, keys in self._keys.items():
            if keys:
                lines += [*([] if origin is None else [f"# {origin}"]), "exclude:"]
                lines += [f"- {key if _PLAIN.fullmatch(key) else json.dumps(key)}" for key in keys]
        return lines
