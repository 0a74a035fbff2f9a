# Written by tests/unit/compat/test_megatron_energon.py from alias_modules.py.
from loader import EPath as EPath
from loader import EmptyDatasetError as EmptyDatasetError
from loader.compat.dataset_facts import EnergonDatasetType as EnergonDatasetType
from loader.compat.dataset_facts import INDEX_SQLITE_FILENAME as INDEX_SQLITE_FILENAME
from loader.compat.dataset_facts import INFO_JSON_FILENAME as INFO_JSON_FILENAME
from loader.compat.dataset_facts import INFO_YAML_FILENAME as INFO_YAML_FILENAME
from loader.compat.dataset_facts import WebdatasetInfo as WebdatasetInfo
from loader.compat.dataset_facts import WebdatasetSplits as WebdatasetSplits
from loader.compat.dataset_facts import check_dataset_info_present as check_dataset_info_present
from loader.compat.dataset_facts import get_dataset_info as get_dataset_info
from loader.compat.dataset_facts import get_dataset_type as get_dataset_type
from loader.compat.dataset_facts import get_info_shard_files as get_info_shard_files
from loader.compat.webdataset_factory import ShardInfo as ShardInfo
from loader.compat.webdataset_factory import WebdatasetMeta as WebdatasetMeta
from loader.format.nv_meta import FOLDER as _FOLDER
MAIN_FOLDER_NAME = _FOLDER
