"""Tests of the laboratory (`lab/`)."""

import subprocess
import sys

from tests import ROOT


def lab(*words: object) -> subprocess.CompletedProcess[str]:
    """`python -m lab` with these words, from the root of the repository."""
    command = [sys.executable, "-m", "lab", *map(str, words)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
