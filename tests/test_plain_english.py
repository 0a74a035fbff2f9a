"""Plain technical English in the source, the tests and the documentation, as far as a rule can check it."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from tests.source_tree import ROOT

BUDGET = tomllib.loads((ROOT / "tests" / "budget.toml").read_text("utf-8"))

REFUSED_OPENINGS = re.compile(
    r"(Give|Tell|Say|What|Whether|Which|How|Is|Are|Where|Who|Make|Know|Take)(s|ever|n)?\b(?!-)"
)
"""First words of a docstring that hide what the function does: write Return, Build, Report, Check, Read …"""

REFUSED_WORDS = {
    "anew": "again",
    "for ever": "forever, or: endless",
    "nobody": "no caller, no process …",
    "somebody": "a user, a process …",
    "anybody": "any user",
    "whoever": "the caller, the reader …",
    "as good as": "nearly",
    "in the place of": "instead of",
    "put back": "restored",
    "beside": "next to",
    "stands for": "represents, aliases",
    "stays behind": "is dropped, is kept",
    "mend": "fix",
    "mends": "fixes",
    "mended": "fixed",
    "mending": "fixing",
    "goes on": "continues",
    "go on": "continue",
    "going on": "continuing",
    "is told": "receives, is called with",
    "are told": "receive",
    "tells": "reports, shows",
    "made again": "rebuilt",
    "looked at": "read, inspected",
    "asked for": "requested",
    "nothing but": "only",
    "the like": "name it",
    "lies in": "is in",
    "lie in": "are in",
    "lies beside": "is next to",
}
"""Words and turns that the field does not use, each with a plain one."""

PRONOUN_CHAINS = re.compile(
    r"\b([Tt]hose of|[Tt]hat of|[Oo]f which|[Oo]f those|than those|as those|and those|are none|None if there is none|"
    r"[Ll]ikewise)\b"
)
"""Turns that point at a noun which the reader has to look for: repeat the noun."""
_CHAINS_ACROSS_LINES = re.compile(PRONOUN_CHAINS.pattern.replace(" ", r"\s+"), flags=re.IGNORECASE)

STOCK_NAMES = {"found", "one", "own", "place", "number"}
"""Names of variables that fit any value: use the noun of the vocabulary."""

LONG_FUNCTION = 25
"""Lines of a body from which on a reader needs sentences between the steps."""

_MAY_OPEN = re.compile(rf"[\"'](\\\n|\s)*{REFUSED_OPENINGS.pattern}")
"""Texts that may begin with a refused opening: other files need not be parsed."""

_CODE = re.compile(r"^ *(```|~~~).*?^ *\1|(?P<ticks>`+)[^`\n]+(?P=ticks)", flags=re.MULTILINE | re.DOTALL)
"""Code in a page: blocks between fences, and spans between backticks."""

_GAP = re.compile(r"[ \n#]+")
_WORDS = "|".join(word.replace(" ", _GAP.pattern) for word in REFUSED_WORDS)
_REFUSED = re.compile(rf"\b({_WORDS})\b", flags=re.IGNORECASE)
_OWN_TEXT = Path(__file__)


def python_files() -> Iterator[Path]:
    for folder in ("loader", "energon_cli", "tests", "benchmarks"):
        yield from sorted((ROOT / folder).rglob("*.py"))


def pages() -> Iterator[Path]:
    yield from sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "changes").glob("*.md")])


@cache
def nodes(text: str) -> list[ast.AST]:
    return list(ast.walk(ast.parse(text)))


def refused_openings(text: str) -> Iterator[str]:
    """Yield the docstrings that begin with a refused word, each with its line."""
    for node in nodes(text) if _MAY_OPEN.search(text) else ():
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node) or ""
            if REFUSED_OPENINGS.match(docstring):
                yield f"{getattr(node, 'lineno', 1)}: {docstring.splitlines()[0]}"


def refused_words(text: str) -> Iterator[str]:
    """Yield the refused words of a text, each with its line and a plain word; line breaks count as blanks."""
    for found in _REFUSED.finditer(text):
        word = _GAP.sub(" ", found[0]).lower()
        line = text.count("\n", 0, found.start()) + 1
        yield f"{line}: {word!r}; expected {REFUSED_WORDS[word]}"


def pronoun_chains(text: str) -> Iterator[str]:
    """Yield the pronoun chains in the docstrings of a module, each with its line."""
    for node in nodes(text):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            for chain in PRONOUN_CHAINS.finditer(ast.get_docstring(node) or ""):
                yield f"{getattr(node, 'lineno', 1)}: {chain[0]}"


def pronoun_chains_of_a_page(text: str) -> Iterator[str]:
    """Yield the pronoun chains in the prose of a page, each with its line; line breaks count as blanks."""
    prose = _CODE.sub(lambda code: re.sub(r"[^\n]", "x", code[0]), text)
    for chain in _CHAINS_ACROSS_LINES.finditer(prose):
        line = prose.count("\n", 0, chain.start()) + 1
        yield f"{line}: {chain[0]!r}"


def stock_names(text: str) -> Iterator[str]:
    """Yield the assigned variables and the parameters with a stock name, each with its line."""
    for node in nodes(text):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in STOCK_NAMES:
            yield f"{node.lineno}: {node.id}"
        elif isinstance(node, ast.arg) and node.arg in STOCK_NAMES:
            yield f"{node.lineno}: {node.arg}"


def long_functions_without_a_step_comment(text: str) -> Iterator[str]:
    """Yield the long functions whose body has no line that is a comment."""
    lines = text.splitlines()
    for node in nodes(text):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            has_docstring = ast.get_docstring(node) is not None
            start = (node.body[0].end_lineno or 0) if has_docstring else node.body[0].lineno - 1
            while lines[start - 1].lstrip().startswith("#"):
                start -= 1
            body = lines[start : node.end_lineno]
            if len(body) > LONG_FUNCTION and not any(line.lstrip().startswith("#") for line in body):
                yield f"{node.lineno}: {node.name}"


_UNITS = "bits|bytes|characters|digits|letters|numbers|pixels|times|values"


@cache
def counted_nouns() -> str:
    """Return the plurals of the nouns that the sources pass to ``plural``, as a pattern."""
    nouns = set()
    for path in _sources():
        for node in nodes(path.read_text(encoding="utf-8")):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "plural":
                words = [str(arg.value).split() for arg in node.args[1:] if isinstance(arg, ast.Constant)]
                if len(words) == 1:
                    nouns.add(f"{words[0][-1]}s")
                elif words:
                    nouns |= {word for word in words[1] if word not in words[0] and word.endswith("s")}
    return "|".join(sorted(nouns - {"names", *_UNITS.split("|")}))


def _sources() -> list[Path]:
    return [path for path in python_files() if path.relative_to(ROOT).parts[0] in ("loader", "energon_cli")]


_PLURALS = re.compile(rf" (?:[a-z-]+ )??(?!(?:{_UNITS}|as|class|does|has|is|its|process|repeats|this|was)\b)[a-z-]+s\b")
_WORD = r"(?!(?:at|from|to|with) |[a-z-]*s )[a-z][a-z-]* "
_VERBS = re.compile(r" (are|were|have|do|need|share|change|remain|occur|come|differ|take|lack)\b")
_TEXTS = re.compile(r"(name|part|parts|format|rows|which|parent\)|samples_per_s)$")
"""Values before a noun that are no numbers, by their last word."""


def counts_that_do_not_agree(text: str) -> Iterator[str]:
    """Find numbers before a noun in the plural, and plural verbs after ``plural(count, noun)``: 1 would be wrong.

    Numbers are lengths, what has separators of thousands, and any value before a noun that other messages count;
    constants and units are exempt.
    """
    counted = re.compile(rf" (?:{_WORD})?(?:{counted_nouns()})\b(?!/)")
    pairs = [pair for node in nodes(text) if isinstance(node, ast.JoinedStr) for pair in pairwise(node.values)]
    for value, after in pairs:
        if not (isinstance(value, ast.FormattedValue) and isinstance(after, ast.Constant)):
            continue
        shown, words = ast.unparse(value.value), str(after.value)
        is_count = "len(" in shown or (value.format_spec is not None and "," in ast.unparse(value.format_spec))
        is_agreeing = shown.startswith("plural(")
        is_exempt = shown.strip("_").isupper() or value.conversion != -1 or _TEXTS.search(shown)
        has_plural = counted.match(words) or (is_count and (_PLURALS.match(words) or _VERBS.match(words)))
        if _VERBS.match(words) if is_agreeing else has_plural and not is_exempt:
            yield f"{value.lineno}: {shown}{words[:40]}: pass the noun to plural(), also with its verb"


@pytest.mark.parametrize("rule", [pronoun_chains, stock_names, long_functions_without_a_step_comment])
def test_the_source_gets_no_harder_to_read(rule: Callable[[str], Iterator[str]]) -> None:
    faults = [
        f"{path.relative_to(ROOT)}:{fault}" for path in _sources() for fault in rule(path.read_text(encoding="utf-8"))
    ]
    assert len(faults) <= BUDGET[rule.__name__], faults


@pytest.mark.parametrize(
    ("rule", "fault", "plain"),
    [
        (
            pronoun_chains,
            '"""Return the keys of samples, and\nthose of parts."""',
            '"""Return keys of samples and parts."""',
        ),
        (stock_names, "def f(found):\n    return found", "def f(match):\n    return match.found"),
        (stock_names, "for one in samples: pass", "for sample in samples: print(sample.number)"),
        (
            long_functions_without_a_step_comment,
            'def f():\n    """Run."""\n' + "    step()\n" * 26,
            "def f():\n    # Prepare, then run.\n" + "    step()\n" * 26,
        ),
    ],
)
def test_what_is_hard_to_read_is_found(rule: Callable[[str], Iterator[str]], fault: str, plain: str) -> None:
    assert len(list(rule(fault))) == 1
    assert not list(rule(plain))


def test_messages_agree_with_the_number_1() -> None:
    assert not [
        f"{path.relative_to(ROOT)}:{fault}"
        for path in _sources()
        if "megatron_energon" not in path.parts  # its programs print the texts of megatron-energon
        for fault in counts_that_do_not_agree(path.read_text(encoding="utf-8"))
    ]


@pytest.mark.parametrize(
    ("fault", "plain"),
    [
        ('f"{n:,} samples"', "f\"{plural(n, 'sample')}\""),
        ('f"in {len(groups)} large groups"', "f\"in {plural(len(groups), 'large group')}\""),
        ("f\"{plural(n, 'part')} are empty\"", "f\"{plural(n, 'part is', 'parts are')} empty\""),
        ('f"{n:,} " "requests"', 'f"{_LIMIT:,} requests, {n:,} bytes, {names} rhymes, {sample_type} with fields"'),
        ('f"the {world_size} ranks of the run"', "f\"{plural(n, 'rank')}, {self.part} parts, {flag!r} writes files\""),
        ('f"{n:,} remain"', "f\"{plural(n, 'remains', 'remain')}\""),
        ("f\"{plural(n, 'sample')} share a key\"", "f\"{plural(n, 'sample shares', 'samples share')} a key\""),
    ],
)
def test_a_count_that_does_not_agree_is_found(fault: str, plain: str) -> None:
    assert len(list(counts_that_do_not_agree(fault))) == 1
    assert not list(counts_that_do_not_agree(plain))


def test_docstrings_begin_with_what_they_do() -> None:
    assert not [
        f"{path.relative_to(ROOT)}:{fault}"
        for path in python_files()
        for fault in refused_openings(path.read_text(encoding="utf-8"))
    ]


def test_the_source_uses_the_words_of_the_field() -> None:
    assert not [
        f"{path.relative_to(ROOT)}:{fault}"
        for path in python_files()
        if path != _OWN_TEXT
        for fault in refused_words(path.read_text(encoding="utf-8"))
    ]


def test_the_documentation_uses_the_words_of_the_field() -> None:
    assert not [
        f"{page.relative_to(ROOT)}:{fault}"
        for page in pages()
        for fault in refused_words(page.read_text(encoding="utf-8"))
    ]


def test_the_documentation_repeats_nouns() -> None:
    assert not [
        f"{page.relative_to(ROOT)}:{fault}"
        for page in pages()
        for fault in pronoun_chains_of_a_page(page.read_text(encoding="utf-8"))
    ]


def test_a_pronoun_chain_of_a_page_is_found_across_lines() -> None:
    assert list(pronoun_chains_of_a_page("Samples.\n\nNumbers are those\nof the index.")) == ["3: 'those\\nof'"]


@pytest.mark.parametrize(
    "text", ["```text\nthose of ranks\n```", "    ```python\n    # likewise\n    ```", "it ends with `those of ranks`"]
)
def test_code_in_a_page_may_have_pronoun_chains(text: str) -> None:
    assert not list(pronoun_chains_of_a_page(text))


@pytest.mark.parametrize(
    "text",
    [
        '"""What a leaf is."""',
        'def f():\n    """Gives the samples."""',
        'class A:\n    """Whether it is over."""',
        'class A:\n    def f(self):\n        """How many samples there are."""',
    ],
)
def test_a_refused_opening_is_found(text: str) -> None:
    assert list(refused_openings(text))


def test_other_openings_pass() -> None:
    assert not list(refused_openings('"""Return the samples."""\ndef f():\n    """Whatsoever."""'))


@pytest.mark.parametrize("text", ["were put back", "were put\n    back", "# were put\n# back", "Put back"])
def test_a_refused_word_is_found_across_lines(text: str) -> None:
    assert list(refused_words(text)) == ["1: 'put back'; expected restored"]


def test_other_words_pass() -> None:
    assert not list(refused_words("samples that the split excludes; besides, recommended"))
