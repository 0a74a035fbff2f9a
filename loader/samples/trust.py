"""Trust in datasets: code and pickles of a dataset run only if the caller allows it."""

from __future__ import annotations

import os

from ..errors import TrustError

VARIABLE = "ENERGON_TRUST_CODE"


def is_trusted(trust_code: bool) -> bool:
    """Return True if code of a dataset may run: the caller or the environment (``ENERGON_TRUST_CODE=1``) allows it."""
    return trust_code or os.environ.get(VARIABLE, "") == "1"


def refuse(message: str, *, at: str | None = None) -> TrustError:
    """Return the error for refused code, with a hint how to allow it."""
    hint = f"pass trust_code=True (on the command line --trust-code), or set {VARIABLE}=1, if you trust it"
    return TrustError(message, at=at, hint=hint)
