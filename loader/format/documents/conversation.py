"""Parse conversations in the layouts of LLaVA and ShareGPT (``conversations``) and of ChatML (``messages``)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...errors import plural

IMAGE_PLACEHOLDER = "<image>"
"""Marks the place of an image in the text of a turn."""

CONVERSATION_KEYS = ("conversations", "messages", "conversation")
"""Keys of a document that hold its conversation, the likeliest first."""

# Roles of ShareGPT and similar data sets → roles of ChatML; other roles stay as they are.
_ROLES = {
    "human": "user",
    "gpt": "assistant",
    "bot": "assistant",
    "chatgpt": "assistant",
    "model": "assistant",
}

_KEYS_OF_ROLE = ("role", "from")
_KEYS_OF_CONTENT = ("content", "value")
ITEM_KEYS = {
    "image": ("image", "image_url", "input_image"),
    "video": ("video", "video_url", "input_video"),
    "audio": ("audio", "audio_url", "input_audio"),
}
"""Kind of media → types of the items that hold it, and the keys of its path in an item without a type."""

PATHS_IN_TEXT = re.compile(r"<(img|video|audio)>([^<>\n]+\.\w{2,5})</\1>")
"""A path inside of a text, as Qwen-VL and Qwen-Audio write it: its tag, and the path, which has an extension."""

_MARKS = {"video": "<video>", "audio": "<audio>"}  # of media that have no numbers in a turn
_TEXT_TYPES = ("text", "input_text", "output_text")


@dataclass(slots=True)
class Turn:
    """One turn of a conversation.

    Args:
        role: ``"user"``, ``"assistant"``, ``"system"``, or another role as the data names it.
        content: Texts, and numbers of images in the sample's ``images``, in reading order. Videos and sounds are in the
            texts, as ``<video>`` and ``<audio>``.
        extra: Other values of the message, such as ``name`` or ``tool_calls``.

    >>> Turn("user", [0, "What is this?"]).text
    '<image>What is this?'
    """

    role: str
    content: list[str | int]
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The text, with ``<image>`` in place of each image."""
        return "".join(item if isinstance(item, str) else IMAGE_PLACEHOLDER for item in self.content)


def is_conversation(value: object) -> bool:
    """Return True if a value is a conversation that :func:`conversation_turns` parses.

    >>> is_conversation([{"from": "human", "value": "Hi"}]), is_conversation(["Hi"])
    (True, False)
    """
    try:
        return bool(conversation_turns(value))
    except ValueError:
        return False


def item_media(item: object) -> str | None:
    """Return the kind of media that an item of a message represents: ``image``, ``video`` or ``audio``; None for text.

    >>> item_media({"type": "image_url", "image_url": {"url": "a.jpg"}}), item_media({"video": "a.mp4"})
    ('image', 'video')
    """
    if not isinstance(item, Mapping):
        return None
    kind = item.get("type")
    if kind is not None:
        return next((medium for medium, names in ITEM_KEYS.items() if kind in names), None)
    if isinstance(item.get("text"), str):
        return None
    return next((medium for medium, names in ITEM_KEYS.items() if any(item.get(name) for name in names)), None)


def conversation_turns(value: object, *, images: int | None = None, videos: int = 0, audios: int = 0) -> list[Turn]:
    """Parse a conversation.

    Args:
        value: A list of messages, each with ``role`` and ``content``, or ``from`` and ``value``; or a document that has
            such a list as ``conversations``, ``messages`` or ``conversation``, and may have a ``system`` prompt. The
            content is text with placeholders ``<image>``, ``<video>`` and ``<audio>``, or with the paths of media in
            tags, as Qwen-VL writes them: ``<img>a.jpg</img>``; or a list of ``{"type": "text",
            "text": …}``, ``{"type": "image"}`` and so on; the type may be missing. A list of turns is returned as it
            is.
        images: Number of images; None does not compare it with the number of places.
        videos: Number of videos. Without images, places of images are theirs.
        audios: Number of sounds.

    Returns:
        The turns. Images are numbered in the order of their places; an image with an ``index`` has that number.
        Without any place, all images, videos or sounds come first in the first turn of the user.

    Raises:
        ValueError: The value is not a conversation, or it has more or fewer places than images, videos or sounds.

    >>> conversation_turns([{"from": "human", "value": "<image>Who?"}, {"from": "gpt", "value": "A cat."}], images=1)
    [Turn(role='user', content=[0, 'Who?'], extra={}), Turn(role='assistant', content=['A cat.'], extra={})]
    """
    messages, system = _messages_of(value)
    if messages and all(isinstance(message, Turn) for message in messages):
        return list(messages)
    reader = _Reader(typed=any(_has_image_items(message) for message in messages))
    turns = [Turn("system", [system])] if system else []
    turns += [reader.turn(index, message) for index, message in enumerate(messages)]
    if images is not None:
        if videos and not images and len(reader.places) == videos and not _count(turns, "<video>"):
            for turn in turns:  # the places of images are marks of videos, as LLaVA-Video means them
                turn.content = [item if isinstance(item, str) else _MARKS["video"] for item in turn.content]
        else:
            _place_images(turns, reader.places, images)
        for kind, count in (("video", videos), ("audio", audios)):
            _place_marks(turns, kind, count)
    return turns


