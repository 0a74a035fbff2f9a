# Written by tests/unit/compat/test_megatron_energon.py from alias_modules.py.
from loader.compat.index_writer import DuplicateSampleKeyError as DuplicateSampleKeyError
from loader.compat.index_writer import IndexAggregatable as IndexAggregatable
from loader.compat.index_writer import IndexMediaMetadata as IndexMediaMetadata
from loader.compat.index_writer import IndexSample as IndexSample
from loader.compat.index_writer import IndexSamplePart as IndexSamplePart
from loader.compat.index_writer import SqliteIndexWriter as SqliteIndexWriter
