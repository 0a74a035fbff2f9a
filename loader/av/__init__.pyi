# The public names of this package, each with the module that defines it.

from .av_data import (
    AVData as AVData,
)
from .av_decoder import (
    AVDecoder as AVDecoder,
    get_clips_uniform as get_clips_uniform,
    get_single_frames_uniform as get_single_frames_uniform,
)
