"""Runs alone, as a script in a process of its own: a counter or compiler under hard limits.

Nothing of nelson (nor NumPy) is imported: the process starts fast, and what blows up here dies
here. Standard input holds one JSON object,

    {"method": "count" | "circuit", "memory": bytes, "seconds": s,
     "problems": [{"n": n, "clauses": [[...]], "weights": [[w(x=0), w(x=1)], ...]}, ...]}

and standard output one JSON line a problem, in the same order, each as soon as it is done:
{"log": log P} or {"unsatisfiable": true} or {"nnf": text} or {"error": text}. Solvers print to
standard output too: they get /dev/null. The limits hold even if the parent is gone.
"""

import json
import math
import os
import sys

#: exp of this is well inside the range of a double; weights are scaled by it against underflow.
SHIFT = 650.0
#: Bytes of a page of D4's cache. Its own defaults are 4 GiB and 512 MiB.
PAGE = 1 << 26
#: Address space that a method reserves and does not use: D4 maps 1.8 GiB at once.
RESERVED = {"count": 0, "circuit": 2 << 30}


def limit(memory, seconds):
    try:
        import resource
    except ImportError:  # no such limits on this system: the parent's clock is the only one
        return
    for kind, value in (
        (resource.RLIMIT_AS, int(memory)),
        (resource.RLIMIT_CPU, math.ceil(seconds) + 1),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(kind)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (value, value))


def count(problem):
    """log P by weighted model counting: 128-bit floats inside, a double at the end.

    A SAT solver is asked first: ganak 2.8 takes most of a minute for the pigeonhole formula of 12
    variables, and a count of 0 is then known to be underflow.
    """
    from pyganak import WeightedCounter
    from pysat.solvers import Solver

    n, clauses, weights = problem["n"], problem["clauses"], problem["weights"]
    with Solver(name="glucose4", bootstrap_with=clauses) as solver:
        if not solver.solve():
            return {"unsatisfiable": True}
    shift, most = 0.0, -sum(math.log(min(pair)) for pair in weights)
    while shift <= most + SHIFT:
        scale = math.exp(shift / n)
        counter = WeightedCounter()
        counter.new_vars(n)
        for v, (off, on) in enumerate(weights, 1):
            counter.set_lit_weight(v, on * scale)
            counter.set_lit_weight(-v, off * scale)
        counter.add_clauses(clauses)
        value = counter.count()
        if value > 0 and math.isfinite(value):
            return {"log": math.log(value) - shift}
        shift += SHIFT
    return {"error": f"ganak returned {value!r}"}


def circuit(problem):
    """The d-DNNF that D4 compiles, as text."""
    import py_d4

    options = py_d4.load_options_from_dict(
        {"cache": {"bucket": {"sizeFirstPage": PAGE, "sizeAdditionalPage": PAGE}}}
    )
    return {"nnf": py_d4.Solver(problem["clauses"], problem["n"], options).compile().getNNFString()}


def main():
    out = os.fdopen(os.dup(1), "w")
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    task = json.load(sys.stdin)
    limit(task["memory"] + RESERVED[task["method"]], task["seconds"])
    solve = {"count": count, "circuit": circuit}[task["method"]]
    for problem in task["problems"]:
        try:
            answer = solve(problem)
        except MemoryError:
            answer = {"error": "out of memory"}
        except Exception as error:  # the parent reports it
            exhausted = "bad_alloc" in str(error)
            said = "out of memory" if exhausted else f"{type(error).__name__}: {error}"
            answer = {"error": said}
        out.write(json.dumps(answer) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
