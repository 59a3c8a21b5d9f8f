"""P_theta(x | C) in torch. Import `mrf.ConstrainedMRF`, `layer.LovaszLayer`."""
