# Written by tests/unit/integrations/test_megatron_energon.py from alias_modules.py.
from loader import EPath as EPath
from loader.integrations.megatron_energon_names import MediaFilterConfig as MediaFilterConfig
from loader.integrations.megatron_energon_names import prepare_filesystem_dataset as prepare_filesystem_dataset
from loader.integrations.megatron_energon_names import serialize_media_metadata as serialize_media_metadata
from megatron.energon.flavors.webdataset.config import INDEX_SQLITE_FILENAME as INDEX_SQLITE_FILENAME
from megatron.energon.flavors.webdataset.config import MAIN_FOLDER_NAME as MAIN_FOLDER_NAME
