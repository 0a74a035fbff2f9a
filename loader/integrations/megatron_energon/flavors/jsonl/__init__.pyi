# Written by tests/unit/integrations/test_megatron_energon.py from alias_modules.py.
from loader import CrudeJsonlDatasetFactory as CrudeJsonlDatasetFactory
from loader import DefaultCrudeJsonlDatasetFactory as DefaultCrudeJsonlDatasetFactory
