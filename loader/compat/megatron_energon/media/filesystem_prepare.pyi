# Written by tests/unit/compat/test_megatron_energon.py from alias_modules.py.
from loader import EPath as EPath
from loader.compat.kinds_and_media import MediaFilterConfig as MediaFilterConfig
from loader.compat.kinds_and_media import prepare_filesystem_dataset as prepare_filesystem_dataset
from loader.compat.kinds_and_media import serialize_media_metadata as serialize_media_metadata
from megatron.energon.flavors.webdataset.config import INDEX_SQLITE_FILENAME as INDEX_SQLITE_FILENAME
from megatron.energon.flavors.webdataset.config import MAIN_FOLDER_NAME as MAIN_FOLDER_NAME
