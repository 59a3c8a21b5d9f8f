"""P_theta(x | C) in torch: `mrf.ConstrainedMRF` and `layer.LovaszLayer`."""
