# The public names of this package, each with the module that defines it.

from .condition import Condition as Condition
from .dataset_values import (
    Compute as Compute,
    DatasetValues as DatasetValues,
    UnknownValueError as UnknownValueError,
    column_or_values as column_or_values,
    is_indexed as is_indexed,
    only_value as only_value,
    write_command as write_command,
)
from .samples import (
    KeyOrigin as KeyOrigin,
    SampleQuery as SampleQuery,
    find_samples as find_samples,
    foreign_keys_error as foreign_keys_error,
    keys_and_origins as keys_and_origins,
    keys_of_file as keys_of_file,
    keys_of_folder as keys_of_folder,
    read_keys as read_keys,
    samples_of_keys as samples_of_keys,
    unknown_key_error as unknown_key_error,
    unknown_names as unknown_names,
)
