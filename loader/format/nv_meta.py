"""The names of the files in a dataset's ``.nv-meta`` folder (``docs/format.md``)."""

from __future__ import annotations

FOLDER = ".nv-meta"
"""The folder next to the shards that makes them a dataset."""

INFO_JSON = f"{FOLDER}/.info.json"
INFO_YAML = f"{FOLDER}/.info.yaml"  # datasets prepared before 2025
SPLIT_YAML = "split.yaml"  # in FOLDER; users may choose another name for it and for dataset.yaml
SPLIT_JSON = "split.json"  # used if split.yaml is missing
DATASET_YAML = "dataset.yaml"
INDEX_SQLITE = f"{FOLDER}/index.sqlite"
INDEX_UUID = f"{FOLDER}/index.uuid"
INDEX_FOLDER = f"{FOLDER}/index"
LOCK = f"{FOLDER}/.lock"
WORK_FOLDER = f"{FOLDER}/.prepare"
"""The folder of an unfinished prepare: its scans, and files that are not committed yet."""

TAR_IDX_SUFFIX = ".idx"

FORMAT_VERSION = "7.4.1"
"""The version of the public format that this library writes."""
