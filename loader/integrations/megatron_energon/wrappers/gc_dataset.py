from loader.pipeline.stages.gc import GC_DEFAULT_EVERY_N_ITER, GcDataset

__all__ = ["GC_DEFAULT_EVERY_N_ITER", "GcDataset"]
