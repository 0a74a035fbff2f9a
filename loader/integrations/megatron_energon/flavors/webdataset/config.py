from loader.format.nv_meta import FOLDER as MAIN_FOLDER_NAME

__all__ = ["MAIN_FOLDER_NAME"]
