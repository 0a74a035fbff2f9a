# Written by tests/unit/compat/test_megatron_energon.py from alias_modules.py.
from loader.compat.aggregator_pool import AggregatorPool as AggregatorPool
from loader.compat.aggregator_pool import BaseAggregator as BaseAggregator
