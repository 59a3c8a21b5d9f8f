"""P_theta(x | C) in torch, and potentials over several variables.

Import `mrf.ConstrainedMRF`, `layer.LovaszLayer`, `polynomial.{Polynomial, lift}`,
`heat_bath.heat_bath`. The last two modules work without torch.
"""
