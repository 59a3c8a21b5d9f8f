"""`python tools/build_kernels.py`: compile the kernels that a wheel brings, for each level of x86.

A process for each level, two at a time, calls every common method once (the steps of `nelson cache
--warm`). Numba compiles for the level as if this processor had nothing more. The machine code lies
in the user's cache folder, so a second build of the same sources takes no time, and is copied into
`src/nelson/kernels/built`, where `nelson.kernels.core.built_kernels` reads it. A level that this
processor lacks is left out, loudly: its kernels could not be called.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from nelson.kernels.core import built_kernels, kernel_cache
from nelson.kernels.core.folders import cache_folder, private_folder


def usable_levels() -> list[str]:
    """The levels that this processor has; a warning for each of the others."""
    from llvmlite.binding import get_default_triple, get_host_cpu_features

    if not get_default_triple().startswith("x86_64"):
        print("*** WARNING: kernels are built for x86-64 only: none are built here.")
        return []
    have, levels = get_host_cpu_features(), []
    for level in built_kernels.LEVELS:
        if built_kernels.usable(level, have):
            levels.append(level)
        else:
            print(f"*** WARNING: this processor is no {level}: its kernels are not built.")
    return levels


def compiling(level: str, place: Path) -> subprocess.Popen[bytes]:
    """The process that compiles the kernels of a level into a folder."""
    environment = os.environ | {
        "NUMBA_CPU_NAME": level,
        "NUMBA_CPU_FEATURES": built_kernels.features(level),
        "NUMBA_CACHE_DIR": str(place),
    }
    command = [sys.executable, "-m", "nelson.cli", "cache", "--warm", "--quiet"]
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)


def main() -> None:
    begun = time.monotonic()
    shutil.rmtree(kernel_cache.BUILT, ignore_errors=True)
    work = {level: private_folder(cache_folder() / "built" / level) for level in usable_levels()}
    processes = {level: compiling(level, place) for level, place in work.items()}
    failed = [level for level, process in processes.items() if process.wait()]
    if failed:
        sys.exit(f"the kernels of {', '.join(failed)} could not be compiled")
    for level, place in work.items():
        shutil.copytree(place / kernel_cache.folder_name(), built_kernels.folder(level))
        files = [file for file in built_kernels.folder(level).rglob("*") if file.is_file()]
        size = sum(file.stat().st_size for file in files)
        kernels = sum(file.suffix == ".nbc" for file in files)
        seconds = time.monotonic() - begun
        print(f"{level}: {kernels} kernels, {size / 2**20:.1f} MiB, after {seconds:.0f} s")


if __name__ == "__main__":
    main()
