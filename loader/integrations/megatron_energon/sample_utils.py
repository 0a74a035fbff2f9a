from loader.pipeline.failures.sample_name import default_get_batch_keys
from loader.samples.sample_format import format_sample_compact, format_sample_detailed

__all__ = ["default_get_batch_keys", "format_sample_compact", "format_sample_detailed"]
