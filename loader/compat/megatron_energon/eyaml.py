"""Parsed YAML and JSON files."""

import os
from typing import Any, BinaryIO

from loader.format.documents.yaml_document import parse_yaml
from loader.storage import open_parent
from loader.storage.epath import EPath

__all__ = ["EPath", "load_yaml", "load_yaml_json"]


def load_yaml(stream: BinaryIO | bytes) -> Any:
    """Parse a YAML (or JSON) document.

    Raises:
        ConfigError: It is not valid YAML.

    >>> load_yaml(b"a: [1, 2.5, yes]")
    {'a': [1, 2.5, True]}
    """
    content = stream if isinstance(stream, bytes) else stream.read()
    return parse_yaml(content.decode("utf-8", "replace"), file=getattr(stream, "name", "the document"))


def load_yaml_json(path: str | os.PathLike[str]) -> Any:
    """Parse a YAML or JSON file.

    Raises:
        ConfigError: It is not valid YAML.
        StorageError: It cannot be read.
    """
    storage, name = open_parent(path)
    return parse_yaml(storage.read(name).decode("utf-8", "replace"), file=storage.path(name))
