"""Survey a tree before its layout is decided.

- :mod:`tree_files` counts the files by folder and kind.
- :mod:`references` finds the columns and values that name files, and :mod:`rows` and :mod:`joins` what they are for.
- :mod:`survey` has all of this, and :mod:`hypothesis` is one way to make samples of it.
"""
