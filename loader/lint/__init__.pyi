# The public names of this package, each with the module that defines it.

from .groups import (
    FindingGroup as FindingGroup,
    group_findings as group_findings,
)
from .report import (
    CODES as CODES,
    Finding as Finding,
    LintReport as LintReport,
)
from .run import lint_dataset as lint_dataset
