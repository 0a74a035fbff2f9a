"""Read annotations in JSON files: their elements one by one, the pictures that they name, and their coordinates.

====================  =================================================================
`json_elements.py`    a file → its elements, still encoded, each with its place
`element_rows.py`     elements that cannot become samples → rows that fail
`picture_files.py`    a picture that an annotation names → its part and its reference
`split_names.py`      names of files and folders → split parts
`kinds.py`            a file → the kind of its annotations
`listed_pictures.py`  the pictures of a file → those that are missing, and unlisted files next to them
`picture_change.py`   a picture before and after a resize → the way of its coordinates
`coco_geometry.py`    a document of COCO → the same with its coordinates moved
`rle.py`              run lengths of COCO ↔ masks
`coordinates.py`      a part of an unknown layout → the coordinates in it
====================  =================================================================
"""
