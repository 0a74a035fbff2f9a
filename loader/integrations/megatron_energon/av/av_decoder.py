from loader.av.av_decoder import AVDecoder

__all__ = ["AVDecoder"]
