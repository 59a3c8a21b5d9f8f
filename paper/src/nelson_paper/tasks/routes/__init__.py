"""The task `routes`: round trips through locations, uniform or weighted, learned and generated.

    bavaria = Routes()                                   # the 29 locations of bayg29
    Routes.from_tsplib("att48.tsp"), Routes.from_table("stops.csv"), Routes.small()
    data = bavaria.examples(1000)                        # (1000, 812) bool; x_ij: i -> j is driven
    fit = bavaria.learn(data)
    new = bavaria.sample(fit.theta, 1000)                # every row is a round trip
    bavaria.to_routes(new.x), bavaria.lengths(new.x)
    bavaria.cnf().formula                                # positions x locations, for other samplers

Import `Routes` and the two results from here.
"""

from nelson_paper.tasks.routes.cnf import RouteFormula
from nelson_paper.tasks.routes.resample import Resampled
from nelson_paper.tasks.routes.task import Routes

__all__ = ["Resampled", "RouteFormula", "Routes"]
