from loader.pipeline.stages.mix_batch import MixBatchDataset
from loader.samples.batching.concat import concat_pad, generic_concat, homogeneous_concat_mix

__all__ = ["MixBatchDataset", "concat_pad", "generic_concat", "homogeneous_concat_mix"]
