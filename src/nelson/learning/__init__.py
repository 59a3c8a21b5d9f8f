"""NELSON-CD: fit theta, or a network that gives theta, to examples of valid structures.

Import `learn` from `learn`, `Model` and `load` from `model`, and the figures of merit from
`metrics`. `match` fits theta to given shares instead of examples. `loop` runs a learner: `unary`
(one theta) or `conditional` (theta = net(context)).
"""
