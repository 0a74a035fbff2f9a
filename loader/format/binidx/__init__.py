"""Read token files of Megatron-LM: ``x.bin`` with the numbers and ``x.idx`` with the ranges of the sequences."""

from __future__ import annotations
