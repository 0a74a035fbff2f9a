from loader.samples.sample_format import format_sample_compact, format_sample_detailed

__all__ = ["format_sample_compact", "format_sample_detailed"]
