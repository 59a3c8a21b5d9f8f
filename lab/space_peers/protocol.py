"""What every program of a peer shares: arguments in, rows and one line of JSON out.

    python draw_PEER.py PROBLEM SECONDS ROWS SEED FILE [OPTION]

draws at most ROWS rows of PROBLEM and stops SECONDS after the first row. FILE receives the rows as
int64 numbers, row after row, in the order of the columns in `problems.py`. The line of JSON says
how many rows there are, and how long the first row and all rows took. Both are CPU times, because
they hardly depend on what else the machine does; building the model counts, imports do not. A
problem that the peer cannot do is answered by `{"missing": reason}`. This file uses only the
standard library, because an environment contains the peer and what the peer needs, nothing else.
"""

from __future__ import annotations

import json
import sys
import time
from array import array
from collections.abc import Callable, Iterable, Mapping

#: Columns of each problem.
WIDTHS = {"bus": 4, "shares": 4, "bus32": 4, "four": 8, "eight": 16}
#: Bits of an address of the bus, and the number of transactions in a row.
BITS = {"bus": 16, "shares": 16, "bus32": 32}
TRANSACTIONS = {"four": 4, "eight": 8}
#: The asked shares of FIXED, INCR and WRAP in the problem "shares".
SHARES = (0.6, 0.3, 0.1)


class Missing(Exception):
    """The peer cannot do this problem; the text says why."""


#: A row as numbers, or a block of rows as the bytes of int64 numbers.
Drawn = Iterable[int] | bytes
#: (problem, seed, option) -> rows, one after the other or in blocks, without end.
Draw = Callable[[str, int, str], Iterable[Drawn]]


def serve(draws: Mapping[str, Draw]) -> None:
    """Answer one call: `draws` has one function for each problem."""
    problem, seconds, most, seed, file = sys.argv[1:6]
    option = sys.argv[6] if len(sys.argv) > 6 else ""
    limit, numbers = float(seconds), array("q")
    wanted = int(most) * WIDTHS[problem]
    started, first, deadline = time.process_time(), 0.0, float("inf")
    try:
        for drawn in draws[problem](problem, int(seed), option):
            if isinstance(drawn, bytes):
                numbers.frombytes(drawn)
            else:
                numbers.extend(drawn)
            if not first and numbers:
                first = time.process_time() - started
                # CPU time as the limit, and three times as long on the clock of the wall.
                limit, deadline = first + limit, time.perf_counter() + 3 * limit
            passed = time.process_time() - started
            if len(numbers) >= wanted or passed > limit or time.perf_counter() > deadline:
                break
    except Missing as why:
        print(json.dumps({"missing": str(why)}))
        return
    total = time.process_time() - started
    del numbers[wanted:]
    with open(file, "wb") as out:
        numbers.tofile(out)
    rows = len(numbers) // WIDTHS[problem]
    print(json.dumps({"rows": rows, "first": first, "seconds": total}))
