"""Datasets in Python programs and notebooks: samples by number, pictures of them, and tables.

=======================  ==========================================================================================
``opened_dataset.py``    the object that ``open_dataset`` returns
``locations.py``         the places of its samples in their shards
``columns.py``           values of samples as arrays, and as Arrow tables
``shown.py``             the text and the page that show a dataset, and ``energon browse`` in a cell
=======================  ==========================================================================================
"""
