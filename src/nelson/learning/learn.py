"""NELSON-CD: fit theta to examples of valid structures.

The log-likelihood of examples under P_theta(x | C) = exp(theta . x) C(x) / Z is concave, and

    theta <- theta + eta (E_data[x] - E_model[x])

climbs it (Algorithm 2 of Jiang, Gu, Xue, AAAI 2023, with the sign corrected: docs/errata.md, 1).
E_model is a mean over samples of the present theta, all of them valid; for unary potentials it is a
popcount over packed bits.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from nelson.budget import Budget
from nelson.errors import FormulaError
from nelson.formula import Formula
from nelson.formula.checks import checked_theta, evidence_literals
from nelson.learning.conditional import Conditional
from nelson.learning.data import Examples, load_examples
from nelson.learning.draw import Custom
from nelson.learning.group import ProcessGroup
from nelson.learning.learner import Learner
from nelson.learning.loop import Loop, Outcome
from nelson.learning.metrics import Likelihood
from nelson.learning.model import Model
from nelson.learning.optimizers import Network, Proximal, optimizer_of
from nelson.learning.run_options import Run
from nelson.learning.terms import Products, coefficients, lifted, steps_of
from nelson.pictures import agreement, bars, figure, noise
from nelson.sampling.samples import Samples


@dataclass(eq=False, repr=False)
class Fit(Outcome):
    """The result of `learn`.

    model       formula and theta, or net: what was learned
    history     one dict for each iteration; see `History` for tables, files and the picture
    converged   was the gap between data and model moments within its noise at the end, and were the
                samples better than heuristic
    why         the same in words, with the figures of the test
    guarantee   the weakest guarantee of the samples that were used
    info        method and sweeps of the last samples, and how they were chosen
    """

    model: Model

    @property
    def theta(self) -> np.ndarray | None:
        """(n,) float64; None for a conditional model, where theta = net(context)."""
        return self.model.theta

    @property
    def terms(self) -> dict[tuple[int, ...], float] | None:
        """The coefficient of each product, if products were learned."""
        return self.model.terms

    @property
    def formula(self) -> Formula:
        return self.model.formula

    @property
    def net(self) -> Any:
        return self.model.net

    @property
    def mrf(self) -> Any:
        """The fitted `nelson.ConstrainedMRF` (needs torch)."""
        return self.model.mrf

    def sample(self, n: int = 1, **options: Any) -> Samples:
        """New structures: see `Model.sample`."""
        return self.model.sample(n, **options)

    def log_likelihood(self, data: Any, **options: Any) -> Likelihood:
        """Mean log P(x) over examples, with its error: see `Model.log_likelihood`."""
        return self.model.log_likelihood(data, **options)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a model folder for `nelson.load`, with the history in it."""
        self.model.save(path, {"history.csv": self.history.as_csv()})

    def plot(
        self, path: str | os.PathLike[str] | None = None, *, examples: Any = None, seed: int = 0
    ) -> Any:
        """A picture: the learning curves, the largest weights, and, with `examples`, how new
        structures compare with them.

        path      a file to write: .png, .svg or .pdf
        examples  rows to compare with, (N, n) 0/1 or `Samples`: shares of all variables and pairs
        seed      of the new structures, of which there are as many as examples, up to 100,000

        Returns the matplotlib figure.
        """
        drawn = self.history.panels()
        names = self.model.names or tuple(map(str, range(1, self.formula.n_vars + 1)))
        if self.theta is not None:
            most = np.argsort(-np.abs(self.theta), kind="stable")[:24]
            title = (
                "Weights" if len(most) == len(self.theta) else f"The {len(most)} largest weights"
            )
            drawn.append(
                bars([names[k] for k in most], self.theta[most], x="log-odds θ", title=title)
            )
        if examples is not None:
            old = np.asarray(examples, np.float32)
            count = min(len(old), 100_000)
            new = self.sample(count, seed=seed).to_numpy().astype(np.float32)
            seen, said = ((x.T @ x / len(x))[np.triu_indices(x.shape[1])] for x in (new, old))
            pooled = (seen * len(new) + said * len(old)) / (len(new) + len(old))
            error = np.sqrt(noise(pooled, len(new)) ** 2 + noise(pooled, len(old)) ** 2)
            drawn.append(
                agreement(
                    said,
                    seen,
                    error,
                    x="share in the examples",
                    y=f"share in {len(new):,} new structures",
                    title="Variables and pairs",
                )
            )
        return figure(drawn, path)

    def __repr__(self) -> str:
        end = "converged" if self.converged else "not converged"
        return f"Fit({self.formula!r}, {len(self.history)} iterations, {end})"


