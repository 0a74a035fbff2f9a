"""Columns of tables as parts of samples.

====================  ==========================================================
`columns.py`          the columns of a table, what their values are, and the part that each becomes
`detect.py`           find out what columns are, from names, types and values
`named_files.py`      names of columns, parts and split parts, and the files that paths in a table name
`part_values.py`      a row of a table as a sample: the bytes of its parts, and documents of lists
`dialect.py`          the delimiter, the header, the quotes and the comments of CSV and TSV files
`delimited.py`        records of CSV and TSV files
`records.py`          records of files of lines, and the encodings of these files
`arrow_files.py`      batches of Parquet and Arrow files
`arrow_rows.py`       columns of Arrow tables, and their rows as samples
====================  ==========================================================

The names are listed in ``__init__.pyi`` and imported on first use.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
