"""Blend datasets by weight: shares of the items, or of their volume.

===============  =================================================================
``dataset.py``   the stage, and its iterator if the weights are shares of the items
``by_volume.py`` its iterator if they are shares of a volume
===============  =================================================================
"""

from .dataset import BlendDataset, datasets_and_weights

__all__ = ["BlendDataset", "datasets_and_weights"]