def _messages_of(value: object) -> tuple[Sequence[Any], str | None]:
    system = None
    if isinstance(value, Mapping):
        document = value
        key = next((key for key in CONVERSATION_KEYS if key in document), None)
        if key is None:
            raise ValueError(f"expected a conversation under {' or '.join(CONVERSATION_KEYS)}, found {_keys(document)}")
        value = document[key]
        system = document.get("system")
        if system is not None and not isinstance(system, str):
            raise ValueError(f"expected text as the system prompt, found {type(system).__name__}")
    if not isinstance(value, list | tuple):
        raise ValueError(f"expected a list of messages, found {type(value).__name__}")  # noqa: TRY004 - data of the user
    return value, system


def _keys(mapping: Mapping[Any, Any]) -> str:
    names = [str(key) for key in mapping]
    return f"{', '.join(names[:6])}{', …' if len(names) > 6 else ''}" if names else "no keys"


def _has_image_items(message: object) -> bool:
    content = message.get("content", message.get("value")) if isinstance(message, Mapping) else None
    return isinstance(content, list) and any(item_media(item) == "image" for item in content)


class _Reader:
    """Reads messages, and numbers the places of images.

    Args:
        typed: Images have items of their own, so that ``<image>`` in text has no meaning.
    """

    def __init__(self, *, typed: bool) -> None:
        self._typed = typed
        self.places: list[int] = []  # the number of the image at each place

    def turn(self, index: int, message: object) -> Turn:
        if not isinstance(message, Mapping):
            kind = type(message).__name__
            raise ValueError(f"message {index}: expected an object, found {kind}")  # noqa: TRY004 - data of the user
        role_key = next((key for key in _KEYS_OF_ROLE if isinstance(message.get(key), str)), None)
        content_key = next((key for key in _KEYS_OF_CONTENT if key in message), None)
        if role_key is None or (content_key is None and "tool_calls" not in message):
            raise ValueError(f"message {index}: expected role and content, or from and value, found {_keys(message)}")
        role: str = message[role_key]
        extra = {key: value for key, value in message.items() if key not in (role_key, content_key)}
        content = None if content_key is None else message[content_key]
        return Turn(_ROLES.get(role.lower(), role), self._content(index, content), extra)

    def _content(self, index: int, content: object) -> list[str | int]:
        if content is None:  # ChatML: a message with tool calls only
            return []
        if isinstance(content, str):
            return self._text(content)
        if not isinstance(content, list):
            kind = type(content).__name__
            raise ValueError(  # noqa: TRY004 - data of the user
                f"message {index}: expected text or a list as content, found {kind}"
            )
        return [part for item in content for part in self._item(index, item)]

    def _item(self, index: int, item: object) -> list[str | int]:
        if isinstance(item, str):
            return self._text(item)
        medium = item_media(item)
        if medium is not None and isinstance(item, Mapping):
            return [self._place(item.get("index"))] if medium == "image" else [_MARKS[medium]]
        kind = item.get("type") if isinstance(item, Mapping) else None
        if isinstance(item, Mapping) and kind in (*_TEXT_TYPES, None) and isinstance(item.get("text"), str):
            return self._text(item["text"])
        shown = f"type {kind!r}" if kind is not None else type(item).__name__
        raise ValueError(f"message {index}: expected items of type 'text', 'image', 'video' or 'audio', found {shown}")

    def _text(self, text: str) -> list[str | int]:
        if self._typed:
            return [text] if text else []
        text = PATHS_IN_TEXT.sub(lambda match: IMAGE_PLACEHOLDER if match[1] == "img" else f"<{match[1]}>", text)
        return [
            self._place(None) if piece == IMAGE_PLACEHOLDER else piece
            for piece in re.split(f"({IMAGE_PLACEHOLDER})", text)
            if piece
        ]

    def _place(self, index: object) -> int:
        image = index if isinstance(index, int) and not isinstance(index, bool) else len(self.places)
        self.places.append(image)
        return image


def _place_images(turns: Sequence[Turn], places: Sequence[int], images: int) -> None:
    """Check that each image has a place; without any place, put the images before the first question."""
    if not places and images:
        _put_first(turns, list(range(images)), "images")
    elif set(places) != set(range(images)):
        raise ValueError(
            f"found {plural(len(places), 'place')} of images ({IMAGE_PLACEHOLDER}), expected {images}, one for each"
        )


def _place_marks(turns: Sequence[Turn], kind: str, count: int) -> None:
    """Check that there are as many marks as videos or sounds; without any mark, put them before the first question."""
    mark, marks = _MARKS[kind], _count(turns, _MARKS[kind])
    what = "videos" if kind == "video" else "sounds"
    if not marks and count:
        _put_first(turns, [mark] * count, what)
    elif count and marks != count:
        raise ValueError(f"found {plural(marks, 'place')} of {what} ({mark}), expected {count}, one for each")


def _put_first(turns: Sequence[Turn], media: Sequence[int | str], what: str) -> None:
    first = next((turn for turn in turns if turn.role == "user"), None)
    if first is None:
        raise ValueError(f"found {plural(len(media), what[:-1])}, and neither a place for them nor a turn of the user")
    first.content[:0] = media


def _count(turns: Sequence[Turn], mark: str) -> int:
    return sum(item.count(mark) for turn in turns for item in turn.content if isinstance(item, str))
