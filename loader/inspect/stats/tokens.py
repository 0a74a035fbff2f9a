"""Count the tokens of texts by a tokenizer of the user."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from ...errors import ConfigError, TrustError
from .values import Tokenizer


def open_tokenizer(name: str, *, trust_code: bool) -> Tokenizer:
    """Return a function that counts tokens.

    Args:
        name: A JSON file of the package tokenizers, or ``module:callable``, which takes a text and returns its tokens
            or their number.
        trust_code: Allow importing the module.

    Raises:
        ConfigError: There is no such file or callable, or the package is not installed.
        TrustError: It is a callable, and the caller does not trust code.
    """
    if name.endswith(".json"):
        return _of_file(name)
    module, colon, attribute = name.partition(":")
    if not colon:
        raise ConfigError(
            f"expected a .json file of tokenizers, or module:callable, found {name!r}", hint="check --tokenizer"
        )
    if not trust_code:
        raise TrustError(f"the tokenizer {name} is code, which is not run", hint="pass --trust-code if you trust it")
    try:
        function: Callable[[str], Any] = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"there is no tokenizer {name}: {error}", hint="check the module's name") from error

    def count(text: str) -> int:
        found = function(text)
        return found if isinstance(found, int) else len(found)

    return count


def _of_file(path: str) -> Tokenizer:
    try:
        from tokenizers import Tokenizer as FastTokenizer
    except ImportError as error:
        raise ConfigError(
            "reading a tokenizer's file needs the package tokenizers, which is not installed",
            at=path,
            hint="run: pip install 'energon-toolkit[tokens]'",
        ) from error
    try:
        tokenizer = FastTokenizer.from_file(path)
    except Exception as error:  # its bindings raise the base class
        raise ConfigError(f"cannot read this tokenizer: {error}", at=path, hint="check the file") from error
    return lambda text: len(tokenizer.encode(text).ids)
