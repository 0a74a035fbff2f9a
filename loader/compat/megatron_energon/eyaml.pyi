# Written by tests/unit/compat/test_megatron_energon.py from alias_modules.py.
from loader import EPath as EPath
from loader.compat.documents import load_yaml as load_yaml
from loader.compat.documents import load_yaml_json as load_yaml_json
