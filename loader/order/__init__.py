"""The order of samples as a function of integers; no I/O, and nothing that is stepped through.

====================  ==================================================================
``mixing.py``         integers that look random and are a function of what names them
``permutation.py``    permutations chosen by a key and never stored
``leaf_order.py``     (lane, position) → (epoch, sample) of a leaf: slices, epochs, windows
``blend.py``          position → (leaf, position in the leaf's stream)
``lane_hosting.py``   which rank and worker makes which micro-batch
====================  ==================================================================
"""

from .blend import BlendOrder, quantise_weights
from .lane_hosting import LaneHosting, default_lanes
from .leaf_order import LeafOrder, LeafOrders
from .mixing import below, mix
from .permutation import permute

__all__ = [
    "BlendOrder",
    "LaneHosting",
    "LeafOrder",
    "LeafOrders",
    "below",
    "default_lanes",
    "mix",
    "permute",
    "quantise_weights",
]
