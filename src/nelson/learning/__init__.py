"""NELSON-CD: fit theta, or a network that gives theta, to examples of valid structures.

Import `learn` from `learn`, `Model` and `load` from `model`, and the figures of merit from
`metrics`. `match` fits theta to given shares instead of examples. `loop` runs a learner: `unary`
(one theta) or `conditional` (theta = net(context)).

>>> formula = nelson.Formula([[1, 2], [-1, 3]])
>>> examples = nelson.sample(formula, [0.5, 0.0, -0.5], 1000, seed=0).to_numpy()
>>> adam = nelson.learning.Adam(iterations=50)
>>> fit = nelson.learn(formula, examples, optimizer=adam, seed=0)
>>> fit.theta.shape
(3,)
"""

from nelson.learning.optimizers import PAPER, SGD, Adam, Network, Newton, Optimizer, Proximal
from nelson.learning.run_options import Run

__all__ = ["PAPER", "SGD", "Adam", "Network", "Newton", "Optimizer", "Proximal", "Run"]
