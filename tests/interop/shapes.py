"""Datasets in all archive formats found in practice, written block by block.

A shape is a mapping from a shard's path to its bytes. Both tools agree on every shape here; tests of intended
differences build their own archives.
"""

from __future__ import annotations

import hashlib
import io
import json
import random
import re
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

BLOCK = 512
END = bytes(2 * BLOCK)
PART = re.compile(r"(?P<key>(?:.*/|)[^.]+)[.](?P<part>[^/]*)")

Shape = Mapping[str, bytes]
Form = Literal[0, 1, 2]  # a format of tarfile


def file(
    name: str,
    content: bytes = b"",
    *,
    form: Form = tarfile.USTAR_FORMAT,
    pax: Mapping[str, str] | None = None,
) -> bytes:
    """Return a regular file: its header (and extension headers), content and padding."""
    member = tarfile.TarInfo(name)
    member.size = len(content)
    member.pax_headers = dict(pax or {})
    return member.tobuf(form) + content + bytes(-len(content) % BLOCK)


def other(name: str, kind: bytes, target: str = "") -> bytes:
    """Return an entry without content: a folder, a link, a fifo."""
    member = tarfile.TarInfo(name)
    member.type = kind
    member.linkname = target
    return member.tobuf(tarfile.USTAR_FORMAT)


def pax_header(kind: bytes, **records: str) -> bytes:
    """Return a PAX extended header (``x``) for the next entry, or a global one (``g``)."""
    lines = []
    for key, value in records.items():
        length = len(f" {key}={value}\n".encode())
        digits = next(n for n in range(1, 9) if len(str(length + n)) == n)
        lines.append(f"{length + digits} {key}={value}\n".encode())
    content = b"".join(lines)
    member = tarfile.TarInfo("PaxHeaders/0")
    member.type = kind
    member.size = len(content)
    return member.tobuf(tarfile.USTAR_FORMAT) + content + bytes(-len(content) % BLOCK)


def with_field(entry: bytes, offset: int, value: bytes) -> bytes:
    """Overwrite bytes of an entry's header and correct the checksum."""
    header = bytearray(entry[:BLOCK])
    header[offset : offset + len(value)] = value
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header) + entry[BLOCK:]


def pair(key: str, number: int, form: Form = tarfile.USTAR_FORMAT) -> bytes:
    """Return a sample with a json and a txt part."""
    facts = json.dumps({"number": number, "filler": "x" * (number * 97 % 900)}).encode()
    return file(f"{key}.json", facts, form=form) + file(f"{key}.txt", f"text {number}".encode(), form=form)


def flat() -> Shape:
    return {
        f"shard_{shard:03d}.tar": b"".join(pair(f"{shard:03d}_{i:05d}", 10 * shard + i) for i in range(5)) + END
        for shard in range(12)
    }


def nested() -> Shape:
    """Spread shards over folders whose order differs by component and by character."""
    names = (
        "a.tar",
        "a/z.tar",
        "a/b/c.tar",
        "a-b/q.tar",
        "a b/q.tar",
        "B.tar",
        "b/s10.tar",
        "b/s2.tar",
        "z/x/y/s.tar",
        "é.tar",
    )
    return {
        name: pair(f"k{number}", number) + pair(f"deep/er/k{number}", number) + END for number, name in enumerate(names)
    }


def long_names(form: Form) -> Callable[[], Shape]:
    def shape() -> Shape:
        long = "folder/" * 14 + "name" * 20
        huge = "ü" * 120 + "/" + "n" * 250
        samples = pair(f"{long}1", 1, form) + pair("short", 2, form) + pair(f"{huge}2", 3, form) + pair("last", 4, form)
        return {"s0.tar": samples + END, "s1.tar": pair(f"{long}5", 5, form) + END}

    return shape


def prefix() -> Shape:
    """Use the USTAR prefix field."""
    return {"s0.tar": pair("p" * 90 + "/" + "q" * 90, 1) + pair("r" * 100 + "/s", 2) + END}


