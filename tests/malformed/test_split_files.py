"""Refuse split files made to crash, to fill the memory or to run code."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from loader.errors import ConfigError
from loader.format.documents.split_config import parse_split_config

LAUGHS = "\n".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]" for n in range(1, 12))
MERGES = "\n".join(f"m{n}: &m{n} {{<<: [{', '.join([f'*m{n - 1}'] * 10)}]}}" for n in range(1, 12))

ATTACKS = {
    "a range of a trillion": "split_parts: {train: ['s_{0..999999999999}.tar']}",
    "a product of ranges": f"split_parts: {{train: ['{'{0..999}' * 9}']}}",
    "a nested product of ranges": f"split_parts: {{train: ['{{{'{0..999}' * 9}}}']}}",
    "nested lists": f"split_parts: {{train: ['{'{a,' * 60}b{'}' * 60}']}}",
    "braces without end": f"split_parts: {{train: ['{'{' * 100_000}']}}",
    "pairs of braces without end": f"split_parts: {{train: ['{'{' * 100_000}{'}' * 100_000}']}}",
    "numbers of a megabyte": f"split_parts: {{train: ['{{0..{'9' * 1_000_000}}}']}}",
    "padding of a kilobyte": f"split_parts: {{train: ['{{{'0' * 1000}1..999999}}']}}",
    "a step of a megabyte": f"split_parts: {{train: ['{{0..9..{'9' * 1_000_000}}}']}}",
    "a letter step of a megabyte": f"split_parts: {{train: ['{{a..z..{'9' * 1_000_000}}}']}}",
    "a name of a megabyte, often": f"split_parts: {{train: ['{'x' * 1_000_000}{{0..99999}}']}}",
    "a trillion excluded samples": "split_parts: {}\nexclude: ['s.tar/{0..999999999999}']",
    "many patterns just below the limit": "split_parts: {train: ["
    + ", ".join(f"'{n}_{{000000..999998}}'" for n in range(99))
    + "]}",
    "a billion laughs": f"l0: &l0 [ha]\n{LAUGHS}\nsplit_parts: {{train: *l11}}",
    "a billion merges": f"m0: &m0 {{ha: ha}}\n{MERGES}\nsplit_parts: *m11",
    "a list within itself": "split_parts: &s {train: *s}",
    "brackets without end": "split_parts: " + "[" * 200_000,
    "dashes without end": "- " * 200_000,
    "an object": "split_parts: !!python/object/apply:os.system ['touch /tmp/owned']",
    "a module": "split_parts: !!python/module:os",
    "a tag of its own": "split_parts: !x {train: [a.tar]}",
    "NULs": "split_parts: {train: ['a\0b']}",
    "two documents": "split_parts: {}\n---\nsplit_parts: {}",
    "a key of a list": "split_parts: {[a, b]: [c]}",
    "a date that is none": "split_parts: {train: [2024-99-99]}",
    "an infinite number": "split_parts: {train: [.inf, 1e999, 0x" + "f" * 5000 + "]}",
    "infinite keys": "split_parts: {.inf: [], 0x" + "f" * 5000 + ": []}\n0x" + "f" * 5000 + ": x",
    "keys of a kilobyte": "split_parts: {? '" + "k" * 50_000 + "': 3}\n? '" + "k" * 50_000 + "'\n: x",
    "an undefined reference": "split_parts: *nothing",
}

RUN = """
import json, os, resource, sys
from loader.errors import ConfigError
from loader.format.documents.split_config import parse_split_config
for name, text in json.load(sys.stdin).items():
    if process := os.fork():
        status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        print(json.dumps([name, status]), flush=True)
        continue
    resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
    resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
    try:
        parse_split_config(text, file="split.yaml")
    except ConfigError as error:
        os._exit(0 if len(str(error)) < 20_000 else 3)
    os._exit(4)
"""


def test_an_attack_is_refused_with_a_short_message_within_a_gigabyte() -> None:
    """One process that has imported the reader forks for each attack."""
    command = [sys.executable, "-c", RUN]
    run = subprocess.run(command, input=json.dumps(ATTACKS), capture_output=True, text=True, check=True)
    statuses = dict(json.loads(line) for line in run.stdout.splitlines())
    assert statuses == dict.fromkeys(ATTACKS, 0), run.stderr[-500:]


@pytest.mark.parametrize(
    "text", ["[" * 200_000, '{"split_parts":' * 50_000, "\0", "\ufeff{}", '{"a": NaN}', "9" * 5000]
)
def test_json_that_is_no_split_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_split_config(text, file="split.json")
