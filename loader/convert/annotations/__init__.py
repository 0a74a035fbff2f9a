"""Read annotations in JSON files: their elements one by one, the pictures that they name, and their coordinates.

====================  =================================================================
`json_document.py`    a document → its values, found piece by piece
`json_elements.py`    a file → its elements, still encoded, each with its place, and rows that fail
`kinds.py`            a file → the kind of its annotations
`views.py`            a document of NeRF-like views → what it says of all of them
`coordinates.py`      a part of an unknown layout → the coordinates in it; COCO's, moved with their picture
====================  =================================================================
"""
