# The public names of this package, each with the module that defines it.

from .index import (
    JsonlIndex as JsonlIndex,
    JsonlReader as JsonlReader,
    build_jsonl_index as build_jsonl_index,
    open_jsonl_index as open_jsonl_index,
    prepare_jsonl as prepare_jsonl,
)
