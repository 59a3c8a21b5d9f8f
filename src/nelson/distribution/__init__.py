"""P_theta(x | C) in torch, and potentials over several variables.

Import `mrf.ConstrainedMRF`, `layer.LovaszLayer`, `heat_bath.heat_bath`. The last module works
without torch. `nelson.formula.polynomial` describes the potentials.
"""
