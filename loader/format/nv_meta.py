"""The names of the files in a dataset's ``.nv-meta`` folder (``docs/format.md``)."""

from __future__ import annotations

import re

from ..errors import FormatError

FOLDER = ".nv-meta"  # the folder next to the shards that makes them a dataset

INFO_JSON = f"{FOLDER}/.info.json"
INFO_YAML = f"{FOLDER}/.info.yaml"  # datasets prepared before 2025
SPLIT_YAML = "split.yaml"  # in FOLDER; users may choose another name for it and for dataset.yaml
SPLIT_JSON = "split.json"  # used if split.yaml is missing
# How names begin of folders in the system's temporary folder that replace ``.nv-meta`` of shards without an index.
TEMPORARY_INDEX = "energon-index-"
DATASET_YAML = "dataset.yaml"
REQUEST_JSON = "request.json"  # in FOLDER: the command that has written the shards, and what they follow from
INDEX_SQLITE = f"{FOLDER}/index.sqlite"
INDEX_UUID = f"{FOLDER}/index.uuid"
INDEX_FOLDER = f"{FOLDER}/index"
COLUMNS_FOLDER = f"{FOLDER}/columns"
LOCK = f"{FOLDER}/.lock"
# The folder of an unfinished prepare: its scans, and files that are not committed yet.
WORK_FOLDER = f"{FOLDER}/.prepare"
# The folder of unfinished jobs whose tasks leave results: a folder each.
JOBS_FOLDER = f"{FOLDER}/.jobs"

TAR_IDX_SUFFIX = ".idx"

FORMAT_VERSION = "7.4.1"  # the version of the public format that this library writes


def outdated(message: str, shard: str, offset: int | None = None) -> FormatError:
    """Return the error of a file that is not as it was prepared."""
    return FormatError(message, shard=shard, offset=offset, hint="run energon prepare again on this dataset")


def contradictory(message: object, path: str) -> FormatError:
    """Return the error of an index whose columns contradict each other."""
    fault = f"the columns of the index contradict each other ({message})"
    return FormatError(fault, shard=path, hint="run energon prepare --force-overwrite on this dataset")


FILTER_NAME = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}"  # a regular expression


def is_filter_name(name: str) -> bool:
    """Return True if a filter may have this name, which is a part of the names of its files.

    >>> is_filter_name("quality-0.9"), is_filter_name("../x")
    (True, False)
    """
    return re.fullmatch(FILTER_NAME, name) is not None


_SHARED_FILE = re.compile(
    rf"split\.(yaml|json)|dataset\.yaml|part_sets\.json|filter_{FILTER_NAME}\.(json|idx)"
    r"|columns/[A-Za-z]\w{0,99}\.(json|npy|valid\.npy|utf8)",
    re.ASCII,
)


def is_shared_file(name: str) -> bool:
    """Return True for a file of ``.nv-meta`` that an index file may have next to the columns: never code.

    >>> is_shared_file("columns/width.npy"), is_shared_file("sample_loader.py"), is_shared_file("../split.yaml")
    (True, False, False)
    """
    return _SHARED_FILE.fullmatch(name) is not None
