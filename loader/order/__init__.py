"""Compute the order of samples as a function of integers, without I/O and without stepping through it.

========================  ==============================================================================
``stream_order.py``       training without end: a stream of samples for each lane, and the lanes of ranks and workers
``edited_order.py``       training without end, with a mix that changes while it runs
``lane_mixes.py``         the mixes of one lane: position → (source, position in the source's stream)
``finite_pass.py``        one pass, also of repetitions or of micro-batches that are known ahead, over the lanes
``source_order.py``       (source, lane, position) → (epoch, sample), for sources that repeat without end
``row_blocks.py``         the same for large tables, whose row groups are decoded as a whole
``blend.py``              position → (source, position in the source's stream)
``volume_blend.py``       sizes of the items so far → the source of the next one
``windows.py``            samples of a lane in windows, whose groups cost nearly the same
``permutation.py``        hashes of integers, and keyed permutations that are computed, not stored
``index_permutation.py``  the public ``permute``, and the seeds of epochs
========================  ==============================================================================
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