def pax_overrides() -> Shape:
    """Override the header's name and size by PAX records.

    A global header is only at the start: behind a sample, it crashes the peer's loader.
    """
    content = b"seven b"
    return {
        "s0.tar": pax_header(b"g", comment="made by hand")
        + pax_header(b"x", path="real/name.seg.txt")
        + file("other.bin", content)
        + pax_header(b"x", size=str(len(content)))
        + with_field(file("sized.txt", content), 124, b"%011o\0" % 0)
        + file("timed.txt", b"t", form=tarfile.PAX_FORMAT, pax={"mtime": "1.5", "comment": "hey"})
        + pair("plain", 1)
        + END
    }


def base_256() -> Shape:
    """Write sizes in the GNU base-256 format of large files."""
    content = b"hello"
    size = b"\x80" + len(content).to_bytes(11, "big")
    return {"s0.tar": pair("a", 1) + with_field(file("b.txt", content), 124, size) + pair("c", 2) + END}


def folders() -> Shape:
    """Put folder entries before, between, inside and behind the samples, one with a dot in its name."""
    folder = tarfile.DIRTYPE
    return {
        "s0.tar": other("d/", folder)
        + pair("d/a", 1)
        + other("e.x/", folder)
        + file("e.x/b.json", b"{}")
        + other("e.y", folder)
        + file("e.x/b.txt", b"inside")
        + other("f/", folder)
        + END,
        "s1.tar": pair("c", 2) + END,
    }


def ignored() -> Shape:
    """Add every kind of entry that is not a part."""
    return {
        "s0.tar": file("README", b"first")
        + file("__meta__/x.json", b"{}")
        + pair("a", 1)
        + file(".hidden", b"1")
        + file("b.json", b"{}")
        + file("LICENSE", b"x" * 700)
        + file(".b.txt", b"2")
        + file("b.txt", b"inside")
        + file("x/nodot", b"3")
        + other("link.txt", tarfile.SYMTYPE, "a.txt")
        + other("hard.txt", tarfile.LNKTYPE, "a.txt")
        + other("fifo.txt", tarfile.FIFOTYPE)
        + file("__x__", b"4")
        + pair("c", 2)
        + file("____/a.json", b"{}")
        + file("d.e/nodot", b"5")
        + END,
        "s1.tar": pair("d", 3) + file("behind", b"6" * 600) + END,
    }


def odd_names() -> Shape:
    names = (
        "./c.txt", "../e.txt", "/f.txt", "g..txt", "h.", " .txt", "A.JPG", "é.txt", "a//b.txt", "a.b/c.d.txt",
        "__x__.json", "__x__y/a.json", "__/a.json", "d/__z__/b.txt", "-.txt", "i.seg.png", "j{0..3}.txt",
        "k'\"%s.txt", "l\n.txt",
    )  # fmt: skip
    return {"s0.tar": b"".join(file(name, b"{}") for name in names) + END, "s1.tar": pair("z", 1) + END}


def old_types() -> Shape:
    """Use the two other type flags of regular files, and an unknown one."""
    return {
        "s0.tar": with_field(file("a.txt", b"1"), 156, b"\0")
        + with_field(file("b.txt", b"2"), 156, b"7")
        + with_field(file("c.txt", b"3"), 156, b"Z")
        + pair("d", 1)
        + END
    }


def empty_parts() -> Shape:
    return {"s0.tar": pair("a", 1) + file("b.bin") + file("b.txt") + pair("c", 2) + file("d.txt") + END}


def many_parts() -> Shape:
    return {"s0.tar": b"".join(file(f"k{i}.{p}.txt", b"x" * p) for i in range(4) for p in range(60)) + END}


def endings() -> Shape:
    """End archives in all the ways that programs do."""
    return {
        "padded.tar": pair("a", 1) + bytes(10240),
        "one_block.tar": pair("b", 2) + bytes(BLOCK),
        "nothing.tar": pair("c", 3),
        "ignored.tar": pair("d", 4) + file("README", b"x") + END,
    }


