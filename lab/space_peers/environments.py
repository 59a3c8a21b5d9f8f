"""One virtual environment for each peer, made once, with pinned versions.

They lie in the folder that the variable NELSON_BENCH_PEERS names (`--peers` sets it), otherwise in
the cache folder of the user. An environment is used again while its file `installed.txt` names the
same packages. Installing has a time limit. A peer that does not install is left out, and the
reason is shown.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import platformdirs

PACKAGES: dict[str, tuple[str, ...]] = {
    "pyvsc": ("pyvsc==1.0.0", "dv-solve==0.2.5"),
    "constrainedrandom": ("constrainedrandom==1.3.0",),
    "cpmpy": ("cpmpy==1.1.1", "ortools==9.15.6755"),
    "z3": ("z3-solver==5.4.0.0",),
    "constraint": ("python-constraint2==2.9.0",),
    "sdv": ("sdv==2.0.0", "torch==2.13.0"),
}
INSTALL_SECONDS = 900
#: Address space of a peer, so that one that wants to list everything fails instead of the machine.
MEMORY_BYTES = 16 << 30
HERE = Path(__file__).parent


class PeerMissing(Exception):
    """The peer cannot be used; the text says why."""


def folder() -> Path:
    named = os.environ.get("NELSON_BENCH_PEERS")
    return Path(named) if named else platformdirs.user_cache_path("nelson") / "benchmark-peers"


def python_of(name: str, where: Path) -> str:
    """The interpreter of the environment of a peer, made now if it does not exist."""
    if name == "numpy":
        return sys.executable
    place, wanted = where / name, "\n".join(PACKAGES[name])
    marker, python = place / "installed.txt", place / "bin" / "python"
    if marker.exists() and marker.read_text() == wanted:
        return str(python)
    shutil.rmtree(place, ignore_errors=True)
    steps = (
        [sys.executable, "-m", "venv", str(place)],
        [str(python), "-m", "pip", "install", "--quiet", *PACKAGES[name]],
    )
    try:
        for step in steps:
            subprocess.run(
                step, check=True, capture_output=True, text=True, timeout=INSTALL_SECONDS
            )
    except subprocess.TimeoutExpired:
        raise PeerMissing(f"not installed after {INSTALL_SECONDS} s") from None
    except subprocess.CalledProcessError as error:
        raise PeerMissing(f"does not install: {_last_line(error.stderr)}") from None
    marker.write_text(wanted)
    return str(python)


def run(name: str, where: Path, arguments: list[str], seconds: float) -> dict[str, Any]:
    """Run the program of a peer and return its line of JSON."""
    command = [python_of(name, where), str(HERE / f"draw_{name}.py"), *arguments]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=seconds,
            preexec_fn=_limit_memory,
            env={**os.environ, "PYTHONPATH": "", "PYTHONHASHSEED": "0"},
        )
    except subprocess.TimeoutExpired:
        raise PeerMissing(f"no answer after {seconds:.0f} s") from None
    if done.returncode:
        raise PeerMissing(f"failed: {_last_line(done.stderr)}")
    answer = json.loads(done.stdout.splitlines()[-1])
    if "missing" in answer:
        raise PeerMissing(answer["missing"])
    return answer


def _limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))


def _last_line(text: str) -> str:
    lines = [line for line in (text or "").splitlines() if line.strip()]
    return lines[-1][:120] if lines else "no message"
