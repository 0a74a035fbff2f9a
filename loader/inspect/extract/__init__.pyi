# The public names of this package, each with the module that defines it.

from .sample import (
    FoundSample as FoundSample,
    SampleFinder as SampleFinder,
    SampleParts as SampleParts,
    find_samples_of as find_samples_of,
    open_sample as open_sample,
    write_parts as write_parts,
)
