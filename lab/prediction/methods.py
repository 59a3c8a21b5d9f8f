"""What stands side by side on a task: a loss for the same network, and ways to predict with it.

| method           | loss                                            | predictions             |
|------------------|-------------------------------------------------|-------------------------|
| `network`        | cross-entropy of each output                    | `threshold` 0.5; `mode` |
| `max-constraint` | C-HMCNN: outputs are maxima over descendants    | `threshold` 0.5         |
| `semantic loss`  | cross-entropy - weight log P(valid)             | `threshold` 0.5; `mode` |
| `likelihood`     | -log P(y | x, C), log-odds of single variables  | `mode`                  |
| `mixture`        | the same, a mixture of K such laws              | `mode`                  |
| `contrastive`    | mean of eight samples - y, as `ContrastiveLoss` | `mode`                  |

Semantic loss: Xu et al., ICML 2018. C-HMCNN: Giunchiglia, Lukasiewicz, NeurIPS 2020. `mode` is
constrained decoding: the most likely valid structure. All of them take outputs of any shape
(..., width) and targets (..., variables), and return a number for each row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    pad,
    softplus,
)

from lab.prediction.tasks import Task
from nelson import CircuitLayer

#: Samples of the contrastive loss.
SAMPLES = 8


@dataclass(frozen=True)
class Setting:
    """What tuning chooses. trunk: "plain", two hidden layers; "deep", SPL's, with three more."""

    trunk: str = "plain"
    rate: float = 1e-3
    dropout: float | None = None  # None: that of the task
    components: int = 1
    semantic: float = 0.1  # weight of the semantic loss


class Method:
    predictors: tuple[str, ...] = ("mode",)

    def __init__(self, task: Task, layer: CircuitLayer, setting: Setting) -> None:
        self.task, self.layer, self.setting = task, layer, setting
        self.outputs, self.extra = task.outputs, task.formula.n_vars - task.outputs

    @property
    def width(self) -> int:
        """Outputs of the network."""
        return self.outputs

    def logits(self, out: Tensor, given: Tensor | None) -> Tensor:
        """Log-odds of all variables; those that the others determine get 0. given: log-odds that
        are known of a row.
        """
        out = pad(out, (0, self.extra)) if self.extra else out
        return out if given is None else out + given

    def loss(self, out: Tensor, y: Tensor, given: Tensor | None) -> Tensor:
        raise NotImplementedError

    def marginals(self, out: Tensor, given: Tensor | None) -> Tensor:
        """Scores of the outputs, for the precision-recall curve."""
        return self.layer.mean(self.logits(out, given))[..., : self.outputs]

    def predict(self, predictor: str, out: Tensor, given: Tensor | None) -> Tensor:
        """(..., outputs) bool."""
        return self.layer.mode(self.logits(out, given))[..., : self.outputs] > 0.5

    def log_likelihood(self, out: Tensor, y: Tensor, given: Tensor | None) -> Tensor | None:
        logits = self.logits(out, given)
        return (logits * y).sum(-1) - self.layer.log_partition(logits)


class Network(Method):
    predictors = ("threshold", "mode")

    def loss(self, out: Tensor, y: Tensor, given: Tensor | None) -> Tensor:
        targets = y[..., : self.outputs]
        return binary_cross_entropy_with_logits(out, targets, reduction="none").mean(-1)

    def marginals(self, out: Tensor, given: Tensor | None) -> Tensor:
        return self.scores(out)

    def scores(self, out: Tensor) -> Tensor:
        return out.sigmoid()

    def predict(self, predictor: str, out: Tensor, given: Tensor | None) -> Tensor:
        if predictor == "threshold":
            return self.scores(out) > 0.5
        return super().predict(predictor, out, given)


class MaxConstraint(Network):
    """With H the descendants of a label and itself: MCM_a = max_{b in H_a} p_b, and the loss takes
    max_{b in H_a} y_b p_b where y_a = 1.
    """

    predictors = ("threshold",)

    def __init__(self, task: Task, layer: CircuitLayer, setting: Setting) -> None:
        super().__init__(task, layer, setting)
        assert task.ancestors is not None
        pairs = torch.from_numpy(task.ancestors).nonzero()  # (label, its ancestor)
        self.below, self.above = pairs.T.to(layer.clauses.device)

    def _maxima(self, p: Tensor) -> Tensor:
        at = self.above.expand(*p.shape[:-1], -1)
        return torch.zeros_like(p).scatter_reduce(-1, at, p[..., self.below], "amax")

    def loss(self, out: Tensor, y: Tensor, given: Tensor | None) -> Tensor:
        p = out.sigmoid()
        constrained = (1 - y) * self._maxima(p) + y * self._maxima(y * p)
        return binary_cross_entropy(constrained.clamp(0, 1), y, reduction="none").mean(-1)

    def scores(self, out: Tensor) -> Tensor:
        return self._maxima(out.sigmoid())

    def log_likelihood(self, out: Tensor, y: Tensor, given: Tensor | None) -> Tensor | None:
        return None


class SemanticLoss(Network):
    def loss(self, out: Tensor, y: Tensor, given: Tensor | None) -> Tensor:
        logits = self.logits(out, None)
        valid = self.layer.log_partition(logits) - softplus(logits).sum(-1)
        return super().loss(out, y, given) - self.setting.semantic * valid / self.outputs


class Likelihood(Method):
    def loss(self, out: Tensor, y: Tensor, given: Tensor | None) -> Tensor:
        found = self.log_likelihood(out, y, given)
        assert found is not None
        return -found


class Mixture(Likelihood):
    @property
    def width(self) -> int:
        return self.setting.components * (self.outputs + 1)

    def _parts(self, out: Tensor, given: Tensor | None) -> tuple[Tensor, Tensor]:
        """Logits (..., K, n) and mix (..., K)."""
        k = self.setting.components
        logits = out[..., k:].reshape(*out.shape[:-1], k, self.outputs)
        given = None if given is None else given.unsqueeze(-2)
        return self.logits(logits, given), out[..., :k]

    def log_likelihood(self, out: Tensor, y: Tensor, given: Tensor | None) -> Tensor:
        logits, mix = self._parts(out, given)
        score = (logits @ y.unsqueeze(-1)).squeeze(-1)  # targets are valid
        return (mix.log_softmax(-1) + score - self.layer.log_partition(logits)).logsumexp(-1)

    def marginals(self, out: Tensor, given: Tensor | None) -> Tensor:
        return self.layer.mean(*self._parts(out, given))[..., : self.outputs]

    def predict(self, predictor: str, out: Tensor, given: Tensor | None) -> Tensor:
        return self.layer.mode(*self._parts(out, given))[..., : self.outputs] > 0.5


class Contrastive(Method):
    def loss(self, out: Tensor, y: Tensor, given: Tensor | None) -> Tensor:
        logits = self.logits(out, given)
        gradient = self.layer.sample(logits.detach(), SAMPLES).mean(0) - y
        return (logits * gradient).sum(-1)


METHODS: dict[str, Callable[[Task, CircuitLayer, Setting], Method]] = {
    "network": Network,
    "likelihood": Likelihood,
    "mixture": Mixture,
    "max-constraint": MaxConstraint,
    "semantic loss": SemanticLoss,
    "contrastive": Contrastive,
}
