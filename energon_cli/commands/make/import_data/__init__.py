"""``energon import``: convert files, tables and archives to a prepared dataset."""
