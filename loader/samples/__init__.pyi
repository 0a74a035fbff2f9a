# The public names of this package, each with the module that defines it.

from .batching.batch import Batch as Batch
from .batching.collate import (
    batch_list as batch_list,
    batch_pad_stack as batch_pad_stack,
    batch_stack as batch_stack,
    generic_batch as generic_batch,
)
from .batching.concat import (
    concat_pad as concat_pad,
    generic_concat as generic_concat,
    homogeneous_concat_mix as homogeneous_concat_mix,
)
from .batching.pack import concat_pack as concat_pack
from .building.check import DecodeCheck as DecodeCheck, check_image_bytes as check_image_bytes
from .building.sample_builder import SampleBuilder as SampleBuilder
from .decoding.decoder import SampleDecoder as SampleDecoder
from .decoding.image_decode import EncodedImage as EncodedImage
from .edataclass import edataclass as edataclass
from .encoding.augment_task_encoder import AugmentTaskEncoder as AugmentTaskEncoder
from .encoding.cooking import Cooker as Cooker, basic_sample_keys as basic_sample_keys, cooker as cooker
from .encoding.size_metric import sample_size_metric as sample_size_metric
from .encoding.task_encoder import (
    DefaultTaskEncoder as DefaultTaskEncoder,
    PackedSamplesOutput as PackedSamplesOutput,
    TaskEncoder as TaskEncoder,
)
from .hook_marks import (
    failure_tolerance as failure_tolerance,
    is_stateless as is_stateless,
    restores_seeds as restores_seeds,
)
from .hooks import HookContext as HookContext, is_default as is_default, set_hook_context as set_hook_context
from .picture import (
    Picture as Picture,
    PictureError as PictureError,
    array_picture as array_picture,
    encoded_picture as encoded_picture,
)
from .sample_dataclass import ExtendableDataclassMixin as ExtendableDataclassMixin, PinMemoryMixin as PinMemoryMixin
from .sample_format import (
    format_sample_compact as format_sample_compact,
    format_sample_detailed as format_sample_detailed,
)
from .source_info import (
    SourceInfo as SourceInfo,
    add_source_info as add_source_info,
    get_source_info as get_source_info,
)
from .types import (
    CaptioningSample as CaptioningSample,
    ConversationSample as ConversationSample,
    CrudeSample as CrudeSample,
    ImageClassificationSample as ImageClassificationSample,
    ImageSample as ImageSample,
    InterleavedSample as InterleavedSample,
    MultiChoiceVQASample as MultiChoiceVQASample,
    OCRSample as OCRSample,
    Sample as Sample,
    SimilarityInterleavedSample as SimilarityInterleavedSample,
    TextSample as TextSample,
    VidQASample as VidQASample,
    VQAOCRSample as VQAOCRSample,
    VQASample as VQASample,
)
