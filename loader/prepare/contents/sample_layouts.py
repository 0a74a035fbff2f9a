"""Recognise samples of several images that a field map cannot describe, and write the code that builds them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...format.documents.conversation import IMAGE_PLACEHOLDER, is_conversation
from ...parts.kinds import kind_of_name, part_extension

_SEQUENCE_KEYS = ("sequence", "content", "interleaved", "items", "document", "texts", "text_list", "sentences")
_IMAGE_LIST_KEYS = ("images", "image_paths", "image_names", "image_list", "image")
_TEXT_KEYS = ("text", "content", "caption")
# Endings of further images that later samples may have.
_IMAGE_ENDINGS = frozenset((".avif", ".bmp", ".gif", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp"))
_VIDEO_ENDINGS = frozenset((".avi", ".mkv", ".mov", ".mp4", ".webm"))
_AUDIO_ENDINGS = frozenset((".flac", ".m4a", ".mp3", ".ogg", ".wav"))

_NUMBERED = re.compile(r"\d+\.[^.]+")

_CODE = '''\
"""Fill the fields of {type_name} from the parts of a sample.

Written by `energon prepare` for the layout of the first samples; edit it if others differ. Training code runs it with
`trust_code=True`; `energon preview` and `energon lint` run it with `--trust-code`.
"""

import re

ENDINGS = {endings}


def part_filter(part_name: str) -> bool:
    """Return True for parts that are needed; the others are neither read nor decoded."""
    return part_name{json_filter}.lower().endswith(ENDINGS)


def in_order(parts: dict) -> list[str]:
    """Return the names of the numbered parts in the order of their numbers."""
    names = [name for name in parts if name.lower().endswith(ENDINGS) and not name.startswith("__")]
    return sorted(names, key=lambda name: [int(text) if text.isdigit() else text for text in re.split(r"(\\d+)", name)])

{body}'''

_TURNS = '''
MEDIA = {media}


def sample_loader(parts: dict) -> dict:
    """Return the turns and their media; `<image>`, `<video>` and `<audio>` in the text refer to them in order."""
    names = in_order(parts)
    media = {{kind: [parts[name] for name in names if name.lower().endswith(MEDIA[kind])] for kind in MEDIA}}
    return {{"turns": parts[{part}], **media}}
'''

_NUMBERED_PARTS = '''
def sample_loader(parts: dict) -> dict:
    """Return the images and texts in the order of their numbers."""
    return {"sequence": [parts[name] for name in in_order(parts)]}
'''

_SEQUENCE = '''
def items_of(document: dict) -> list:
    """Return the texts in reading order, with None for each image."""
    {items}


def sample_loader(parts: dict) -> dict:
    """Return the images and texts in reading order."""
    items = items_of(parts[{part}])
    images = [parts[name] for name in in_order(parts)]
    if items.count(None) != len(images):
        raise ValueError(f"the text has {{items.count(None)}} places of images, and the sample {{len(images)}} images")
    remaining = iter(images)
    return {{"sequence": [next(remaining) if item is None else item for item in items]}}
'''

_TWO_LISTS = '''
def sample_loader(parts: dict) -> dict:
    """Return the images and texts in the order of the two lists; at the same place, the image comes first."""
    texts, images = parts["{part}"]["{text_key}"], parts["{part}"]["{image_key}"]
    if len(texts) != len(images):
        raise ValueError(f"there are {{len(texts)}} texts and {{len(images)}} images; expected lists of one length")
    names = [image for image in images if image]
    if not parts.keys() >= set(names):  # paths or URLs: the parts are in the order of the list
        names = in_order(parts)
    if len(names) != sum(map(bool, images)):
        raise ValueError(f"the list has {{sum(map(bool, images))}} images, and the sample {{len(names)}}")
    remaining = iter(names)
    sequence = []
    for text, image in zip(texts, images):
        sequence += [parts[next(remaining)]] if image else []
        sequence += [text] if text else []
    return {{"sequence": sequence}}
'''

_TEXT_ITEMS = """pieces = re.split("({placeholder})", document["{key}"])
    return [None if piece == "{placeholder}" else piece for piece in pieces if piece]"""
_LIST_ITEMS = """items = [item.get("text") if isinstance(item, dict) else item for item in document["{key}"]]
    return [
        item if isinstance(item, str) and item != "{placeholder}" and not item.lower().endswith(ENDINGS) else None
        for item in items
    ]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleLayout:
    """A layout of samples whose fields need code."""

    type_name: str  # name of the sample type
    what: str  # description of the layout
    code: str  # the ``sample_loader.py``


def string_literal(text: str) -> str:
    r"""Return a text as Python source, in double quotes if it has no quotes: names of parts come from data.

    >>> print(string_literal("jpg"), string_literal('a"]'), string_literal("\u202e"))
    "jpg" 'a"]' "\u202e"
    """
    literal = repr(text)
    return literal if "'" in text or '"' in text else f'"{literal[1:-1]}"'


