"""Read annotations of pictures, one format a file, to the one form of objects in JSON that docs describe.

====================  =================================================================
`reader.py`            what a reader is, and what it gets: the annotations of one picture
`registry.py`         the readers of this folder by name: each module with a ``READER``
others                one format each
====================  =================================================================
"""
