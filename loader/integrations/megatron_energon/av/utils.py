from loader.av.uniform_clips import get_clips_uniform, get_single_frames_uniform

__all__ = ["get_clips_uniform", "get_single_frames_uniform"]
