from loader.av.av_data import AVData

__all__ = ["AVData"]
