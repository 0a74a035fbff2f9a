# The public names of this package, each with the module that defines it.

from .field_map import parse_field_map as parse_field_map
from .next_command import (
    IMPORT_DEST as IMPORT_DEST,
    ImportWay as ImportWay,
    command_for_folder as command_for_folder,
    content_of_folder as content_of_folder,
    fault_of_file as fault_of_file,
    import_hint as import_hint,
    import_way as import_way,
    new_folder_for as new_folder_for,
    quoted as quoted,
)
from .sample_types import (
    SAMPLE_TYPE_OF_NUMBER as SAMPLE_TYPE_OF_NUMBER,
    SAMPLE_TYPES as SAMPLE_TYPES,
    FieldSpec as FieldSpec,
    SampleTypeSpec as SampleTypeSpec,
    sample_type_of_name as sample_type_of_name,
)
from .value_name import ValueName as ValueName, read_value_names as read_value_names
