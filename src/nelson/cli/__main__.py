"""`python -m nelson.cli`: the command line where the `nelson` script is not on the path."""

from nelson.cli import main

main()
