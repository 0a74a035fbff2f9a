"""The closed list of reasons for which a command leaves out a part of its input, or fails on it."""

from __future__ import annotations

from collections.abc import Mapping

REASONS: Mapping[str, str] = {
    "L101": "a file without an extension",
    "L102": "a file about the data, not of it",
    "L103": "a table or an archive next to other files",
    "L104": "a link that cannot be followed",
    "L105": "a link, or no file",
    "L106": "a member that a later one of the same name replaces",
    "L107": "a member without a part name",
    "L108": "a file of the system",
    "L109": "a folder that cannot be read",
    "L110": "an empty file",
    "L111": "a picture that the annotations do not name",
    "L112": "a row whose key no sample has",
    "L113": "a sample with none of the chosen parts",
    "L114": "a sample of a dataset that lacks what the condition names",
    "L115": "values of a dataset that are not carried",
    "L116": "a compressed shard",
    "L117": "a file next to the shards",
    "L118": "an object whose name no reader can use",
    "L119": "a file that no row names",
    "L120": "a row without a picture or another file",
    "L121": "a member whose name leads out of a folder",
    "L122": "a link to a file outside of the folder",
    "F101": "a row that cannot be read or written",
    "F102": "a row whose file is missing",
    "F103": "a row with an empty file",
    "F104": "a row with a placeholder instead of its file",
    "F105": "a row whose file is outside of the folder of the table",
    "F106": "a row with a URL that is not fetched",
    "F107": "a row with a URL that leads to a private address",
    "F108": "a row whose file cannot be fetched",
    "F109": "a row that was not tried, since its host was given up",
    "F110": "a row whose file unpacks to very much more than its size",
}
"""Code → what the units are, in one line: ``L`` and a number for what is left out, ``F`` for what failed.

The explanation of each is in ``loader/inspect/rules/rules.toml``.
"""
