"""What runs in a child process (`nelson.process.child`): one plain script for each package.

A script imports its package inside a function, and of nelson only modules without dependencies: a
child process starts fast. Here is how scripts read clauses and send rows.
"""

import array
import time

#: Seconds of work in one message: as much as a killed child may lose.
SECONDS = 0.2


def clauses(data):
    """int32 bytes, each clause ending in 0 -> lists of literals."""
    lists, clause = [], []
    for literal in array.array("i", data):
        if literal:
            clause.append(literal)
        else:
            lists.append(clause)
            clause = []
    return lists


def sent(rows):
    """Rows (bytes) as messages {"rows": ...}, one about every SECONDS."""
    batch, last = [], time.monotonic()
    for row in rows:
        batch.append(row)
        if time.monotonic() - last > SECONDS:
            yield {"rows": b"".join(batch)}
            batch, last = [], time.monotonic()
    yield {"rows": b"".join(batch)}
