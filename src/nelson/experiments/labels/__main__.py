"""`python -m nelson.experiments.labels [NAME...]`: run families and print each as it ends."""

import sys

from nelson.experiments.labels import run_all

if __name__ == "__main__":
    run_all(sys.argv[1:] or None)
