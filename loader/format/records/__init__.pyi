# The public names of this package, each with the module that defines it.

from .folder_index import (
    open_record_file as open_record_file,
    open_record_path as open_record_path,
)
