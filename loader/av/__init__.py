"""Audio and video: clips and frames of encoded media.

Needs PyAV (``pip install 'energon-toolkit[av]'``) when something is decoded, not to be imported.
"""

from __future__ import annotations

from .av_data import AVData
from .av_decoder import AVDecoder
from .uniform_clips import get_clips_uniform, get_single_frames_uniform

__all__ = ["AVData", "AVDecoder", "get_clips_uniform", "get_single_frames_uniform"]
