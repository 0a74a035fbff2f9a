# The public names of this package, each with the module that defines it.

from .field_map import parse_field_expression as parse_field_expression
from .load_request import (
    is_jsonl as is_jsonl,
    is_metadataset as is_metadataset,
)
from .sample_types import (
    SAMPLE_TYPES as SAMPLE_TYPES,
    FieldSpec as FieldSpec,
    SampleTypeSpec as SampleTypeSpec,
    sample_type_of_name as sample_type_of_name,
)
