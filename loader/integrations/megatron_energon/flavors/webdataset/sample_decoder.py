from loader.samples.decoding.decoder import FileStoreDecoder, SampleDecoder
from loader.samples.decoding.webdataset_decoder import AVWebdatasetDecoder

__all__ = ["AVWebdatasetDecoder", "FileStoreDecoder", "SampleDecoder"]
