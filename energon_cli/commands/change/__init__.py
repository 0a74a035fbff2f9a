"""Change or copy a dataset: ``exclude``, ``split``, ``merge``, ``add-parts``, ``reshard``, ``extract``, ``export``."""
