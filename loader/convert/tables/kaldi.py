"""Read a data folder of Kaldi: its lists of recordings, segments, transcripts and speakers, joined to utterances."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from .records import Record, number_of, open_text_table, read_words

KALDI_RECORDINGS = "wav.scp"
KALDI_LISTS = re.compile(r"text|segments|(utt|spk|reco)2(\w+)")
"""Names of the other lists of a data folder: of utterances, speakers or recordings."""

_SEGMENT = ("recording", "start", "end", "channel")
_DECODED = re.compile(r"flac(?: -[cds]+)+ (\S+) \|")  # a command that changes no value


def read_kaldi(path: str) -> Iterator[Record]:
    """Yield a record for each utterance: ``id``, ``audio``, ``text``, ``speaker``, its segment, and all else about it.

    Utterances of ``text`` that have no recording have no ``audio``.

    Args:
        path: ``wav.scp``, next to the other lists.
    """
    # Read all lists; lines with a fault are records with it.
    folder, name = os.path.split(path)
    lists: dict[str, dict[str, str]] = {}
    for each in (name, *sorted(filter(KALDI_LISTS.fullmatch, os.listdir(folder)))):
        with open_text_table(os.path.join(folder, each)) as file:
            records = [*read_words(file)]
        yield from (record._replace(fault=f"{each}: {record.fault}") for record in records if record.fault)
        lists[each] = {r.values["column_1"]: r.values.get("column_2", "") for r in records if not r.fault}
    recordings, segments = lists.pop(name), lists.pop("segments", None)
    lists.pop("spk2utt", None)  # utt2spk the other way round
    # Join them by utterance, recording and speaker.
    keys = {**(recordings if segments is None else segments), **lists.get("text", {})}
    for line, key in enumerate(keys, 1):
        values: dict[str, object] = {"id": key}
        if segments is not None:
            values |= zip(_SEGMENT, segments.get(key, "").split(), strict=False)
            times = {column: number_of(str(values.get(column, "")), float) for column in ("start", "end")}
            values |= {c: None if c == "end" and t == -1 else t for c, t in times.items()}  # -1: to the end
        recording = str(values.get("recording", key))
        audio = recordings.get(recording, "")
        decoded = _DECODED.fullmatch(audio)
        values["audio"] = decoded[1] if decoded else audio or None
        ids = {"utt": key, "reco": recording, "spk": lists.get("utt2spk", {}).get(key, "")}
        for each, of_key in lists.items():
            match = KALDI_LISTS.fullmatch(each)
            if match is not None:
                column = "speaker" if match[2] == "spk" else match[2] or each
                values[column] = of_key.get(ids[match[1] or "utt"])
        if audio.endswith("|") and not decoded:
            yield Record(line, {}, f"the recording is the output of a command, which is not run: {audio}")
        else:
            yield Record(line, values, size_bytes=len(str(values)))
