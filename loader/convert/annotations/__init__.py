"""Read annotations in JSON files: their elements one by one, the pictures that they name, and their coordinates.

====================  =================================================================
`json_document.py`    a document → its values, found piece by piece
`json_elements.py`    a file → its elements, still encoded, each with its place, and rows that fail
`picture_files.py`    a picture that an annotation names → its part and its reference
`kinds.py`            a file → the kind of its annotations
`picture_change.py`   a picture before and after a resize → the way of its coordinates and masks
`coordinates.py`      a part of an unknown layout → the coordinates in it; those of COCO, moved
====================  =================================================================
"""
