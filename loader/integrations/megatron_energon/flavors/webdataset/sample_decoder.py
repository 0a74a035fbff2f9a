from loader.samples.decoding.decoder import FileStoreDecoder, SampleDecoder

__all__ = ["FileStoreDecoder", "SampleDecoder"]
