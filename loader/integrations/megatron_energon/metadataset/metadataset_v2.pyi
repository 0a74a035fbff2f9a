# Written by tests/unit/integrations/test_megatron_energon.py from alias_modules.py.
from loader import MetadatasetV2 as MetadatasetV2
from megatron.energon.flavors.webdataset.config import INDEX_SQLITE_FILENAME as INDEX_SQLITE_FILENAME
from megatron.energon.flavors.webdataset.config import MAIN_FOLDER_NAME as MAIN_FOLDER_NAME
