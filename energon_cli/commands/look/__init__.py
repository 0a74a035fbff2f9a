"""Look at a dataset: ``info``, ``rule``, ``stats``, ``get``, ``diff``, ``mount``, ``preview`` and ``browse``."""
