"""Parse the keys that all references to datasets have, in both versions of the document."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from ...errors import Fault
from ...format.dataset_ref import DOCUMENT_CHOICES, DatasetRef
from ...format.documents.messages import short_repr
from ...format.documents.providers import FILESYSTEM, files_folder
from ...format.documents.subset import EXPECTED_RANGE, SubsetRange, parse_range
from ...format.nv_meta import is_filter_name
from ...storage.remote import redact_urls, secret_fault
from .leaf_plan import ReferenceSpec
from .mapping_reader import MappingReader

REFERENCE_KEYS = (
    "path",
    "split_part",
    *DOCUMENT_CHOICES,
    "subflavors",
    "tags",
    "filter",
    "shuffle_over_epochs_multiplier",
    "subset",
    "aux",
)


def parse_reference(reader: MappingReader) -> ReferenceSpec | None:
    """Read a reference; None if it has no path. The caller checks for unknown keys."""
    path = _expanded(reader, "path", reader.text("path"))
    if path is None and reader.mapping.get("path") is None:
        reader.fault("path", "expected the path of a dataset, found nothing")
    aux = _parse_aux(reader)
    split_part = reader.text("split_part")
    ref = DatasetRef(
        path or "",
        split_config=_file_in_nv_meta(reader, "split_config"),
        dataset_config=_file_in_nv_meta(reader, "dataset_config"),
        meta_folder=_expanded(reader, "meta_folder", reader.text("meta_folder")),
    )
    reference = ReferenceSpec(
        place=reader.place,
        ref=ref,
        split_part=split_part,
        subflavors=parse_subflavors(reader),
        filter=_filter(reader),
        epochs_together=parse_epochs_together(reader),
        subset=parse_subset(reader),
        aux=aux,
    )
    return reference if path is not None else None


def parse_subflavors(reader: MappingReader) -> Mapping[str, Any]:
    """Read the key ``subflavors``, or ``tags``, its other name, and convert the keys of its mapping to strings."""
    both = [key for key in ("subflavors", "tags") if reader.mapping.get(key) is not None]
    if len(both) == 2:
        reader.fault("tags", "this is another name of 'subflavors', which is here, too; remove one of them")
    found = reader.child(both[0]) if both else None
    return {str(key): value for key, value in found.mapping.items()} if found else {}


def parse_epochs_together(reader: MappingReader) -> int | None:
    """Read the key ``shuffle_over_epochs_multiplier``; 1 if it is missing."""
    value = reader.mapping.get("shuffle_over_epochs_multiplier", 1)
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and (value == -1 or value >= 1)):
        return value
    reader.fault(
        "shuffle_over_epochs_multiplier", f"expected a whole number >= 1, -1 or null, found {short_repr(value)}"
    )
    return 1


def _file_in_nv_meta(reader: MappingReader, key: str) -> str | None:
    name = reader.text(key)
    if name is None or not (name.startswith("/") or ".." in name.split("/")):
        return name
    reader.fault(key, f"expected the name of a file in .nv-meta, found {short_repr(name)}")
    return None


def _filter(reader: MappingReader) -> str | None:
    name = reader.text("filter")
    if name is None or is_filter_name(name):
        return name
    reader.fault(
        "filter", f"expected the name of a filter: letters, digits, '.', '_' and '-', found {short_repr(name)}"
    )
    return None


def _expanded(reader: MappingReader, key: str, path: str | None) -> str | None:
    """Replace environment variables in a path; add a fault for each that is not set, and for a secret in a URL."""
    for name in dict.fromkeys(unset_variables(path or "")):
        shown = name if len(name) <= _MAX_NAME else f"{name[:_MAX_NAME]}…"
        reader.fault(key, f"the environment variable {shown} is not set; set it, or write ${{{shown}:default}}")
    expanded = path and expand_variables(path)
    if expanded and len(expanded) > _MAX_PATH:
        found = f"with its environment variables the path has {len(expanded):,} letters"
        reader.fault(key, f"{found}; expected at most {_MAX_PATH:,}")
        return path
    secret = secret_fault(expanded or "")
    if secret is not None:
        reader.fault(key, f"{secret}: {redact_urls(expanded or '')}")
        return redact_urls(expanded or "")
    return expanded


_MAX_NAME = 100
_MAX_PATH = 1 << 16  # file systems and URLs allow fewer


_EXPECTED_STORE = 'expected the path of a dataset, or "filesystem://" and the path of a folder'
_RESERVED_NAMES = ("cache", "primary", "sample")
"""Names of other arguments of cookers."""
_PREFIX_OF_KEY = {"path": "", "fs_path": FILESYSTEM}


def _parse_aux(owner: MappingReader) -> Mapping[str, DatasetRef]:
    """Read the key ``aux`` of a mapping: name → dataset or folder of files, as written in the document.

    The long forms ``{path: …}`` and ``{fs_path: …}`` are converted to the short ones.
    """
    reader = owner.child("aux")
    stores: dict[str, DatasetRef] = {}
    if reader is None:
        return stores
    for name in reader.mapping:
        if not isinstance(name, str):
            reader.faults.append(Fault(place=reader.at(name), message="expected a name; put it in quotes"))
            continue
        if name in _RESERVED_NAMES:
            reader.fault(name, f"expected another name: {name}= is another argument of cookers")
            continue
        store = _store(reader, name)
        if store is not None:
            stores[name] = store
    return stores


def _store(reader: MappingReader, name: str) -> DatasetRef | None:
    value = reader.mapping[name]
    if not isinstance(value, Mapping):
        store = value if isinstance(value, str) else None
        if not store or files_folder(store) == "":
            reader.fault(name, f"{_EXPECTED_STORE}, found {short_repr(value)}")
        store = _expanded(reader, name, store)
        return DatasetRef(store) if store else None
    inner = MappingReader(value, reader.at(name), reader.faults)
    inner.expect_keys((*_PREFIX_OF_KEY, "meta_folder"))
    keys = [key for key in _PREFIX_OF_KEY if key in inner]
    if len(keys) != 1:
        inner.fault("", f"expected either 'path' or 'fs_path', found {' and '.join(map(repr, keys)) or 'neither'}")
        return None
    text = _expanded(inner, keys[0], inner.text(keys[0]))
    folder = _expanded(inner, "meta_folder", inner.text("meta_folder"))
    store = _PREFIX_OF_KEY[keys[0]] + text if text else None
    if folder is not None and files_folder(store or "") is not None:
        inner.fault("meta_folder", "a folder of files has none; name a prepared dataset with 'path'")
    return DatasetRef(store, meta_folder=folder) if store else None


def parse_subset(owner: MappingReader) -> SubsetRange | None:
    """Read the key ``subset`` of a mapping; None if it is missing or invalid."""
    reader = owner.child("subset")
    if reader is None:
        return None
    reader.expect_keys(["range"])
    if "range" not in reader:
        reader.fault("range", f"this is missing; {EXPECTED_RANGE}")
        return None
    try:
        return parse_range(reader.mapping["range"])
    except ValueError as error:
        reader.fault("range", str(error))
        return None


_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::([^{}]*))?\}")


def expand_variables(path: str) -> str:
    """Replace the environment variables in a path. A variable without value and default stays as written.

    >>> expand_variables("${NO_SUCH_VARIABLE:/data}/coco"), expand_variables("$HOME/a b")
    ('/data/coco', '$HOME/a b')
    """
    return _VARIABLE.sub(_value, path) if "${" in path else path


def unset_variables(path: str) -> list[str]:
    """Return the names of the variables in a path that have neither a value nor a default.

    >>> unset_variables("${NO_SUCH_VARIABLE}/coco"), unset_variables("${NO_SUCH_VARIABLE:}/coco")
    (['NO_SUCH_VARIABLE'], [])
    """
    found = _VARIABLE.finditer(path) if "${" in path else ()
    return [match[1] for match in found if match[2] is None and match[1] not in os.environ]


def _value(match: re.Match[str]) -> str:
    value: str = os.environ.get(match[1], match[0] if match[2] is None else match[2])
    return value
