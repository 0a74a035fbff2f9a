"""Names of the files in a dataset's ``.nv-meta`` folder (``docs/format.md``)."""

from __future__ import annotations

FOLDER = ".nv-meta"
"""The folder beside the shards that makes a dataset of them."""

INFO_JSON = f"{FOLDER}/.info.json"
INFO_YAML = f"{FOLDER}/.info.yaml"  # datasets prepared before 2025
SPLIT_YAML = "split.yaml"  # in FOLDER; the user may choose other names for these two
SPLIT_JSON = "split.json"  # where there is no split.yaml
DATASET_YAML = "dataset.yaml"
INDEX_SQLITE = f"{FOLDER}/index.sqlite"
INDEX_UUID = f"{FOLDER}/index.uuid"
INDEX_FOLDER = f"{FOLDER}/index"
LOCK = f"{FOLDER}/.lock"
WORK_FOLDER = f"{FOLDER}/.prepare"
"""What a running prepare has done so far: the journal, and files not yet in place."""

TAR_IDX_SUFFIX = ".idx"

FORMAT_VERSION = "7.4.1"
"""The version of the public format that we write."""
