"""The order of samples as a function of integers; no I/O, and nothing that is stepped through.

=======================  ==================================================================
``mixing.py``            integers that look random and are a function of what names them
``permutation.py``       permutations chosen by a key and never stored
``index_permutation.py`` the same for callers from outside: ``permute`` of seed page 002
``epoch_seeds.py``       the seeds of that page's epochs
``checked_integer.py``   integers that come from outside
``leaf_shuffle.py``      how a leaf's samples move: slices over epochs, samples within windows
``leaf_order.py``        (lane, position) → (epoch, sample) of leaves that repeat for ever
``finite_deal.py``       the same of leaves in one pass of a fixed length
``blend.py``             position → (leaf, position in the leaf's stream)
``stream_order.py``      what the pipeline knows of an order: the streams of the lanes
``blended_lane.py``      a lane's stream of one or several leaves
``repeated_order.py``    training without end
``finite_pass.py``       one pass, with repetitions
``sequential_pass.py``   validation
``dealt_pass.py``        a pass dealt in micro-batches that are known ahead
``batch_samples.py``     which samples make a micro-batch
``lane_hosting.py``      which rank and worker makes which micro-batch
=======================  ==================================================================
"""

from .batch_samples import samples_of_batch
from .blend import BlendOrder, quantise_weights
from .dealt_pass import DealtPass
from .finite_pass import FinitePass
from .lane_hosting import LaneHosting, default_lanes, possible_ranks
from .leaf_order import LeafOrder, LeafOrders
from .mixing import extend_integer, mix
from .permutation import permute
from .repeated_order import RepeatedOrder
from .sequential_pass import SequentialPass
from .stream_order import LaneOrder, StreamOrder

__all__ = [
    "BlendOrder",
    "DealtPass",
    "FinitePass",
    "LaneHosting",
    "LaneOrder",
    "LeafOrder",
    "LeafOrders",
    "RepeatedOrder",
    "SequentialPass",
    "StreamOrder",
    "default_lanes",
    "extend_integer",
    "mix",
    "permute",
    "possible_ranks",
    "quantise_weights",
    "samples_of_batch",
]
