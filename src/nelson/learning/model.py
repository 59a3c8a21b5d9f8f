"""A model is a folder, and loads without unpickling anything.

    theta.safetensors   theta, (n,) float64; net.safetensors holds a network's weights
    formula.cnf         the constraints, DIMACS
    model.json          names, how the model was trained, the result of the stopping test
    history.csv         one line for each iteration
    README.md           a summary for people

P_theta(x | C) = exp(sum_i theta_i x_i) C(x) / Z.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from nelson._version import __version__
from nelson.errors import FormulaError, NelsonError
from nelson.formula import Formula
from nelson.formula.checks import count
from nelson.formula.encode import Linear, Xor, checked_constraints
from nelson.formula.polynomial import lift
from nelson.io import atomic
from nelson.learning.checkpoint import pack_tensors, unpack_tensors
from nelson.learning.data import load_examples
from nelson.learning.metrics import Likelihood, log_likelihood
from nelson.sampling.sample_stream import sample
from nelson.sampling.samples import Samples

_FORMAT = 1
_JSON, _THETA, _NET = "model.json", "theta.safetensors", "net.safetensors"


@dataclass(eq=False)
class Model:
    """A formula and theta, (n,) float64. A conditional model has a torch `net` instead of theta.

    terms: coefficients of products of variables, {(1, 2): 0.7}, added to theta . x.

    >>> model = nelson.Model(nelson.Formula([[1, 2], [-1, 3]]), np.array([1.0, -1.0, 0.0]))
    >>> model.sample(1000, seed=0).guarantee
    'exact'
    >>> model.save("model")  # `nelson.load` reads it
    """

    formula: Formula
    theta: np.ndarray | None
    names: tuple[str, ...] | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    net: Any = None
    terms: dict[tuple[int, ...], float] | None = None

    @property
    def mrf(self) -> Any:
        """`nelson.ConstrainedMRF`: the model as a torch distribution.

        With terms it is over the lifted formula: the products are further variables, at the end.
        """
        import torch

        from nelson.distribution.mrf import ConstrainedMRF  # loads torch

        if self.terms:
            lifted = lift(self.formula, self.terms, self.theta_for())
            return ConstrainedMRF(lifted.formula, torch.as_tensor(lifted.theta))
        return ConstrainedMRF(self.formula, torch.as_tensor(self.theta_for()), names=self.names)

    def theta_for(self, contexts: Any = None) -> np.ndarray:
        """theta, (n,); for a conditional model net(contexts), (contexts, n) float64."""
        if contexts is None:
            if self.theta is None:
                raise NelsonError("this model is conditional (theta = net(context)): give contexts")
            return self.theta
        if self.net is None:
            raise NelsonError("this model has no network: its theta is one vector")
        import torch

        with torch.no_grad():
            rows = self.net(torch.as_tensor(contexts, dtype=torch.float32))
        return rows.double().cpu().numpy()

    def sample(self, n: int = 1, *, contexts: Any = None, **options: Any) -> Samples:
        """n new structures, all valid; the options are those of `nelson.sample`."""
        theta = self.theta_for(contexts)
        return sample(self.formula, theta, n, terms=self.terms or None, **options)

    def log_likelihood(self, data: Any, **options: Any) -> Likelihood:
        """Mean log P(x) over examples, as `nelson.learn` takes them, with its 95% half width.

        The error bar has two parts: the number of examples is finite, and log Z may be an estimate.
        The options are those of `nelson.log_z`; a value of log Z that was computed
        before may be given as `log_z`.
        """
        x = load_examples(self.formula, data).to_numpy()
        return log_likelihood(self.formula, self.theta_for(), x, terms=self.terms, **options)

    def save(self, path: str | os.PathLike[str], more: Mapping[str, bytes] | None = None) -> None:
        """Write the folder. A folder is a model when it has model.json, which is written last.

        An old model.json is removed first: a folder never mixes two models, whenever the process is
        killed. more: further files of the folder, by name.
        """
        folder = writable(path)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _JSON).unlink(missing_ok=True)
        meta = {
            "format": _FORMAT,
            "nelson": __version__,
            "n_vars": self.formula.n_vars,
            "n_aux": self.formula.n_aux,
            "projection": self.formula.projection,
            "constraints": [
                {"kind": type(c).__name__, **asdict(c)} for c in self.formula.constraints
            ],
            "names": self.names,
            "terms": [[list(m), c] for m, c in self.terms.items()] if self.terms else None,
            **self.metadata,
        }
        if self.theta is not None:
            data = pack_tensors({"theta": np.asarray(self.theta, np.float64)})
            atomic.write(folder / _THETA, data)
        if self.net is not None:
            weights = {k: v.detach().cpu().numpy() for k, v in self.net.state_dict().items()}
            atomic.write(folder / _NET, pack_tensors(weights))
        atomic.write(folder / "formula.cnf", str(self.formula.to_dimacs()).encode())
        atomic.write(folder / "README.md", _readme(self, meta).encode())
        for name, content in ((_THETA, self.theta), (_NET, self.net)):
            if content is None:  # of the model that was here before
                (folder / name).unlink(missing_ok=True)
        for name, content in (more or {}).items():
            atomic.write(folder / name, content)
        text = json.dumps(meta, indent=1, default=_as_json)
        atomic.write(folder / _JSON, text.encode())

    def __repr__(self) -> str:
        what = "theta" if self.net is None else f"net {type(self.net).__name__}"
        return f"Model({self.formula!r}, {what}, {self.metadata.get('why', 'not trained')})"


def writable(path: str | os.PathLike[str]) -> Path:
    """A folder that a model may be written to: new, empty, a model already, or a part of one."""
    pack_tensors({})  # raises NelsonError without safetensors, which a model needs
    folder = Path(path)
    if folder.is_dir():
        atomic.tidy(folder)
    occupied = folder.exists() and (not folder.is_dir() or any(folder.iterdir()))
    begun = (folder / _THETA).is_file() or (folder / _NET).is_file()  # the first file of a model
    if occupied and not begun and not _is_model(folder):
        raise NelsonError(f"{folder}: exists and is not a model of nelson; not written over")
    return folder


def _is_model(folder: Path) -> bool:
    return (folder / _JSON).is_file()


def load(path: str | os.PathLike[str], net: Any = None) -> Model:
    """Read a model folder. `net`: for a conditional model, the module to load the weights into."""
    folder = Path(path)
    if not _is_model(folder):
        raise FormulaError("no model here", expected="a folder with model.json", source=str(folder))
    try:
        meta = json.loads((folder / "model.json").read_bytes())
        if not isinstance(meta, dict):
            raise ValueError(f"model.json holds {type(meta).__name__}, not an object")
        if meta.get("kind") == "table":
            raise NelsonError(f"{folder}: a model of a table; in Python, nelson.load reads it")
        if meta.pop("format", None) != _FORMAT:
            raise ValueError("a format that this version does not know")
        formula = _formula(folder / "formula.cnf", meta)
        names, terms = _names(meta, formula.n_vars), _terms(meta, formula.n_vars)
        if not isinstance(meta.get("settings") or {}, dict):
            raise ValueError("settings that are not an object")
        theta = None
        if (folder / "theta.safetensors").exists():
            theta = _theta(unpack_tensors((folder / "theta.safetensors").read_bytes()), formula)
        if (folder / "net.safetensors").exists() and net is not None:
            import torch

            arrays = unpack_tensors((folder / "net.safetensors").read_bytes())
            net.load_state_dict({k: torch.from_numpy(v.copy()) for k, v in arrays.items()})
            net.eval()
    except (OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
        # RuntimeError: of torch, and RecursionError of JSON that is nested too deeply.
        raise NelsonError(f"{folder}: not a complete model ({error})") from None
    for name in ("n_vars", "n_aux", "projection", "constraints", "names", "terms"):
        meta.pop(name, None)
    return Model(formula, theta, names, meta, net, terms)


def _theta(arrays: dict[str, np.ndarray], formula: Formula) -> np.ndarray:
    theta = arrays["theta"]
    if theta.shape != (formula.n_vars,) or theta.dtype.kind != "f" or np.isnan(theta).any():
        raise ValueError(
            f"theta of shape {theta.shape} and type {theta.dtype} for {formula.n_vars} variables"
        )
    return theta.astype(np.float64)


def _names(meta: dict[str, Any], n: int) -> tuple[str, ...] | None:
    names = meta.get("names")
    if names is None:
        return None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError("names that are not a list of texts")
    if names and len(names) != n:
        raise ValueError(f"{len(names)} names for {n} variables")
    return tuple(names) or None


def _terms(meta: dict[str, Any], n: int) -> dict[tuple[int, ...], float] | None:
    """[[[1, 2], 0.7], ...]: variables of a product, and its coefficient."""
    given = meta.get("terms")
    if given is None:
        return None
    if not isinstance(given, list):
        raise ValueError("terms that are not a list")
    terms: dict[tuple[int, ...], float] = {}
    for entry in given:
        product, coefficient = entry
        variables = isinstance(product, list) and all(type(v) is int for v in product)
        if not variables or not all(1 <= v <= n for v in product):
            raise ValueError(f"a term of {str(product)[:40]}: expected variables in 1..{n}")
        number = isinstance(coefficient, (int, float)) and type(coefficient) is not bool
        if not number or not abs(coefficient) < 2.0**1023:  # also refuses NaN
            raise ValueError(f"coefficient {str(coefficient)[:40]} of a term: not a finite number")
        terms[tuple(product)] = float(coefficient)
    return terms or None


def _formula(path: Path, meta: dict[str, Any]) -> Formula:
    """The formula as it was saved; model.json says what DIMACS cannot, as auxiliary variables."""
    read = Formula.from_dimacs(path)
    kinds = {"Xor": Xor, "Linear": Linear}
    if not isinstance(meta["constraints"], list):
        raise ValueError("constraints that are not a list")
    constraints = []
    for entry in meta["constraints"]:
        if not isinstance(entry, dict):
            raise ValueError("a constraint that is not an object")
        fields = {k: tuple(v) if isinstance(v, list) else v for k, v in entry.items()}
        constraints.append(kinds[str(fields.pop("kind"))](**fields))
    n, n_aux = count(meta["n_vars"], "n_vars"), count(meta["n_aux"], "n_aux")
    if n + n_aux != read.n_total:
        raise ValueError(f"{n} + {n_aux} variables, but formula.cnf has {read.n_total}")
    return Formula.from_arrays(
        read.literals,
        read.offsets,
        n,
        theta=None if read.theta is None else read.theta[:n],
        projection=meta["projection"],
        n_aux=n_aux,
        constraints=checked_constraints(constraints, n),
        source=str(path),
    )


def _as_json(value: Any) -> Any:
    """NumPy's scalars and arrays as JSON can hold them."""
    return value.tolist() if hasattr(value, "tolist") else str(value)


