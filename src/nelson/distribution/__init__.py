"""P_theta(x | C) in torch: `mrf.ConstrainedMRF`, `layer.LovaszLayer`, `dense.DenseLayer`."""
