"""Tests with a real language model: `make test-llm`.

They need the model's file, 1.1 GB, in `CORDBOARD_LANGUAGE_MODEL`; without it none of them is
collected, and the end of each run says so (tests/conftest.py).
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def model_file() -> Path:
    """The GGUF file."""
    path = Path(os.environ["CORDBOARD_LANGUAGE_MODEL"])
    assert path.is_file(), f"there is no file {path}"
    return path
