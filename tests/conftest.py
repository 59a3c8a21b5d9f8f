"""For all tests: Hypothesis draws the same examples in every run, and times nothing. Where there is
no GPU, CUDA kernels run in Numba's simulator.
"""

import os
import shutil

from hypothesis import settings

HAS_GPU = shutil.which("nvidia-smi") is not None
if not HAS_GPU:  # before Numba is imported
    os.environ["NUMBA_ENABLE_CUDASIM"] = "1"

settings.register_profile("nelson", derandomize=True, deadline=None)
settings.load_profile("nelson")