def random_shards() -> Shape:
    """Combine all kinds of entries pseudo-randomly, with a fixed seed."""
    return {f"{seed % 7}/s{seed}.tar": random_shard(random.Random(seed), seed) for seed in range(150)}


def random_shard(draw: random.Random, number: int) -> bytes:
    forms: tuple[Form, ...] = tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT
    noise: tuple[Callable[[], bytes], ...] = (
        lambda: file("README" * draw.randint(1, 9), b"n" * draw.randint(0, 1200)),
        lambda: file("no/dot/" + "l" * draw.randint(90, 200), b"n", form=draw.choice(forms[1:])),
        lambda: file("__meta__/x.json", b"{}"),
        lambda: file(".hidden", b"h"),
        lambda: other("folder.d/", tarfile.DIRTYPE),
        lambda: other("link.txt", tarfile.SYMTYPE, "target.txt"),
        lambda: other("hard.txt", tarfile.LNKTYPE, "target.txt"),
        lambda: with_field(file("unknown.txt", b"u" * draw.randint(0, 900)), 156, b"Z"),
        lambda: pax_header(b"x", path="ignored" * draw.randint(1, 40)) + file("named.txt", b"n"),
    )
    pieces = []
    for sample in range(draw.randint(1, 12)):
        folder = draw.choice(["", "a/", "./", "deep/" * 20, "ordner-ü/" * 12, "x.y/"])
        key = f"{folder}{'k' * draw.choice([1, 1, 1, 60, 95, 140])}{number}_{sample}"
        # USTAR headers cannot store long names; writing them would raise.
        form = draw.choice(forms if len(key.encode()) < 80 else forms[1:])
        for part in range(draw.randint(1, 4)):
            pieces += [draw.choice(noise)() for _ in range(draw.choice([0, 0, 0, 1, 2]))]
            content = draw.randbytes(draw.choice([0, 1, 100, 511, 512, 513, 3000]))
            pieces.append(file(f"{key}.{draw.choice(['', 'seg.', 'A.'])}p{part}", content, form=form))
    pieces += [draw.choice(noise)() for _ in range(draw.choice([0, 0, 1]))]
    return b"".join(pieces) + draw.choice([END, END, b"", bytes(BLOCK), bytes(20 * BLOCK)])


SHAPES: dict[str, Callable[[], Shape]] = {
    "flat": flat,
    "nested": nested,
    "GNU long names": long_names(tarfile.GNU_FORMAT),
    "PAX long names": long_names(tarfile.PAX_FORMAT),
    "USTAR prefix": prefix,
    "PAX overrides": pax_overrides,
    "base-256 sizes": base_256,
    "folders": folders,
    "ignored members": ignored,
    "odd names": odd_names,
    "old types": old_types,
    "empty parts": empty_parts,
    "many parts": many_parts,
    "endings": endings,
    "random shards": random_shards,
}


def write(folder: Path, shape: Shape) -> Path:
    """Write a shape's shards into a folder."""
    for name, content in shape.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def contents(shape: Shape) -> dict[str, dict[str, str]]:
    """Return the parts that Python's tarfile finds: key → part name → sha256."""
    samples: dict[str, dict[str, str]] = {}
    for shard in shape.values():
        # `tarfile` cannot read an archive without a final zero block; two more blocks are harmless otherwise.
        with tarfile.open(fileobj=io.BytesIO(shard + END), encoding="utf-8") as archive:
            for member in archive:
                match = PART.fullmatch(member.name, 0)
                if not match or not member.isreg() or re.match(r"__[^/]*__/", member.name):
                    continue
                opened = archive.extractfile(member)
                digest = hashlib.sha256(opened.read() if opened else b"").hexdigest()
                samples.setdefault(match["key"], {})[match["part"]] = digest
    return samples
