"""Vectors of samples: made by a model or a hash of contents, compared, searched, and grouped by similarity.

===================  =========================================================================
``embedding.py``     models that make vectors of pictures and texts, as functions of a map
``picture_hash.py``  the perceptual hash of a picture
``text_hash.py``     the MinHash of a text
``vectors.py``       the vectors of a column, and how similar two are, from 0 to 1
``nearest.py``       the samples that are most similar to a query
``candidates.py``    pairs that may be similar: by blocks, by bands of hashes, by an index
``groups.py``        groups of near-duplicates, and groups that parts of a split share
===================  =========================================================================
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
