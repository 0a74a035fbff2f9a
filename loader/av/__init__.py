"""Decode clips and frames of audio and video.

Decoding needs PyAV (``pip install 'energon-toolkit[av]'``); importing this package does not.
"""

from __future__ import annotations

from .av_data import AVData
from .av_decoder import AVDecoder
from .uniform_clips import get_clips_uniform, get_single_frames_uniform

__all__ = ["AVData", "AVDecoder", "get_clips_uniform", "get_single_frames_uniform"]
