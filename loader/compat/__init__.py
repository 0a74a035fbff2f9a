"""Dataset classes and names for code written for megatron-energon: see ``docs/explanation/compatibility.md``."""
