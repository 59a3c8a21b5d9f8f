"""The machine of a run (processor, memory, system, GPU) and the versions of packages."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path

import nelson
import nelson_paper
from nelson.kernels.core.threads import usable_cores

#: Distributions whose versions are listed, by their names on PyPI.
PACKAGES = (
    "numpy", "numba", "scipy", "torch", "networkx", "matplotlib", "pyarrow", "python-sat",
    "d4solver", "pyganak", "pycmsgen", "pyunigen", "pycryptosat", "ray",
)  # fmt: skip


def machine() -> dict[str, str]:
    """Processor, cores, memory, system, GPU, and how busy the machine is."""
    return {
        "processor": processor(),
        "cores": f"{usable_cores()} of {os.cpu_count()}",
        "memory": _memory(),
        "system": _system(),
        "GPU": _gpu(),
        "load": f"{load():.1f} (programs that ran or waited to run, in the minute before)",
    }


def load() -> float:
    """The mean number of programs that ran or waited to run in the last minute; 0 if unknown."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0


def versions() -> dict[str, str]:
    """Versions of nelson (with a digest of its source), Python and the packages."""
    told = {"nelson": nelson.__version__, "source": source(), "python": platform.python_version()}
    for name in PACKAGES:
        try:
            told[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            told[name] = "not installed"
    return told


def source() -> str:
    """Twelve hex digits of a hash of all source files of nelson and nelson_paper."""
    digest = hashlib.sha256()
    for home in (Path(nelson.__file__).parent, Path(nelson_paper.__file__).parent):
        for path in sorted(home.rglob("*.py")):
            digest.update(path.relative_to(home).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


def processor() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            for line in file:
                name, _, value = line.partition(":")
                if name.strip() == "model name":
                    return " ".join(value.split())
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _memory() -> str:
    try:
        size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return "unknown"
    return f"{size / 2**30:.1f} GiB"


def _system() -> str:
    try:
        name = platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return platform.platform()
    return f"{name}, {platform.system()} {platform.release()}, {platform.machine()}"


def _gpu() -> str:
    command = [
        "nvidia-smi",
        "--query-gpu=name,memory.total,driver_version",
        "--format=csv,noheader",
    ]
    try:
        said = subprocess.run(
            command, capture_output=True, text=True, timeout=20, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return "none"
    return "; ".join(line.strip() for line in said.splitlines() if line.strip()) or "none"
