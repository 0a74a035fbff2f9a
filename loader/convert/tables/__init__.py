"""Columns of tables as parts of samples.

====================  ==========================================================
`columns.py`          the columns of a table, and the part that each becomes
`table_column.py`     what the values of a column are in all rows
`detect.py`           find out what columns are, from names, types and values
`documents.py`        columns of lists that are the texts and pictures of documents
`named_files.py`      files that paths in a table name
`names.py`            names that columns usually have, and names of parts
`inline_media.py`     pictures and sounds that are written as text
`part_values.py`      the bytes of a part from values of a row
`row_maker.py`        a row of a table as a sample
`records.py`          records of text tables, and the files that have them
`delimited.py`        records of CSV and TSV files
`json_lines.py`       records of JSONL files
`arrow_columns.py`    columns and values of Arrow tables
`arrow_files.py`      batches of Parquet and Arrow files
`arrow_rows.py`       rows of Arrow tables as samples
`arrow_cells.py`      values of batches, read in the workers
`table_files.py`      the files that are one table
`hugging_face.py`     datasets that the library `datasets` has saved
====================  ==========================================================

The names are listed in ``__init__.pyi`` and imported on first use.
"""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