def find_layout(part_names: Sequence[str], json_example: Mapping[str, object] | None) -> SampleLayout | None:
    """Recognise the layout of samples with several images and text; None if it is another one.

    Args:
        json_example: The decoded ``json`` part of a sample; None if samples have none.

    >>> find_layout(["0.jpg", "1.jpg", "json"], {"texts": ["a cat", None, "and a dog", None]}).type_name
    'InterleavedSample'
    """
    # Sort the parts by kind; any other kind has no layout.
    images = [name for name in part_names if kind_of_name(name) == "image"]
    texts = [name for name in part_names if kind_of_name(name) == "text"]
    trees = [name for name in part_names if kind_of_name(name) == "tree"]
    media = {kind: [name for name in part_names if kind_of_name(name) == kind] for kind in ("image", "video", "audio")}
    others = len(part_names) - len(texts) - len(trees) - sum(map(len, media.values()))
    if others:
        return None
    # A conversation may be about media of any kind, the other layouts only about images.
    if json_example is not None and len(trees) == 1 and not texts and is_conversation(json_example):
        layout = _conversation(trees[0], media)
        if layout is not None:
            return layout
    if not images or media["video"] or media["audio"]:
        return None
    # The images and texts may be numbered parts.
    if not trees and texts and all(map(_NUMBERED.fullmatch, part_names)):
        numbers = [name.partition(".")[0] for name in part_names]
        if len(set(numbers)) < len(numbers):
            return None  # 0.jpg and 0.txt: the order is unknown
        return _layout("InterleavedSample", "its images and texts are numbered", part_names, None, _NUMBERED_PARTS)
    # Otherwise one json part has the text, and the places of the images.
    if texts or len(trees) != 1 or json_example is None or part_extension(trees[0]) not in ("json", "jsn"):
        return None
    (tree,) = trees
    keys = _two_lists(json_example, images)
    if keys is not None:
        text_key, image_key = keys
        body = _TWO_LISTS.format(part=tree, text_key=text_key, image_key=image_key)
        what = f"{tree}[{text_key}] and {tree}[{image_key}] line up, and at the same place the image comes first"
        return _layout("InterleavedSample", what, images, tree, body)
    key_and_items = _items(json_example, images)
    if key_and_items is None:
        return None
    key, items = key_and_items
    body = _SEQUENCE.format(items=items, part=string_literal(tree))
    return _layout("InterleavedSample", f"its images have places in the text of {tree}[{key}]", images, tree, body)


def _conversation(tree: str, media: Mapping[str, Sequence[str]]) -> SampleLayout | None:
    """Return the layout of a conversation about several images, videos or sounds; None if a field map describes it."""
    if part_extension(tree) not in ("json", "jsn") or all(len(names) < 2 for names in media.values()):
        return None
    of_kinds = {"image": _IMAGE_ENDINGS, "video": _VIDEO_ENDINGS, "audio": _AUDIO_ENDINGS}
    lines = (
        f'    "{kind}s": ({", ".join(map(string_literal, _endings(media[kind], of_kinds[kind])))}),'
        for kind in of_kinds
    )
    body = _TURNS.format(part=string_literal(tree), media="{\n" + "\n".join(lines) + "\n}")
    numbered = [name for names in media.values() for name in names]
    every = _IMAGE_ENDINGS | _VIDEO_ENDINGS | _AUDIO_ENDINGS
    kinds = " and ".join(f"{kind}s" for kind, names in media.items() if names).replace("audios", "sounds")
    what = f"it is a conversation about several {kinds}"
    return _layout("ConversationSample", what, numbered, tree, body, known=every)


def _two_lists(document: Mapping[str, object], images: Sequence[str]) -> tuple[str, str] | None:
    """Return the keys of a list of texts and a list of images that line up; either may have None in a place."""
    for text_key in _SEQUENCE_KEYS:
        for image_key in _IMAGE_LIST_KEYS:
            texts, names = document.get(text_key), document.get(image_key)
            if not (isinstance(texts, list) and isinstance(names, list) and len(texts) == len(names)):
                continue
            is_text = all(entry is None or isinstance(entry, str) for entry in (*texts, *names))
            if is_text and any(texts) and 0 < sum(map(bool, names)) <= len(images):
                return text_key, image_key
    return None


def _items(document: Mapping[str, object], images: Sequence[str]) -> tuple[str, str] | None:
    """Return the key of the text that has places for images, and the code that lists its items."""
    for key in _TEXT_KEYS:
        text = document.get(key)
        if isinstance(text, str) and IMAGE_PLACEHOLDER in text:
            return key, _TEXT_ITEMS.format(key=key, placeholder=IMAGE_PLACEHOLDER)
    endings = _endings(images)
    for key in _SEQUENCE_KEYS:
        items = document.get(key)
        if isinstance(items, list) and _is_sequence(items, endings):
            return key, _LIST_ITEMS.format(key=key, placeholder=IMAGE_PLACEHOLDER)
    return None


def _is_sequence(items: Sequence[object], endings: tuple[str, ...]) -> bool:
    """Return True if items are texts and places of images."""
    places = texts = 0
    for item in items:
        text = item.get("text") if isinstance(item, Mapping) else item
        if isinstance(item, Mapping) and not ("text" in item or "image" in item or item.get("type") == "image"):
            return False
        if text is None or isinstance(text, int):
            places += 1
        elif isinstance(text, str):
            is_place = text == IMAGE_PLACEHOLDER or text.lower().endswith(endings)
            places += is_place
            texts += not is_place
        else:
            return False
    return bool(places and texts)


def _endings(part_names: Sequence[str], known: frozenset[str] = _IMAGE_ENDINGS) -> tuple[str, ...]:
    endings = {f".{part_extension(name)}" if "." in name else name.lower() for name in part_names}
    return tuple(sorted(endings | known))


def _layout(
    type_name: str,
    what: str,
    numbered: Sequence[str],
    tree: str | None,
    body: str,
    *,
    known: frozenset[str] = _IMAGE_ENDINGS,
) -> SampleLayout:
    endings = f"({', '.join(map(string_literal, _endings(numbered, known)))})"
    json_filter = "" if tree is None else f" == {string_literal(tree)} or part_name"
    code = _CODE.format(type_name=type_name, endings=endings, json_filter=json_filter, body=body)
    return SampleLayout(type_name=type_name, what=what, code=code)