def _products(terms: Mapping[tuple[int, ...], float], most: int = 50) -> list[str]:
    """The largest coefficients, in words."""
    largest = sorted(terms, key=lambda m: (-abs(terms[m]), m))[:most]
    lines = [f"Plus {terms[m]:.6g} where {' '.join(map(str, m))} are all true." for m in largest]
    if len(terms) > len(largest):
        lines.append(f"And {len(terms) - len(largest):,} more: see `terms` in model.json.")
    return lines


def _readme(model: Model, meta: dict[str, Any]) -> str:
    f, terms = model.formula, model.terms or {}
    lines = [
        "# A constrained Markov random field",
        "",
        f"P(x) = exp(sum theta_i x_i) / Z over the assignments that satisfy `formula.cnf` "
        f"({f.n_vars} variables, {f.n_clauses} clauses).",
        *_products(terms),
        "",
        "```",
        "nelson sample . -n 1000        # new structures, all valid",
        "nelson evaluate . DATA           # how well the model fits the data",
        "```",
        "",
        "In Python: `nelson.load(folder)`. Nothing in this folder is pickled.",
        "",
        "| how it was made | |",
        "|---|---|",
    ]
    shown = ("examples", "data", "dropped", "iterations", "converged", "why", "seed")
    for key in (*shown, "method", "sweeps", "guarantee", "seconds", "nelson"):
        if meta.get(key) is not None:
            lines.append(f"| {key} | {meta[key]} |")
    for key, value in (meta.get("settings") or {}).items():
        lines.append(f"| {key} (setting) | {value} |")
    return "\n".join(lines) + "\n"
