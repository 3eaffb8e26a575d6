"""The files of Multi30k, where a variable names their folder."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def multi30k_folder() -> Path:
    """The folder of the real files."""
    folder = os.environ.get("LNTUTOR_MULTI30K")
    if not folder:
        pytest.skip("LNTUTOR_MULTI30K names no folder: Multi30k may not be passed on, so it is not in the project")
    return Path(folder)
