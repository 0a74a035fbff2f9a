"""Datasets in Python programs and notebooks: samples by number, pictures of them, and tables.

=======================  ==========================================================================================
``opened_dataset.py``    the object that ``open_dataset`` returns
``leaf.py``              one dataset of it: the bytes of its samples, and where they lie
``columns.py``           values of samples as arrays, and as Arrow tables
``shown.py``             the text and the page that show a dataset, and ``energon browse`` in a cell
=======================  ==========================================================================================
"""
