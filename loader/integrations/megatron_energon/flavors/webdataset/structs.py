from loader.metadataset.dataset_subset import DatasetSubset
from loader.samples.described_dataset import FilteredSample

__all__ = ["DatasetSubset", "FilteredSample"]
