from .account import (
    REASONS as REASONS,
    Account as Account,
    AccountEntry as AccountEntry,
    AccountError as AccountError,
    IncompleteError as IncompleteError,
    Unit as Unit,
)
