"""P_theta(x | C) as torch objects: a distribution, a layer, polynomial potentials, the mode.

Import `mrf.ConstrainedMRF`, `layer.LovaszLayer`, `polynomial.Polynomial`, `heat_bath.heat_bath`.
"""
