"""`python -m lab.labels [NAME...]`: run families and print each as it ends."""

import sys

from lab.labels import run_all

if __name__ == "__main__":
    run_all(sys.argv[1:] or None)
