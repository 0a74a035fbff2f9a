"""Public speech corpora, as their cards describe the files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tests.layouts.layout import card, contents_of, tar_of, write


def tsv(header: str, rows: Iterable[Sequence[object]], delimiter: str = "\t") -> str:
    """Return a table with a header, whose columns are separated by blanks in the argument."""
    lines = [header.split(), *rows]
    return "".join(f"{delimiter.join(map(str, line))}\n" for line in lines)


def lines(rows: Iterable[Any]) -> str:
    return "".join(f"{json.dumps(row)}\n" for row in rows)


VOICE = (
    "client_id path sentence_id sentence sentence_domain up_votes down_votes age gender accents variant locale segment"
)
CLIPS = [f"common_voice_en_{1000 + n}" for n in range(30)]
VOICE_SPLITS = {"train": CLIPS[:20], "dev": CLIPS[20:23], "test": CLIPS[23:26], "invalidated": CLIPS[26:30]}


def voice_row(name: str) -> list[object]:
    return [
        f"client{name[-2]}",
        f"{name}.mp3",
        f"s{name[-4:]}",
        f"The sentence {name}.",
        "",
        2,
        0,
        "",
        "",
        "",
        "",
        "en",
        "",
    ]


def voice_answer(extra: str = "") -> dict[str, str]:
    names = {"train": "train", "dev": "val", "test": "test", "invalidated": "-"}
    return {
        f"clips/{name}": f"{names[split]}: json mp3 txt {extra}"
        for split, clips in VOICE_SPLITS.items()
        for name in clips
    }


def voice_files(folder: Path) -> None:
    write(folder, [f"clips/{name}.mp3" for name in CLIPS])
    for split, names in {**VOICE_SPLITS, "validated": CLIPS[:26]}.items():
        write(folder, {f"{split}.tsv": tsv(VOICE, map(voice_row, names))})


@card(samples=voice_answer(), texts={f"clips/{CLIPS[21]}.txt": f"The sentence {CLIPS[21]}."})
def common_voice_with_rejected_clips(folder: Path) -> None:
    voice_files(folder)


@card(samples=voice_answer("clip_durations.json"), holds={f"clips/{CLIPS[3]}": "4321"})
def common_voice_as_it_is_released(folder: Path) -> None:
    voice_files(folder)
    durations = [[f"{name}.mp3", 4318 + at] for at, name in enumerate(CLIPS)]
    write(folder, {"clip_durations.tsv": "clip\tduration[ms]\n" + tsv("", durations).lstrip("\n")})
    write(folder, {"other.tsv": tsv(VOICE, [])})


@card(
    samples={
        key: f"{parts} validated_sentences.json" + (" reported.json" if key[-2:] in ("03", "21") else "")
        for key, parts in voice_answer().items()
    },
    holds={f"clips/{CLIPS[3]}": ("a book", "grammar-or-spelling")},
)
def common_voice_with_its_sentences(folder: Path) -> None:
    voice_files(folder)
    known = [[f"s{name[-4:]}", f"The sentence {name}.", "", "a book"] for name in CLIPS]
    unread = [[f"n{n:03d}", f"No one reads {n}.", "", "a book"] for n in range(100)]
    header = "sentence_id sentence sentence_domain source"
    validated = [[*row, 1, 1] for row in known] + [[f"v{row[0]}", *row[1:], 0, 0] for row in unread]
    write(folder, {"validated_sentences.tsv": tsv(f"{header} is_used clips_count", validated)})
    write(folder, {"unvalidated_sentences.tsv": tsv(header, unread)})
    reported = [[*known[at][:2], "en", "grammar-or-spelling"] for at in (3, 21)]
    write(folder, {"reported.tsv": tsv("sentence_id sentence locale reason", reported), "other.tsv": tsv(VOICE, [])})


def chapter(speaker: int, chapter: int, count: int) -> tuple[list[str], str]:
    names = [f"{speaker}-{chapter}-{n:04d}" for n in range(count)]
    return names, "".join(f"{name} THE WORDS OF {name}\n" for name in names)


CHAPTERS = {
    "train-clean-100": [(84, 121123), (84, 121550), (103, 1240)],
    "dev-clean": [(174, 50561)],
    "test-clean": [(61, 70968)],
}


@card(
    samples={f"84-121123-{n:04d}": "flac txt" for n in range(6)},
    texts={"84-121123-0003.txt": "THE WORDS OF 84-121123-0003"},
)
def a_chapter_of_librispeech(folder: Path) -> None:
    names, text = chapter(84, 121123, 6)
    write(folder, [f"{name}.flac" for name in names])
    write(folder, {"84-121123.trans.txt": text})


@card(
    samples={
        f"LibriSpeech/{part}/{speaker}/{number}/{speaker}-{number}-{n:04d}": (
            f"{split}: flac txt speakers.json? chapters.json?"
        )
        for part, split in (("train-clean-100", "train"), ("dev-clean", "val"), ("test-clean", "test"))
        for speaker, number in CHAPTERS[part]
        for n in range(3)
    },
    texts={"LibriSpeech/dev-clean/174/50561/174-50561-0002.txt": "THE WORDS OF 174-50561-0002"},
)
def librispeech(folder: Path) -> None:
    root = "LibriSpeech"
    for part, chapters in CHAPTERS.items():
        for speaker, number in chapters:
            names, text = chapter(speaker, number, 3)
            write(folder, [f"{root}/{part}/{speaker}/{number}/{name}.flac" for name in names])
            write(folder, {f"{root}/{part}/{speaker}/{number}/{speaker}-{number}.trans.txt": text})
    known = [(speaker, part, number) for part, chapters in CHAPTERS.items() for speaker, number in chapters]
    speakers = "".join(f"{speaker:<5}| F | {part:<15}| 25.03 | A Reader\n" for speaker, part, _ in dict.fromkeys(known))
    write(folder, {f"{root}/SPEAKERS.TXT": f"; Some comments\n;ID  |SEX| SUBSET         |MINUTES| NAME\n{speakers}"})
    chapters_text = "".join(f"{n:<6}| {s:<5}| 8.03  | {part:<15}| 330  | 330  | A Book\n" for s, part, n in known)
    header = ";ID    |READER|MINUTES| SUBSET         | PROJ.|BOOK ID| CH. TITLE\n"
    write(
        folder,
        {f"{root}/CHAPTERS.TXT": header + chapters_text, f"{root}/README.TXT": "1. About", f"{root}/LICENSE.TXT": "CC"},
    )


@card(
    samples={f"LJSpeech-1.1/wavs/LJ001-{n:04d}": "json txt wav" for n in range(1, 9)},
    texts={"LJSpeech-1.1/wavs/LJ001-0001.txt": "Well, said 1"},
    holds={"LJSpeech-1.1/wavs/LJ001-0008": "Well, said eight"},
)
def ljspeech(folder: Path) -> None:
    words = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight"]
    rows = "".join(f"LJ001-{n:04d}|Well, said {n}|Well, said {words[n]}\n" for n in range(1, 9))
    write(folder, [f"LJSpeech-1.1/wavs/LJ001-{n:04d}.wav" for n in range(1, 9)])
    write(folder, {"LJSpeech-1.1/metadata.csv": rows, "LJSpeech-1.1/README": "The LJ Speech Dataset"})


SOUNDS = {"train": range(6), "val": range(6, 8)}


@card(
    samples={f"wav/{n:04d}": f"{split}: json txt wav" for split, numbers in SOUNDS.items() for n in numbers},
    texts={"wav/0007.txt": "sound 7"},
)
def nemo_manifests(folder: Path) -> None:
    for split, numbers in SOUNDS.items():
        write(folder, [f"wav/{n:04d}.wav" for n in numbers])
        rows = [
            {"audio_filepath": f"/data/corpus/wav/{n:04d}.wav", "duration": 1.5 + n, "text": f"sound {n}"}
            for n in numbers
        ]
        write(folder, {f"{split}_manifest.json": lines(rows)})


@card(error="offset|segment|part of")
def a_manifest_of_parts_of_recordings(folder: Path) -> None:
    write(folder, [f"calls/{n}.wav" for n in range(3)])
    rows = [
        {"audio_filepath": f"calls/{n}.wav", "offset": 2.5 * at, "duration": 2.5, "text": f"turn {at} of {n}"}
        for n in range(3)
        for at in range(4)
    ]
    write(folder, {"manifest.json": lines(rows)})


@card(
    samples={f"calls/{n}{f'-{at + 1}' if at else ''}": "json txt wav" for n in range(3) for at in range(4)},
    texts={"calls/2-3.txt": "turn 2 of 2"},
    options={"segments": "cut"},
)
def a_manifest_of_segments_that_are_cut(folder: Path) -> None:
    a_manifest_of_parts_of_recordings(folder)
    head = contents_of("x.wav")[:40]
    write(folder, {f"calls/{n}.wav": head + (20_000 * 16).to_bytes(4, "little") + bytes(20_000 * 16) for n in range(3)})


@card(
    samples={f"{shard}_{n:03d}": "json txt wav" for shard in "ab" for n in range(4)},
    forms=("folder", "zip"),
    texts={"b_002.txt": "words of b_002"},
)
def nemo_tarred_manifests(folder: Path) -> None:
    for number, shard in enumerate("ab"):
        names = [f"{shard}_{n:03d}.wav" for n in range(4)]
        write(folder, {f"audio_{number}.tar": tar_of({name: contents_of(name) for name in names})})
        rows = [
            {"audio_filepath": name, "duration": 1.5, "text": f"words of {name[:-4]}", "shard_id": number}
            for name in names
        ]
        write(folder, {f"manifest_{number}.json": lines(rows)})
    write(folder, {"metadata.yaml": "num_shards: 2\nshuffle: false\n"})


SPEAKERS = {"p225": "23  F    English    Southern  England", "p226": "22  M    English    Surrey"}


@card(
    samples={
        f"{name}/{name}_{n:03d} | wav48/{name}/{name}_{n:03d}": "speaker-info.json? txt wav"
        for name in SPEAKERS
        for n in range(1, 6)
    },
    texts={"p226/p226_004.txt": "Please call Stella 4 of p226."},
)
def vctk(folder: Path) -> None:
    for name in SPEAKERS:
        write(folder, [f"wav48/{name}/{name}_{n:03d}.wav" for n in range(1, 6)])
        write(folder, {f"txt/{name}/{name}_{n:03d}.txt": f"Please call Stella {n} of {name}." for n in range(1, 6)})
    rows = "".join(f"{name[1:]}  {text}\n" for name, text in SPEAKERS.items())
    write(
        folder,
        {"speaker-info.txt": f"ID  AGE  GENDER  ACCENTS  REGION \n{rows}", "README": "CSTR VCTK", "COPYING": "ODC-By"},
    )


@card(
    samples={
        f"{name}/{name}_{n:03d}": "mic1.flac mic2.flac speaker-info.json txt" for name in SPEAKERS for n in range(1, 6)
    },
    holds={f"{name}/{name}_004": f"Please call Stella 4 of {name}." for name in SPEAKERS},
)
def vctk_of_two_microphones(folder: Path) -> None:
    for name in SPEAKERS:
        sounds = [f"{name}/{name}_{n:03d}_mic{mic}.flac" for n in range(1, 6) for mic in (1, 2)]
        write(folder, [f"wav48_silence_trimmed/{sound}" for sound in sounds])
        write(folder, {f"txt/{name}/{name}_{n:03d}.txt": f"Please call Stella {n} of {name}." for n in range(1, 6)})
    rows = "".join(f"{name}  {text}\n" for name, text in SPEAKERS.items())
    write(
        folder, {"speaker-info.txt": f"ID  AGE  GENDER  ACCENTS  REGION COMMENTS \n{rows}", "README.txt": "CSTR VCTK"}
    )


@card(
    samples={f"utt{n:03d}": "json txt wav" for n in range(6)},
    texts={f"utt{n:03d}.txt": f"HELLO {n}" for n in range(6)},
    holds={f"utt{n:03d}": f'"speaker":"spk{n % 2}"' for n in range(6)},
)
def kaldi(folder: Path) -> None:
    write(folder, [f"utts/{n:03d}.wav" for n in range(6)])
    write(folder, {"data/wav.scp": "".join(f"utt{n:03d} utts/{n:03d}.wav\n" for n in range(6))})
    write(folder, {"data/text": "".join(f"utt{n:03d} HELLO {n}\n" for n in range(6))})
    write(folder, {"data/utt2spk": "".join(f"utt{n:03d} spk{n % 2}\n" for n in range(6))})
    speakers = [" ".join([f"spk{s}", *(f"utt{n:03d}" for n in range(s, 6, 2))]) for s in range(2)]
    write(folder, {"data/spk2utt": "".join(f"{line}\n" for line in speakers)})


@card(error="offset|segment|part of")
def kaldi_with_segments(folder: Path) -> None:
    write(folder, [f"wav/call{n}.wav" for n in range(3)])
    names = [(f"call{n}", f"call{n}-{at}", 2.5 * at) for n in range(3) for at in range(4)]
    write(folder, {"data/wav.scp": "".join(f"call{n} wav/call{n}.wav\n" for n in range(3))})
    write(folder, {"data/segments": "".join(f"{key} {call} {start} {start + 2.5}\n" for call, key, start in names)})
    write(folder, {"data/text": "".join(f"{key} HELLO FROM {call}\n" for call, key, _ in names)})


@card(
    samples={
        f"call{n}-{at}": f"{split}: json txt wav" for n, split in enumerate(("train", "val", "test")) for at in range(4)
    },
    texts={"call1-2.txt": "HELLO FROM call1"},
    options={"segments": "cut"},
)
def kaldi_of_split_parts(folder: Path) -> None:
    head, size_bytes = contents_of("x.wav")[:40], 20_000 * 16
    write(folder, {f"wav/call{n}.wav": head + size_bytes.to_bytes(4, "little") + bytes(size_bytes) for n in range(3)})
    for n, part in enumerate(("train", "dev", "test")):
        names = [(f"call{n}-{at}", 2.5 * at) for at in range(4)]
        segments = "".join(f"{key} call{n} {start:.2f} {start + 2.5:.2f}\n" for key, start in names)
        texts = "".join(f"{key} HELLO FROM call{n}\n" for key, _ in names)
        lists = {"wav.scp": f"call{n} /export/corpus/wav/call{n}.wav\n", "segments": segments, "text": texts}
        write(folder, {f"data/{part}/{name}": text for name, text in lists.items()})


UTTERANCES = [
    ("train", "S0002", range(122, 126)),
    ("dev", "S0724", range(121, 123)),
    ("test", "S0764", range(121, 123)),
]


@card(
    samples={
        f"data_aishell/wav/{part}/{name}/BAC009{name}W{n:04d}": f"{'val' if part == 'dev' else part}: txt wav"
        for part, name, numbers in UTTERANCES
        for n in numbers
    },
    texts={"data_aishell/wav/train/S0002/BAC009S0002W0123.txt": "而 对 楼市 123"},
)
def aishell(folder: Path) -> None:
    names = [(part, name, f"BAC009{name}W{n:04d}") for part, name, numbers in UTTERANCES for n in numbers]
    write(folder, [f"data_aishell/wav/{part}/{speaker}/{name}.wav" for part, speaker, name in names])
    text = "".join(f"{name} 而 对 楼市 {name[-3:]}\n" for _, _, name in names)
    write(folder, {"data_aishell/transcript/aishell_transcript_v0.8.txt": text})


@card(
    samples={
        f"train/audio/4800/10003/4800_10003_{n:06d}": "segments.json? opus txt | segments.json? opus txt json?"
        for n in range(6)
    },
    texts={"train/audio/4800/10003/4800_10003_000004.txt": "oration number 4"},
)
def multilingual_librispeech(folder: Path) -> None:
    names = [f"4800_10003_{n:06d}" for n in range(6)]
    write(folder, [f"train/audio/4800/10003/{name}.opus" for name in names])
    write(folder, {"train/transcripts.txt": "".join(f"{name}\toration number {n}\n" for n, name in enumerate(names))})
    url = "http://www.archive.org/download/rowing/rowing_64kb.mp3"
    segments = "".join(f"{name}\t{url}\t{12.5 * n}\t{12.5 * n + 12}\n" for n, name in enumerate(names))
    write(folder, {"train/segments.txt": segments})


@card(
    samples={
        f"{part}/DR1/{speaker}/{name}": f"{split}: phn txt wav wrd"
        for part, split, speaker in (("TRAIN", "train", "FCJF0"), ("TEST", "test", "FAKS0"))
        for name in ("SA1", "SA2", "SI1027")
    },
    texts={"TRAIN/DR1/FCJF0/SA1.txt": "0 46797 She had your dark suit.\n"},
)
def timit(folder: Path) -> None:
    for root in ("TRAIN/DR1/FCJF0", "TEST/DR1/FAKS0"):
        for name in ("SA1", "SA2", "SI1027"):
            write(
                folder,
                {f"{root}/{name}.WAV": contents_of("x.wav"), f"{root}/{name}.TXT": "0 46797 She had your dark suit.\n"},
            )
            write(folder, {f"{root}/{name}.PHN": "0 3050 h#\n", f"{root}/{name}.WRD": "3050 5723 she\n"})
