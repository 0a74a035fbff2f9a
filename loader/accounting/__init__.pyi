from .account import (
    Account as Account,
    AccountEntry as AccountEntry,
    AccountError as AccountError,
    IncompleteError as IncompleteError,
    Unit as Unit,
)
from .reasons import REASONS as REASONS
