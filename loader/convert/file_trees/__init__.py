"""Files by name, in a folder or in an archive, and the layout of their names.

====================  =================================================================
`tree.py`             the files of a folder, a zip or a tar, and how each is read
`file_names.py`       what names of files say: parts, tables, archives, files about the data, samples
`member_tree.py`      the members of the tars of a tree
`url_tree.py`         the files below a URL
====================  =================================================================
"""
