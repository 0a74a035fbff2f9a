# Written by tests/unit/compat/test_megatron_energon.py from alias_modules.py.
from loader.compat.dataset_facts import INDEX_SQLITE_FILENAME as INDEX_SQLITE_FILENAME
from loader.compat.dataset_facts import INDEX_UUID_FILENAME as INDEX_UUID_FILENAME
from loader.compat.dataset_facts import INFO_JSON_FILENAME as INFO_JSON_FILENAME
from loader.compat.dataset_facts import INFO_YAML_FILENAME as INFO_YAML_FILENAME
from loader.format.nv_meta import FOLDER as _FOLDER
MAIN_FOLDER_NAME = _FOLDER
from loader.format.nv_meta import SPLIT_YAML as _SPLIT_YAML
SPLIT_YAML_FILENAME = _SPLIT_YAML
