# Written by tests/unit/compat/test_megatron_energon.py from alias_modules.py.
from loader.compat.fork_hook import DataclassForkMixin as DataclassForkMixin
from loader.compat.fork_hook import ForkMixin as ForkMixin
from loader.compat.fork_hook import WeakCallbacks as WeakCallbacks
from loader.compat.fork_hook import after_in_child_fork_hook as after_in_child_fork_hook
from loader.compat.fork_hook import after_in_parent_fork_hook as after_in_parent_fork_hook
from loader.compat.fork_hook import before_fork_hook as before_fork_hook
