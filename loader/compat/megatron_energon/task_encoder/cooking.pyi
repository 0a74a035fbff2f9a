# Written by tests/unit/compat/test_megatron_energon.py from alias_modules.py.
from loader import Cooker as Cooker
from loader import Sample as Sample
from loader import SourceInfo as SourceInfo
from loader import basic_sample_keys as basic_sample_keys
from loader import cooker as cooker
from loader.samples.encoding.cooking import needs_cache as _needs_cache
get_cooker_need_cache = _needs_cache
from loader.samples.encoding.cooking import needs_primary as _needs_primary
get_cooker_need_primary = _needs_primary
from loader.samples.encoding.task_encoder import T_sample as T_sample
