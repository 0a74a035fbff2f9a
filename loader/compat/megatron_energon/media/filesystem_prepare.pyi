# Written by tests/unit/compat/test_megatron_energon.py from alias_modules.py.
from loader import EPath as EPath
from loader.compat.dataset_facts import INDEX_SQLITE_FILENAME as INDEX_SQLITE_FILENAME
from loader.compat.media_filters import MediaFilterConfig as MediaFilterConfig
from loader.compat.media_filters import prepare_filesystem_dataset as prepare_filesystem_dataset
from loader.format.media.metadata import serialize_media_metadata as serialize_media_metadata
from loader.format.nv_meta import FOLDER as _FOLDER
MAIN_FOLDER_NAME = _FOLDER
