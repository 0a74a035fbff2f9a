# The public names of this package, each with the module that defines it.

from .debug_log import (
    LoggedBatch as LoggedBatch,
    LoggedLoader as LoggedLoader,
    SampleUses as SampleUses,
    choose_loader as choose_loader,
    log_files as log_files,
    read_debug_log as read_debug_log,
    read_loading_order as read_loading_order,
    traced_uses as traced_uses,
)
from .explain import (
    RunFacts as RunFacts,
    SourceFacts as SourceFacts,
    StretchFacts as StretchFacts,
    explain_run as explain_run,
)
from .migrate import (
    MigratedRun as MigratedRun,
    migrate_files as migrate_files,
)
from .plan import (
    PlannedSteps as PlannedSteps,
    parse_capacity as parse_capacity,
    parse_ranks as parse_ranks,
    plan_script as plan_script,
    plan_steps as plan_steps,
)
from .planned_run import PlannedRun as PlannedRun, RunRequest as RunRequest
from .restored_run import (
    RestoredRun as RestoredRun,
    is_run as is_run,
    load_task_encoder as load_task_encoder,
    open_run as open_run,
)
from .step_costs import (
    CostFacts as CostFacts,
    StepCostFacts as StepCostFacts,
    StepRatios as StepRatios,
)
from .trace import (
    TracedSample as TracedSample,
    steps_of_key as steps_of_key,
    trace_step as trace_step,
    traced_batch as traced_batch,
)
