from ..av.av_data import AVData
from ..av.av_decoder import AVDecoder
from .base_dataset import Sample, SavableDataset
from .captioning import CaptioningSample
from .crude import CrudeSample
from .image import ImageSample
from .image_classification import ImageClassificationSample
from .interleaved import InterleavedSample
from .multichoice_vqa import MultiChoiceVQASample
from .ocr import OCRSample
from .similarity_interleaved import SimilarityInterleavedSample
from .text import TextSample
from .vid_qa import VidQASample
from .vqa import VQASample
from .webdataset.sample_decoder import SampleDecoder

__all__ = [
    "AVData",
    "AVDecoder",
    "CaptioningSample",
    "CrudeSample",
    "ImageClassificationSample",
    "ImageSample",
    "InterleavedSample",
    "MultiChoiceVQASample",
    "OCRSample",
    "Sample",
    "SampleDecoder",
    "SavableDataset",
    "SimilarityInterleavedSample",
    "TextSample",
    "VQASample",
    "VidQASample",
]
