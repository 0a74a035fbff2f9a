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
``lane_hosting.py``       micro-batch → lane, rank and worker
``worker_share.py``       the number of samples of a worker
``permutation.py``        keyed permutations that are computed, not stored
``index_permutation.py``  the public ``permute``, and the seeds of epochs
``mixing.py``             hashes of integers
========================  ==============================================================================
"""

from .blend import BlendOrder, quantise_weights
from .dealt_order import DealtOrder
from .edited_order import EditedLane, EditedOrder, MixHistory
from .finite_pass import FinitePass, pass_samples
from .lane_hosting import PASS_LANES, LaneHosting, default_lanes, possible_ranks
from .lane_mixes import GONE, LaneMixes, Mix
from .mixing import extend_integer, mix
from .permutation import permute
from .prebatched_pass import PrebatchedPass, samples_of_batch
from .repeated_order import RepeatedOrder
from .sequential_pass import SequentialPass
from .source_order import SLICES_PER_LANE, WITH_REPLACEMENT, SourceOrder, SourceOrders
from .stream_order import BlendedLane, LaneOrder, StreamOrder
from .volume_blend import LeafVolume, VolumeBlend, VolumeChange
from .weight_schedule import MAX_SCHEDULED_SAMPLES, WeightSchedule
from .worker_share import worker_share

__all__ = [
    "GONE",
    "MAX_SCHEDULED_SAMPLES",
    "PASS_LANES",
    "SLICES_PER_LANE",
    "WITH_REPLACEMENT",
    "BlendOrder",
    "BlendedLane",
    "DealtOrder",
    "EditedLane",
    "EditedOrder",
    "FinitePass",
    "LaneHosting",
    "LaneMixes",
    "LaneOrder",
    "LeafVolume",
    "Mix",
    "MixHistory",
    "PrebatchedPass",
    "RepeatedOrder",
    "SequentialPass",
    "SourceOrder",
    "SourceOrders",
    "StreamOrder",
    "VolumeBlend",
    "VolumeChange",
    "WeightSchedule",
    "default_lanes",
    "extend_integer",
    "mix",
    "pass_samples",
    "permute",
    "possible_ranks",
    "quantise_weights",
    "samples_of_batch",
    "worker_share",
]
