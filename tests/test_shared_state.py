"""State that all threads of a process share: each has a reason why threads may use it without a lock, or has a lock."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.source_tree import ROOT

REASONS = {
    "format/index/fresh_shard.py _touched": "setdefault and add are one step; at worst a line of the log comes twice",
    "format/records/row_file.py row_cache": "each change of its dicts is one step; see RowCache",
    "format/records/row_file.py serials": "next() of a count is one step",
    "pipeline/contract/dataset_methods.py _direct_loaders": "set when the modules are imported",
    "pipeline/contract/dataset_methods.py _thread": "each thread has its own",
    "pipeline/contract/iterated.py _warned": "at worst a warning comes twice",
    "pipeline/contract/rng.py _spare_generators": "append and pop are one step; an empty list is handled",
    "pipeline/failures/error_handlers.py _times": "numbers of lines of the log",
    "pipeline/worker_identity.py _thread": "each thread has its own",
    "samples/encoding/task_encoder.py _stage_builders": "set when the modules are imported",
    "samples/hooks.py _thread": "each worker has its own",
    "storage/file_lock.py _thread_locks": "setdefault is one step",
    "storage/node_cache/node_cache.py _caches": "changed under _lock",
    "storage/node_cache/node_cache.py _lock": "a lock",
    "storage/node_cache/node_cache.py _temporary": "changed under _lock",
    "storage/node_cache/node_cache.py _without_copies": "at worst a warning comes twice",
    "storage/remote/clients/choice.py _answered": "add is one step",
    "storage/remote/clients/choice.py _connections": "changed under _lock",
    "storage/remote/clients/choice.py _fetchers": "setdefault is one step",
    "storage/remote/clients/choice.py _has_used_rust": "changed under _lock",
    "storage/remote/clients/choice.py _is_forked_after_use": "changed after a fork, when there is one thread",
    "storage/remote/clients/choice.py _is_told": "set by the program",
    "storage/remote/clients/choice.py _lock": "a lock",
    "storage/remote/clients/hub/node_files.py _lock": "a lock",
    "storage/remote/clients/hub/node_files.py _opened": "changed under _lock",
    "storage/remote/clients/connection.py _is_command": "set before the command starts threads",
    "storage/remote/clients/helper_client.py _helper": "changed under _lock",
    "storage/remote/clients/helper_client.py _listings": "next() of a count is one step",
    "storage/remote/clients/helper_client.py _lock": "a lock",
    "storage/remote/clients/helper_client.py _of_parents": "changed after a fork, when there is one thread",
    "storage/remote/remote_storage.py _logged": "add is one step; at worst a line of the log comes twice",
    "stores/dataset_file_store.py _opened": "at worst a dataset is opened twice",
    "training/loaders/run.py _numbers": "numbers of log files, taken by the thread that makes a loader",
    "training/stats/profile.py _numbers": "next() of a count is one step",
    "training/workers/worker_process.py _processes": "add is one step; read in forked processes, which have one thread",
}
"""Names of modules that hold state, below ``loader/``."""

_FACTORIES = {
    "Counter", "ForkLock", "Lock", "OrderedDict", "RLock", "RowCache", "WeakKeyDictionary", "WeakSet",
    "WeakValueDictionary", "_Thread", "count", "defaultdict", "deque", "dict", "list", "local", "set",
}  # fmt: skip
_LAYERS = ("av", "format", "order", "pipeline", "samples", "storage", "stores", "training", "transport")


def _is_state(value: ast.expr | None) -> bool:
    """Return True for an empty container, or an object that changes."""
    if isinstance(value, ast.List | ast.Set):
        return not value.elts
    if isinstance(value, ast.Dict):
        return not value.keys
    if isinstance(value, ast.Call):
        function = value.func.value if isinstance(value.func, ast.Subscript) else value.func
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        return name in _FACTORIES
    return False


def shared_names(source: str) -> Iterator[str]:
    """Yield the names of a module's state: containers that are filled later, and names that functions assign."""
    tree = ast.parse(source)
    for statement in tree.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign) and _is_state(statement.value):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            yield from (target.id for target in targets if isinstance(target, ast.Name) and target.id != "__all__")
    for node in ast.walk(tree):
        if isinstance(node, ast.Global):
            yield from node.names


def test_names_of_state_are_found() -> None:
    source = "a = []\nb: dict[str, int] = {}\nc = [1]\nd = threading.RLock()\n__all__ = []\ndef f():\n    global e\n"
    assert [*shared_names(source)] == ["a", "b", "d", "e"]


def test_each_state_that_threads_share_has_a_reason() -> None:
    found = set()
    for path in sorted((ROOT / "loader").rglob("*.py")):
        place = path.relative_to(ROOT)
        if place.parts[0] == "loader" and place.parts[1] in _LAYERS:
            names = shared_names(path.read_text(encoding="utf-8"))
            found |= {f"{'/'.join(place.parts[1:])} {name}" for name in names}
    assert found == REASONS.keys()
