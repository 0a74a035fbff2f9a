# The public names of this package, each with the module that defines it.

from .describe import (
    describe_run as describe_run,
    describe_state as describe_state,
    group_by_run as group_by_run,
)
from .files import (
    Redistributed as Redistributed,
    StateFile as StateFile,
    list_state_files as list_state_files,
    read_run_states as read_run_states,
    read_state_file as read_state_file,
    redistribute_files as redistribute_files,
    rewrite_files as rewrite_files,
)
from .found_states import place_text as place_text
from .mix_history import MixChanges as MixChanges, merge_mix_changes as merge_mix_changes
from .mixes.differences import (
    Difference as Difference,
    Names as Names,
    chain_differences as chain_differences,
    differences as differences,
    run_differences as run_differences,
)
from .mixes.edited_chain import continue_mix as continue_mix, edited_chain as edited_chain
from .run_state import (
    ENDLESS as ENDLESS,
    RunState as RunState,
    merge_states as merge_states,
    ranks_of_run as ranks_of_run,
)
from .run_steps import RunSteps as RunSteps
