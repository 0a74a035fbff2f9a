# The public names of this package, each with the module that defines it.

from .detect import (
    KINDS as KINDS,
    Hypothesis as Hypothesis,
    SourceKind as SourceKind,
    SourceOptions as SourceOptions,
    UnclearDataError as UnclearDataError,
    compared_hypotheses as compared_hypotheses,
    found_columns as found_columns,
    open_source as open_source,
    open_sources as open_sources,
    ways_to_import as ways_to_import,
)
from .files import FilesSource as FilesSource
from .hugging_face import HuggingFaceSource as HuggingFaceSource
from .source import ImportSource as ImportSource, NumberedReader as NumberedReader, NumberedSource as NumberedSource
from .table_source import ArrowTableSource as ArrowTableSource, TextTableSource as TextTableSource
