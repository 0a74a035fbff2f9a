# The public names of this package, each with the module that defines it.

from .joins.prepare_join import (
    JoinReport as JoinReport,
    MemberReport as MemberReport,
)
from .joins.prepare_metadataset import (
    plan_joins as plan_joins,
    prepare_metadataset as prepare_metadataset,
)
