# The public names of this package, each with the module that defines it.

from .report import (
    CODES as CODES,
    Finding as Finding,
    FindingGroup as FindingGroup,
    LintReport as LintReport,
    group_findings as group_findings,
)
from .run import lint_dataset as lint_dataset
