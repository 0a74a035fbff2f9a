# The public names of this package, each with the module that defines it.

from .datasets import (
    ChosenSamples as ChosenSamples,
    NamedDataset as NamedDataset,
    NumberedDatasets as NumberedDatasets,
    OpenDataset as OpenDataset,
    choose_samples as choose_samples,
    named_datasets as named_datasets,
    open_datasets as open_datasets,
)
from .joins.prepare_join import (
    JoinReport as JoinReport,
    MemberReport as MemberReport,
)
from .joins.prepare_metadataset import (
    plan_joins as plan_joins,
    prepare_metadataset as prepare_metadataset,
)
