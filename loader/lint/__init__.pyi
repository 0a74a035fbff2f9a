# The public names of this package, each with the module that defines it.

from .finding_groups import FindingGroup as FindingGroup, group_findings as group_findings
from .report import LintReport as LintReport
from .rule import Finding as Finding
from .run import lint_dataset as lint_dataset
