# The public names of this package, each with the module that defines it.

from .account import (
    Account as Account,
    AccountEntry as AccountEntry,
    AccountError as AccountError,
    IncompleteError as IncompleteError,
    Rule as Rule,
    RuleGroup as RuleGroup,
    Unit as Unit,
    meanings as meanings,
    plain_text as plain_text,
    reasons as reasons,
)
from .engines import engines_with as engines_with, named_engine as named_engine
from .journal import AlreadyDoneError as AlreadyDoneError
from .run import Engine as Engine, ShareDone as ShareDone, ShareEnds as ShareEnds
from .share import (
    COMMAND_LINE as COMMAND_LINE,
    Share as Share,
    command_with as command_with,
    parse_share as parse_share,
)
from .workers import gpu_environments as gpu_environments, usable_cores as usable_cores
