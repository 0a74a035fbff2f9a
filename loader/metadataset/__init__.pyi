# The public names of this package, each with the module that defines it.

from .chosen_samples import (
    ChosenSamples as ChosenSamples,
    choose_samples as choose_samples,
)
from .datasets import (
    NamedDataset as NamedDataset,
    OpenDataset as OpenDataset,
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
