from loader.samples.keyword_dataclass import edataclass

__all__ = ["edataclass"]
