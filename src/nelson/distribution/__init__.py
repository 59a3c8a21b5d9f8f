"""P_theta(x | C) in torch, potentials over several variables, and the most likely structure.

Import `mrf.ConstrainedMRF`, `layer.LovaszLayer`, `polynomial.{Polynomial, lift}`,
`heat_bath.heat_bath`, `mode.most_likely`. The last three modules work without torch.
"""
