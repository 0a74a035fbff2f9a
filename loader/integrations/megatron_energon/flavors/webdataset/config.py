from posixpath import basename

from loader.format.nv_meta import FOLDER as MAIN_FOLDER_NAME
from loader.format.nv_meta import INDEX_SQLITE, INDEX_UUID, INFO_JSON, INFO_YAML
from loader.format.nv_meta import SPLIT_YAML as SPLIT_YAML_FILENAME

__all__ = [
    "INDEX_SQLITE_FILENAME",
    "INDEX_UUID_FILENAME",
    "INFO_JSON_FILENAME",
    "INFO_YAML_FILENAME",
    "MAIN_FOLDER_NAME",
    "SPLIT_YAML_FILENAME",
]

INDEX_SQLITE_FILENAME = basename(INDEX_SQLITE)
INDEX_UUID_FILENAME = basename(INDEX_UUID)
INFO_JSON_FILENAME = basename(INFO_JSON)
INFO_YAML_FILENAME = basename(INFO_YAML)
