# The public names of this package, each with the module that defines it.

from .added_parts import (
    AddPartsPlan as AddPartsPlan,
    AddPartsReport as AddPartsReport,
    run_add_parts as run_add_parts,
)
from .exporting import (
    FORMATS as FORMATS,
    ExportReport as ExportReport,
    ExportRequest as ExportRequest,
    export_samples as export_samples,
)
from .merging import (
    MergePlan as MergePlan,
    MergeReport as MergeReport,
    run_merge as run_merge,
)
from .resharding import (
    ReshardPlan as ReshardPlan,
    ReshardReport as ReshardReport,
    run_reshard as run_reshard,
)
from .rows.shard_layout import ShardLayout as ShardLayout
from .split_groups import (
    LeakReport as LeakReport,
    check_group_expression as check_group_expression,
    find_leaks as find_leaks,
)
from .splitting import (
    SplitPlan as SplitPlan,
    SplitReport as SplitReport,
    run_split as run_split,
    undo_split as undo_split,
)
from .writing.sample_writers import (
    file_name as file_name,
    key_of as key_of,
    split_file_name as split_file_name,
)
