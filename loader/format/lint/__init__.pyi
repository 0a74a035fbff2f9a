# The public names of this package, each with the module that defines it.

from .report import (
    Finding as Finding,
    LintReport as LintReport,
)
from .run import lint_dataset as lint_dataset
