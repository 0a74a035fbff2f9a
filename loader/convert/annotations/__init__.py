"""Read annotations in JSON files: their elements one by one, and the pictures that they name.

====================  =================================================================
`json_elements.py`    a file → its elements, still encoded, each with its place
`element_rows.py`     elements that cannot become samples → rows that fail
`picture_files.py`    a picture that an annotation names → its part and its reference
`split_names.py`      names of files and folders → split parts
`kinds.py`            a file → the kind of its annotations
====================  =================================================================
"""
