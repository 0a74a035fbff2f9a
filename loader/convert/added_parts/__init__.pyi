# The public names of this package, each with the module that defines it.

from .run import (
    AddPartsPlan as AddPartsPlan,
    AddPartsReport as AddPartsReport,
    run_add_parts as run_add_parts,
)
