# The public names of this package, each with the module that defines it.

from .run import (
    FORMATS as FORMATS,
    ExportReport as ExportReport,
    ExportRequest as ExportRequest,
    export_samples as export_samples,
)
from .writers import (
    file_name as file_name,
    key_of as key_of,
    split_file_name as split_file_name,
)
