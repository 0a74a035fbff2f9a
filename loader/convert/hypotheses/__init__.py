"""Compare the ways to make samples of a tree, one hypothesis a file, and take the one that accounts for all of it.

- :mod:`decide` compares them.
- :mod:`by_rows`, :mod:`by_manifest`, :mod:`by_tars`, :mod:`by_tables` and :mod:`by_files` are the hypotheses.
- :mod:`files_of_samples` finds what the files of a sample share, by :mod:`shared_names`, :mod:`folder_samples` and
  :mod:`matched`.
- :mod:`foreign` names the formats that libraries of their own read.
- :mod:`annotated` finds the files that are annotations of a known format, and who reads them.
"""
