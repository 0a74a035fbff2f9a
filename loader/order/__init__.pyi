# The public names of this package, each with the module that defines it.

from .blend import (
    BlendOrder as BlendOrder,
    quantise_weights as quantise_weights,
)
from .edited_order import (
    EditedLane as EditedLane,
    EditedOrder as EditedOrder,
    MixHistory as MixHistory,
)
from .finite_pass import (
    FinitePass as FinitePass,
    PrebatchedPass as PrebatchedPass,
    SequentialPass as SequentialPass,
    pass_samples as pass_samples,
    samples_of_batch as samples_of_batch,
)
from .lane_hosting import LaneHosting as LaneHosting, possible_ranks as possible_ranks
from .lane_mixes import (
    GONE as GONE,
    MAX_SCHEDULED_SAMPLES as MAX_SCHEDULED_SAMPLES,
    LaneMixes as LaneMixes,
    Mix as Mix,
    WeightSchedule as WeightSchedule,
)
from .permutation import (
    extend_integer as extend_integer,
    mix as mix,
    permute as permute,
)
from .row_blocks import (
    groups_of_block as groups_of_block,
    has_blocks as has_blocks,
)
from .source_order import (
    SLICES_PER_LANE as SLICES_PER_LANE,
    WITH_REPLACEMENT as WITH_REPLACEMENT,
    SourceOrder as SourceOrder,
    SourceOrders as SourceOrders,
)
from .stream_order import (
    PASS_LANES as PASS_LANES,
    BlendedLane as BlendedLane,
    DealtOrder as DealtOrder,
    LaneOrder as LaneOrder,
    RepeatedOrder as RepeatedOrder,
    StreamOrder as StreamOrder,
    default_lanes as default_lanes,
    worker_share as worker_share,
)
from .volume_blend import (
    LeafVolume as LeafVolume,
    VolumeBlend as VolumeBlend,
    VolumeChange as VolumeChange,
)
from .windows import (
    Oversized as Oversized,
    PlannedLane as PlannedLane,
    WindowPlan as WindowPlan,
)
