from loader.samples.building.described_dataset import FilteredSample
from loader.training.datasets.dataset_factory import DatasetSubset

__all__ = ["DatasetSubset", "FilteredSample"]
