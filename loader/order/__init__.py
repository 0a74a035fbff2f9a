"""Compute the order of samples as a function of integers, without I/O and without stepping through it.

========================  ==============================================================================
``stream_order.py``       the interface of an order: a stream of samples for each lane
``repeated_order.py``     training without end
``edited_order.py``       training without end, with a mix that changes while it runs
``lane_mixes.py``         the mixes of one lane: position → (source, position in the source's stream)
``weight_schedule.py``    weights that change at numbers of samples
``count_stretches.py``    the samples of each source in many lanes of a mix whose weights change
``finite_pass.py``        one pass with repetitions, and how it is partitioned over the lanes
``sequential_pass.py``    one unshuffled pass, for validation
``prebatched_pass.py``    a pass whose micro-batches are known ahead
``dealt_order.py``        the order of one lane, dealt to all lanes
``source_order.py``       (source, lane, position) → (epoch, sample), for sources that repeat without end
``blend.py``              position → (source, position in the source's stream)
``volume_blend.py``       sizes of the items so far → the source of the next one
``lane_hosting.py``       micro-batch → lane, rank and worker; the number of samples of a worker
``permutation.py``        keyed permutations that are computed, not stored
``index_permutation.py``  the public ``permute``, and the seeds of epochs
``mixing.py``             hashes of integers
========================  ==============================================================================
"""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
