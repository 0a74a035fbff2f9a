# Written by tests/unit/compat/test_megatron_energon.py from alias_modules.py.
from loader.pipeline.failures.error_handlers import default_get_batch_keys as default_get_batch_keys
from loader.samples.sample_format import format_sample_compact as format_sample_compact
from loader.samples.sample_format import format_sample_detailed as format_sample_detailed
