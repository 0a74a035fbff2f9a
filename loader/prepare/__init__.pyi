# The public names of this package, each with the module that defines it.

from .dataset_yaml import DatasetYaml as DatasetYaml
from .decompress import DecompressReport as DecompressReport, decompress_shards as decompress_shards
from .destination import check_destination as check_destination
from .media_folder import prepare_media_folder as prepare_media_folder
from .part import (
    PartReport as PartReport,
    check_not_planned as check_not_planned,
    run_part as run_part,
)
from .plan import (
    PreparePlan as PreparePlan,
    PrepareProgress as PrepareProgress,
    PrepareReport as PrepareReport,
    RunningPrepare as RunningPrepare,
    ScanMode as ScanMode,
    SplitRequest as SplitRequest,
)
from .run import (
    open_prepare as open_prepare,
    run_prepare as run_prepare,
)
from .shards import (
    is_compressed_tar as is_compressed_tar,
)
from .split import (
    PlannedSplit as PlannedSplit,
    parse_split_part as parse_split_part,
    plan_split as plan_split,
    split_by_patterns as split_by_patterns,
)
from .split_names import format_ratio as format_ratio, parse_ratio as parse_ratio
from .workspace import unwritable_folder as unwritable_folder
