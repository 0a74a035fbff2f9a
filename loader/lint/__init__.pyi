# The public names of this package, each with the module that defines it.

from .report import (
    FindingGroup as FindingGroup,
    LintReport as LintReport,
    group_findings as group_findings,
)
from .rule import Finding as Finding
from .run import lint_dataset as lint_dataset
