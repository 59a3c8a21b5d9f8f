"""What stands side by side on a task: a loss for the same network, and ways to predict with it.

| method           | loss                                            | predictions             |
|------------------|-------------------------------------------------|-------------------------|
| `network`        | cross-entropy of each output                    | `threshold` 0.5; `mode` |
| `max-constraint` | C-HMCNN: outputs are maxima over descendants    | `threshold` 0.5         |
| `semantic loss`  | cross-entropy - weight log P(valid)             | `threshold` 0.5; `mode` |
| `likelihood`     | -log P(y | x, C), log-odds of single variables  | `mode`                  |
| `mixture`        | the same, a mixture of K such laws              | `mode`                  |
| `contrastive`    | `nelson.ContrastiveLoss`                        | `mode`                  |

Semantic loss: Xu et al., ICML 2018. C-HMCNN: Giunchiglia, Lukasiewicz, NeurIPS 2020. `mode` is
constrained decoding: the most likely valid structure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy, binary_cross_entropy_with_logits, softplus

from lab.prediction.tasks import Task
from nelson import ConstrainedMRF, ContrastiveLoss

#: Weight of the semantic loss.
SEMANTIC = 0.1
#: Components of the mixture.
COMPONENTS = 4
METHODS = (
    "network", "max-constraint", "semantic loss", "likelihood", "mixture", "contrastive",
)  # fmt: skip


class Method:
    """A loss of the network's outputs, and predictions from them. y has all variables."""

    predictors: tuple[str, ...] = ("mode",)

    def __init__(self, task: Task) -> None:
        self.task = task
        self.extra = task.formula.n_vars - task.outputs

    @property
    def width(self) -> int:
        """Outputs of the network."""
        return self.task.outputs

    def logits(self, out: Tensor) -> Tensor:
        """With a 0 for variables that the others determine."""
        return nn.functional.pad(out, (0, self.extra))

    def law(self, out: Tensor) -> Any:
        return ConstrainedMRF(self.task.formula, self.logits(out), validate_args=False)

    def loss(self, out: Tensor, y: Tensor) -> Tensor:
        raise NotImplementedError

    def marginals(self, out: Tensor) -> Tensor:
        """Scores of the outputs, for the precision-recall curve."""
        return self.law(out).mean[:, : self.task.outputs]

    def predict(self, predictor: str, out: Tensor) -> Tensor:
        """(rows, outputs) bool."""
        if predictor == "threshold":
            return self.scores(out) > 0.5
        return self.law(out).mode[:, : self.task.outputs] > 0.5

    def scores(self, out: Tensor) -> Tensor:
        return out.sigmoid()

    def log_likelihood(self, out: Tensor, y: Tensor) -> Tensor | None:
        return self.law(out).log_prob(y)


class Network(Method):
    predictors = ("threshold", "mode")

    def loss(self, out: Tensor, y: Tensor) -> Tensor:
        return binary_cross_entropy_with_logits(out, y[:, : self.task.outputs])

    def marginals(self, out: Tensor) -> Tensor:
        return out.sigmoid()


class MaxConstraint(Method):
    """With H the descendants of a label and itself: MCM_a = max_{b in H_a} p_b, and the loss takes
    max_{b in H_a} y_b p_b where y_a = 1.
    """

    predictors = ("threshold",)

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        assert task.ancestors is not None
        pairs = torch.from_numpy(task.ancestors).nonzero()  # (label, its ancestor)
        self.below, self.above = pairs.T

    def _maxima(self, p: Tensor) -> Tensor:
        at = self.above.expand(len(p), -1)
        return torch.zeros_like(p).scatter_reduce(1, at, p[:, self.below], "amax")

    def loss(self, out: Tensor, y: Tensor) -> Tensor:
        p = out.sigmoid()
        constrained = (1 - y) * self._maxima(p) + y * self._maxima(y * p)
        return binary_cross_entropy(constrained.clamp(0, 1), y)

    def scores(self, out: Tensor) -> Tensor:
        return self._maxima(out.sigmoid())

    def marginals(self, out: Tensor) -> Tensor:
        return self.scores(out)

    def log_likelihood(self, out: Tensor, y: Tensor) -> Tensor | None:
        return None


class SemanticLoss(Network):
    def loss(self, out: Tensor, y: Tensor) -> Tensor:
        valid = self.law(out).log_partition() - softplus(out).sum(-1)
        return super().loss(out, y) - SEMANTIC * valid.mean() / self.task.outputs


class Likelihood(Method):
    def loss(self, out: Tensor, y: Tensor) -> Tensor:
        return -self.law(out).log_prob(y).mean()


class Mixture(Likelihood):
    @property
    def width(self) -> int:
        return COMPONENTS * (self.task.outputs + 1)

    def law(self, out: Tensor) -> Any:
        logits = out[:, COMPONENTS:].reshape(len(out), COMPONENTS, self.task.outputs)
        return ConstrainedMRF(
            self.task.formula,
            self.logits(logits),
            mix=out[:, :COMPONENTS],
            validate_args=False,
        )


class Contrastive(Method):
    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self._loss = ContrastiveLoss(task.formula)

    def loss(self, out: Tensor, y: Tensor) -> Tensor:
        return self._loss(self.logits(out), y)


_CLASSES: dict[str, Callable[[Task], Method]] = {
    "network": Network,
    "max-constraint": MaxConstraint,
    "semantic loss": SemanticLoss,
    "likelihood": Likelihood,
    "mixture": Mixture,
    "contrastive": Contrastive,
}


def method(name: str, task: Task) -> Method:
    return _CLASSES[name](task)
