# The public names of this package, each with the module that defines it.

from .sample import (
    PartPlace as PartPlace,
    SampleParts as SampleParts,
    open_sample as open_sample,
    write_parts as write_parts,
)
