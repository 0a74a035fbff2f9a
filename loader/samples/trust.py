"""What a dataset may run: nothing, unless the caller says so."""

from __future__ import annotations

import os

from ..errors import TrustError

__all__ = ["is_trusted", "refuse"]

VARIABLE = "ENERGON_TRUST_CODE"


def is_trusted(trust_code: bool) -> bool:
    """Tell whether code of a dataset may run: the caller says so, or the environment (``ENERGON_TRUST_CODE=1``)."""
    return trust_code or os.environ.get(VARIABLE, "") == "1"


def refuse(message: str, *, at: str | None = None) -> TrustError:
    """Build the error that says what was refused and how to allow it."""
    hint = f"read it; if you trust it, pass trust_code=True (on the command line --trust-code, or set {VARIABLE}=1)"
    return TrustError(message, at=at, hint=hint)
