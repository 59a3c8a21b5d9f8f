"""Learning theta = net(context): one distribution for each context, all over one formula.

    grad of sum_k log P_theta_k(x_k | C) with respect to theta_k  =  x_k - E_theta_k[x]

So the network's backward pass starts from (E_model - data) / batch at its output: the score itself,
without a surrogate loss. E_model is the mean of m samples for each context, drawn in one call.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np

from nelson.errors import BudgetExceeded, FormulaError
from nelson.formula import Formula
from nelson.learning.data import Examples
from nelson.learning.group import MINIBATCHES, OUTSIDE_ITERATIONS, State, stream_seed
from nelson.learning.learner import Learner
from nelson.learning.moments import Draw, gap_size, judge
from nelson.learning.optimizers import Network
from nelson.learning.run_options import History

if TYPE_CHECKING:
    import torch


class Conditional(Learner):
    """Learns the weights of a network.

    contexts  (N, ...), one row for each example, also for those that were dropped
    """

    def __init__(
        self,
        formula: Formula,
        examples: Examples,
        settings: Network,
        net: torch.nn.Module,
        contexts: Any,
    ) -> None:
        import torch

        self.torch = torch
        super().__init__(formula, examples, settings)
        self.net = net
        self.data = examples.to_numpy()
        assert settings.m is not None and settings.batch is not None  # `Network` needs both
        self.m, self.batch = settings.m, min(settings.batch, len(self.data))
        self.contexts = torch.as_tensor(contexts)
        if examples.rows is not None:
            self.contexts = self.contexts[torch.as_tensor(examples.rows)]
        if len(self.contexts) != examples.count:
            raise FormulaError(
                f"{len(self.contexts)} contexts for {examples.count} examples",
                expected="one context for each example",
            )
        parameters = [p for p in net.parameters() if p.requires_grad]
        if parameters and self.contexts.is_floating_point():
            self.contexts = self.contexts.to(parameters[0].dtype)
        make = settings.torch or (lambda p: torch.optim.Adam(p, lr=settings.rate))
        self.optimizer = make(parameters)

    def identity(self) -> dict[str, Any]:
        return {"contexts": hashlib.sha256(self.contexts.cpu().numpy().tobytes()).hexdigest()}

    def start(self) -> None:
        self.net.train()

    def draw_at(self, k: int) -> np.ndarray:
        """theta of minibatch k. Which examples it holds is a function of (seed, k)."""
        random = np.random.default_rng(stream_seed(self.drawer.seed, MINIBATCHES + k))
        self.rows = random.choice(len(self.data), self.batch, replace=False)
        self.theta = self._theta(self.rows)
        return self._values(self.theta)

    def update(self, draw: Draw) -> dict[str, Any]:
        if draw.count == 0:
            raise BudgetExceeded("the sampler finds no valid sample for some context")
        gap = self.data[self.rows] - draw.mean
        theta = self.theta
        score = self.torch.as_tensor(-gap / self.batch, dtype=theta.dtype, device=theta.device)
        self.optimizer.zero_grad()
        theta.backward(score)
        self.optimizer.step()
        return {"phase": "net", **gap_size(gap.mean(0))}

    def _theta(self, rows: np.ndarray) -> torch.Tensor:
        theta = self.net(self.contexts[self.torch.as_tensor(rows)])
        expected = (len(rows), self.formula.n_vars)
        if theta.shape != expected:
            raise FormulaError(
                f"a net that gives shape {tuple(theta.shape)}", expected=str(expected)
            )
        return theta

    def _values(self, theta: torch.Tensor) -> np.ndarray:
        return self.clipped(theta.detach().double().cpu().numpy())

    def verdict(
        self,
        history: History,
        ended: str,
        examples: int = 4096,
        at_once: int = 256,
        samples: int = 64,
    ) -> tuple[bool, str]:
        """Test whether the mean of x_k - E_theta_k[x] over the examples is noise.

        examples  that are tested, at most; at_once: in one draw; samples: for each of them

        This is a necessary condition only: the score of a constant added to theta.
        """
        self.net.eval()
        if ended:
            return False, "no claim is made about the moments"
        n, seed = self.formula.n_vars, self.drawer.seed
        total, variance = np.zeros(n), np.zeros(n)
        random = np.random.default_rng(stream_seed(seed, OUTSIDE_ITERATIONS))
        rows = random.permutation(len(self.data))[:examples]
        for k in range(0, len(rows), at_once):
            part = rows[k : k + at_once]
            with self.torch.no_grad():
                theta = self._values(self._theta(part))
            mean = self.drawer(theta, samples, OUTSIDE_ITERATIONS + k).mean
            total += (self.data[part] - mean).sum(0)
            variance += (mean * (1 - mean)).sum(0)
        free = variance > 0
        noise = (1 + 1 / samples) / len(rows)  # of the data, and of the samples
        gap = judge(
            total[free] / len(rows), variance[free] / len(rows), noise, 0.0, self.settings.level
        )
        verdict = "within its noise" if gap.within else "more than noise"
        return gap.within, (
            f"over {len(rows):,} examples the mean gap between data and model moments is {verdict} "
            f"(chi2 = {gap.chi2:.4g}, {gap.dof:.0f} expected of noise alone, correlations not "
            "counted)"
        )

    def result(self) -> None:
        return None

    def state(self) -> State:
        """Weights, the optimizer's tensors and torch's random state; all other values for JSON."""
        arrays = {f"net.{k}": v.detach().cpu().numpy() for k, v in self.net.state_dict().items()}
        whole = self.optimizer.state_dict()
        plain: dict[str, Any] = {}
        for index, entry in whole["state"].items():
            for key, value in entry.items():
                if isinstance(value, self.torch.Tensor):
                    arrays[f"opt.{index}.{key}"] = value.detach().cpu().numpy()
                else:
                    plain[f"{index}.{key}"] = value
        arrays["rng"] = self.torch.get_rng_state().numpy()
        return arrays, {"groups": {"param_groups": whole["param_groups"], "plain": plain}}

    def restore(self, state: State) -> None:
        arrays, rest = state
        tensors = {name: self.torch.from_numpy(np.array(array)) for name, array in arrays.items()}
        self.net.load_state_dict({k[4:]: v for k, v in tensors.items() if k.startswith("net.")})
        entries = {k[4:]: v for k, v in tensors.items() if k.startswith("opt.")}
        states: dict[int, dict[str, Any]] = {}
        for name, value in (entries | rest["groups"]["plain"]).items():
            index, key = name.split(".", 1)
            states.setdefault(int(index), {})[key] = value
        groups = rest["groups"]["param_groups"]
        # JSON turned tuples into lists; torch wants them back.
        for group, now in zip(groups, self.optimizer.state_dict()["param_groups"], strict=True):
            if group.keys() != now.keys() or group["params"] != now["params"]:
                raise ValueError("groups of parameters of another optimizer")
            group |= {k: tuple(v) for k, v in group.items() if isinstance(now.get(k), tuple)}
        parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
        for index, entry in states.items():
            for value in entry.values():
                is_number = not isinstance(value, self.torch.Tensor) or value.numel() == 1
                if not is_number and value.shape != parameters[index].shape:
                    raise ValueError("tensors of the optimizer of another shape")
        self.optimizer.load_state_dict({"state": states, "param_groups": groups})
        self.torch.set_rng_state(tensors["rng"])
        self.net.train()
