from loader.samples.sample_dataclass import edataclass

__all__ = ["edataclass"]
