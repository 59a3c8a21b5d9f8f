"""Names of the two exact ways to draw and to sum, for `nelson.sample` and `nelson.log_z`."""

ENUMERATE = "enumerate"  # all structures
CIRCUIT = "circuit"  # a d-DNNF