def learn(
    formula: Formula,
    data: Any,
    *,
    given: Any = None,
    optimizer: Any = None,
    method: str | Custom = "auto",
    theta0: Any = None,
    contexts: Any = None,
    net: Any = None,
    terms: str | Iterable[Iterable[int]] | None = None,
    valid: Any = None,
    drop_invalid: bool = False,
    seed: int | None = None,
    threads: int | None = None,
    device: Any = None,
    seconds: float | None = None,
    run: Run | None = None,
) -> Fit:
    """Maximise the likelihood of `data`, (N, n) zeros and ones, every row valid.

    data        array, DataFrame, `Samples`, or a path: .npy, .npz, .parquet, .csv, SAT-sampler
                text. Invalid rows are an error that lists them; `drop_invalid` leaves them out.
    given       evidence, {3: True} or literals: the law given a partial assignment is learned.
    optimizer   `nelson.learning.Newton(...)` (the default), `Adam(...)`, `SGD(...)`, or a name:
                "newton", "adam", "sgd", or "paper", Algorithm 2 as published (m=200, rate=0.1,
                1,000 iterations, plain SGD, Algorithm 1's samples without sweeps). Their fields
                set step size, samples, iterations, prior, bound, sweeps and the stopping test.
    method      "auto", a name of `nelson.samplers()`, or f(formula, theta, m, seed) -> (m, n) bool.
    theta0      where to start; None: near the maximum.
    contexts, net: a conditional model, theta = net(context): contexts (N, ...) has one row for each
                example, net is an nn.Module that gives n numbers a row. `optimizer` is then a
                `nelson.learning.Network(...)`, or a function f(parameters) -> torch optimizer.
    terms       products of variables, [(1, 2), (2, 3, 5)]: learn a coefficient for each as well;
                see `fit.terms`. "pairs": all pairs of variables in different fields (a field is a
                group of variables of which at most one is true). Give no `method`: samples are
                exact if the formula with its products compiles, else from persistent chains.
                `optimizer=nelson.learning.Proximal(l1=..., l2=...)` penalises their coefficients;
                it is the default for "pairs" and with validation examples.
    valid       validation examples, as `data`; None with terms="pairs": every fifth row of data.
    seed        same seed, same theta, on any number of threads.
    device      where samples are drawn, as in `nelson.sample`; it never changes the result.
    seconds     time budget; if it ends the run, `why` says so.
    run         `nelson.learning.Run(...)`: checkpoints, progress, TensorBoard, a callback, ranks.

    Ctrl-C ends the run with what has been learned so far. Cost: the samples, n^2 m / 128 word
    operations and some tens of n^2 for the curvature (n <= 1024); about 15 iterations.

    >>> formula = nelson.Formula([[1, 2], [-1, 3]])
    >>> examples = nelson.sample(formula, [1.0, -1.0, 0.0], 20_000, seed=0)
    >>> fit = nelson.learn(formula, examples, seed=0)
    >>> fit.theta.round(1)
    array([ 0.9, -1. ,  0. ])
    >>> fit.sample(5, seed=1).to_numpy().shape  # new structures
    (5, 3)
    """
    budget, options, started = Budget.of(seconds, threads), run or Run(), time.monotonic()
    _check(contexts, net, terms, method, options.group, valid)
    penalised = isinstance(optimizer, Proximal) or isinstance(terms, str) or valid is not None
    settings = optimizer_of(optimizer, network=net is not None, penalised=penalised)
    if penalised and terms is None:
        raise FormulaError("Proximal without terms", expected="terms as well")
    if given is not None:
        formula = formula.given(evidence_literals(given, formula.n_vars))
    shape = None if terms is None else lifted(formula, terms)
    with budget.enforced():
        examples = load_examples(formula, data, drop_invalid)
    whole = formula if shape is None else shape.formula
    start = None if theta0 is None else checked_theta(_array(theta0), whole.n_vars)
    learner: Learner
    if net is not None:
        assert isinstance(settings, Network)  # `optimizer_of` has refused all others
        learner = Conditional(formula, examples, settings, net, contexts)
    elif shape is not None:
        check = None if valid is None else load_examples(formula, valid, drop_invalid)
        if check is None and isinstance(terms, str):
            examples, check = examples.split(every=5)
        products = Products(formula, shape, examples, check, settings, budget)
        learner, method = products.learner(start), products.sampler
    else:
        learner = steps_of(formula, examples, settings, start)
    loop = Loop(learner, method, seed=seed, budget=budget, device=device, options=options)
    outcome = loop.outcome()
    theta, coefficient = learner.result(), None
    if shape is not None and theta is not None:
        coefficient = {m: c for m, c in coefficients(shape, theta).items() if c or not penalised}
        theta = theta[: formula.n_vars]
    metadata = {
        **_provenance(examples, outcome),
        "settings": settings.to_dict(),
        "seconds": round(time.monotonic() - started, 3),
    }
    model = Model(formula, theta, examples.names, metadata, net, coefficient)
    return Fit(**vars(outcome), model=model)


def _check(
    contexts: Any, net: Any, terms: Any, method: Any, group: ProcessGroup, valid: Any
) -> None:
    """Refuse arguments that contradict each other."""
    if terms is None and valid is not None:
        raise FormulaError("valid without terms", expected="terms as well")
    if (contexts is None) != (net is None):
        raise FormulaError("contexts without net, or net without contexts", expected="both")
    if terms is not None and (net is not None or method != "auto"):
        raise FormulaError("terms with net or method", expected="terms alone")
    if net is not None and callable(method):
        raise FormulaError("a function as method of a net", expected="the name of a sampler")
    if net is not None and group.size > 1:
        raise FormulaError("net on several ranks", expected="theta as one vector, or one process")


def _provenance(examples: Examples, outcome: Outcome) -> dict[str, Any]:
    return {
        "examples": examples.count,
        "data": examples.source,
        "dropped": examples.dropped,
        "iterations": len(outcome.history),
        "converged": outcome.converged,
        "why": outcome.why,
        "seed": outcome.seed,
        "method": outcome.info["method"],
        "sweeps": outcome.info["sweeps"],
        "guarantee": outcome.guarantee,
    }


def _array(theta: Any) -> Any:
    return theta.detach().cpu().numpy() if hasattr(theta, "detach") else theta
