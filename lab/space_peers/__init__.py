"""Problems with named fields, and one small program for each peer that draws rows of them.

A program `draw_*.py` runs in the environment of its peer, imports nothing of nelson, and speaks the
protocol in `protocol.py`. `problems.py` says what the problems are, `table.py` describes the table.
"""
