# The public names of this package, each with the module that defines it.

from .pictures import PictureOptions as PictureOptions
from .plan import (
    ImportPlan as ImportPlan,
    ImportProgress as ImportProgress,
    ListedRows as ListedRows,
    PlannedPart as PlannedPart,
    list_rows as list_rows,
)
from .report import FailedRow as FailedRow, ImportReport as ImportReport
from .run import (
    check_output as check_output,
    run_import as run_import,
    write_failures as write_failures,
)
from .sample_contents import StrayCoordinatesError as StrayCoordinatesError
from .write_shard import (
    NoReadableRowsError as NoReadableRowsError,
    write_trial as write_trial,
)
