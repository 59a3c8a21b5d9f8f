"""Tests, in the folders of `src/nelson`; shared problems with known answers are in `problems`."""

from pathlib import Path

#: Root of the repository.
ROOT = Path(__file__).resolve().parents[1]
