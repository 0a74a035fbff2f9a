"""The kind of the data at a path, found once for all that is done with them."""

from __future__ import annotations

from ..format.data_kind import Kind, is_tar_file
from ..format.dataset_ref import DatasetRef
from ..format.documents.dataset_files import is_prepared
from ..format.nv_meta import FOLDER, INDEX_SQLITE, INDEX_UUID, SPLIT_YAML


def kind_at(ref: DatasetRef) -> Kind:
    """Return the kind of data that a path names; tar shards if it names a prepared folder, or nothing."""
    if ref.kind.format != "folder":
        return ref.kind.plural
    if is_tar_file(ref.path):
        return "unprepared tar files"
    meta = ref.find_meta()
    storage = ref.storage(meta)
    if is_prepared(storage):
        return "tar shards"
    remains = (INDEX_UUID, f"{FOLDER}/{SPLIT_YAML}")  # of a dataset of shards, which is damaged
    if storage.exists(INDEX_SQLITE) and not any(map(storage.exists, remains)):
        return "folders of media files"
    # A folder that is named for its metadata should have a prepare.
    return "unprepared tar files" if meta.origin == "data" and storage.exists("") else "tar shards"
