from loader.pipeline.contract.restore_key import RestoreKey, WrappedRestoreKey, wrap_sample_restore_key
from loader.samples.types import Sample

__all__ = ["RestoreKey", "Sample", "WrappedRestoreKey", "wrap_sample_restore_key"]
