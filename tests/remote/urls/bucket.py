"""A bucket of an object server, whose objects are the files of a folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.object_server import ObjectServer


@dataclass(frozen=True)
class Bucket:
    """The folder with the objects of ``s3://b``, and the server of it."""

    folder: Path
    server: ObjectServer
    url: str = "s3://b"

    def requests(self, run: Callable[[], object]) -> list[str]:
        """Return the requests that a call makes, as ``GET a/shard_000.tar``; a listing is a ``LIST``."""
        before = len(self.server.requests)
        run()
        return [
            f"{'LIST' if one.is_listing else one.method} {one.key.removeprefix('b/')}"
            for one in self.server.requests[before:]
        ]

    def write_mix(self, name: str, **splits: Any) -> str:
        """Write a metadataset into the bucket, and return its URL."""
        document = {"__module__": "megatron.energon", "__class__": "MetadatasetV2", "splits": splits}
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump(document))
        return f"{self.url}/{name}"
