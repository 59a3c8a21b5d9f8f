"""The numbers that the paper printed, as data.

Jiang, Gu, Xue: Learning Markov Random Fields for Combinatorial Structures via Sampling through
Lovasz Local Lemma, AAAI 2023; Tables 1 to 3 and Appendix D. A figure is a number, or "T.O."
where the paper prints that. Its plots (uniform and weighted sampling, rounds, routes) show no
numbers; only two numbers in its text can be used, in ROUTES.

The paper states no time limit, but the authors' scripts (jiangnanhugo/nelson-cd) do: 7,200 s for a
formula in uniform sampling (for their own programs only) and 180 s for QuickSampler; 180 s for 100
samples in weighted sampling. Their learning script has none: the longest iteration that the paper
prints took 1,532.22 minutes (KUS, n = 50).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nelson_paper.experiments.base import TIMED_OUT

Figure = float | str

#: Seconds that a sampler gets in a cell at the paper's sizes: the authors' scripts.
LIMIT = 7200.0
#: Samplers with another limit there.
LIMITS = {"quicksampler": 180.0}
#: Weighted sampling: the limit of every sampler, the samples of a run, and n of its formulas.
WEIGHTED_LIMIT = 180.0
WEIGHTED_SAMPLES = 100
WEIGHTED_SIZES = tuple(range(10, 101, 10))
#: Formulas or graphs for each size.
FORMULAS = 100

# Appendix D: data and learning.
K = 5  # literals per clause
EXAMPLES = 200
EDGE_PROBABILITY = 0.55
SAMPLES = 200  # m: samples per iteration
RATE = 0.1  # eta
ITERATIONS = 1000  # T_max
TRYOUTS = 1000  # T_tryout: largest number of rounds of resampling
#: m of the approximation error: the authors' script, and the paper's text.
GRADIENT_SAMPLES = (4000, 2000)
#: Solutions in the list of the authors' script of Table 2. It splits them into two halves: the
#: preferred ones are the training set, the less preferred ones are not.
SOLUTIONS = 200
#: Their seed, in every script.
SEED = 10010

#: The paper's names of samplers -> ours. Its own sampler is Algorithm 1: `lovasz`.
SAMPLERS = {
    "NELSON": "lovasz",
    "XOR": "xor",
    "WAPS": "waps",
    "WeightGen": "weightgen",
    "CMSGen": "cmsgen-published",
    "KUS": "kus",
    "QuickSampler": "quicksampler",
    "UniGen": "unigen",
    "Gibbs": "gibbs-published",
}


def limit(sampler: str) -> float:
    """Seconds that the authors' scripts give this sampler."""
    return LIMITS.get(sampler, LIMIT)


class Published:
    """One part of a table: `figures[sampler][size]`, sampler as the paper calls it."""

    def __init__(
        self,
        where: str,
        unit: str,
        columns: Sequence[str],
        rows: Mapping[int, Sequence[Figure]],
    ) -> None:
        self.where, self.unit = where, unit
        self.sizes = list(rows)
        self.figures: dict[str, dict[int, Figure]] = {
            name: {size: row[k] for size, row in rows.items()} for k, name in enumerate(columns)
        }

    def series(self, factor: float = 1.0) -> dict[str, tuple[list[float], list[float]]]:
        """For `plots.curves`: our name of the sampler -> (sizes, numbers times `factor`)."""
        out = {}
        for name, figures in self.figures.items():
            known = {n: v for n, v in figures.items() if not isinstance(v, str)}
            if known:
                out[SAMPLERS[name]] = (
                    [float(n) for n in known],
                    [factor * v for v in known.values()],
                )
        return out


_TO = TIMED_OUT
_ALL = ("NELSON", "XOR", "WAPS", "WeightGen", "CMSGen", "KUS", "QuickSampler", "UniGen", "Gibbs")

TABLE_1A = Published(
    "Table 1(a)",
    "minutes per iteration",
    _ALL,
    {
        10: (0.13, 26.30, 1.75, 0.64, 0.22, 0.72, 0.40, 0.66, 0.86),
        20: (0.15, 134.50, 3.04, _TO, 0.26, 0.90, 0.30, 2.12, 1.72),
        30: (0.19, 1102.95, 6.62, _TO, 0.28, 2.24, 0.32, 4.72, 2.77),
        40: (0.23, _TO, 33.70, _TO, 0.31, 19.77, 0.39, 9.38, 3.93),
        50: (0.24, _TO, 909.18, _TO, 0.33, 1532.22, 0.37, 13.29, 5.27),
        500: (5.99, _TO, _TO, _TO, 34.17, _TO, _TO, _TO, 221.83),
        1000: (34.01, _TO, _TO, _TO, 177.39, _TO, _TO, _TO, 854.59),
    },
)

#: The paper prints one row for the sizes 10 to 50; here it stands at each of them.
_SMALL = (100.0, 100.0, 100.0, 100.0, 100.0, 100.0, 82.65, 100.0, 90.58)
TABLE_1B = Published(
    "Table 1(b)",
    "% valid",
    _ALL,
    {
        **dict.fromkeys((10, 20, 30, 40, 50), _SMALL),
        500: (100.0, _TO, _TO, _TO, 100.0, _TO, 7.42, 100.0, 54.27),
        1000: (100.0, _TO, _TO, _TO, 100.0, _TO, 0.00, 100.0, 33.91),
    },
)

TABLE_1C = Published(
    "Table 1(c)",
    "L1 error of grad log Z",
    _ALL,
    {
        10: (0.10, 0.21, 0.12, 3.58, 3.96, 4.08, 3.93, 4.16, 0.69),
        12: (0.14, 0.19, 0.16, 5.58, 5.50, 5.49, 5.55, 5.48, 0.75),
        14: (0.15, 0.25, 0.19, _TO, 6.55, 6.24, 7.79, 6.34, 1.30),
        16: (0.16, 0.25, 0.15, _TO, 9.08, 9.05, 9.35, 9.03, 1.67),
        18: (0.18, 0.30, 0.23, _TO, 10.44, 10.30, 11.73, 10.20, 1.90),
    },
)

#: QuickSampler, WeightGen, KUS, XOR and WAPS share one column, "T.O."; UniGen is not in the table.
_LATE = ("QuickSampler", "WeightGen", "KUS", "XOR", "WAPS")
_LEARNED = ("NELSON", "Gibbs", "CMSGen", *_LATE)
TABLE_2A = Published(
    "Table 2(a)",
    "log-likelihood, training set",
    _LEARNED,
    {
        100: (-49.16, -36.36, -60.12, *[_TO] * 5),
        300: (-52.61, -53.11, -128.39, *[_TO] * 5),
        500: (-196.47, -197.21, -272.49, *[_TO] * 5),
        700: (-238.60, -238.75, -389.44, *[_TO] * 5),
        1000: (-294.22, -296.33, -532.85, *[_TO] * 5),
    },
)
TABLE_2B = Published(
    "Table 2(b)",
    "MAP@10, %",
    _LEARNED,
    {
        100: (82.13, 83.32, 86.34, *[_TO] * 5),
        300: (66.37, 64.42, 64.50, *[_TO] * 5),
        500: (90.03, 73.14, 70.67, *[_TO] * 5),
        700: (69.74, 69.74, 48.10, *[_TO] * 5),
        1000: (91.70, 77.56, 78.72, *[_TO] * 5),
    },
)

_THREE = ("NELSON", "Gibbs", "CMSGen")
TABLE_3A = Published(
    "Table 3(a)",
    "minutes per epoch",
    _THREE,
    {
        10: (0.53, 9.85, 0.69),
        20: (0.53, 80.12, 1.93),
        30: (0.72, 256.38, 3.65),
        40: (0.93, 777.01, 5.99),
        50: (1.17, _TO, 9.08),
    },
)
TABLE_3B = Published(
    "Table 3(b)",
    "% valid",
    _THREE,
    {
        7: (100.0, 50.16, 100.0),
        8: (100.0, 64.63, 100.0),
        9: (100.0, 47.20, 100.0),
        10: (100.0, 62.60, 100.0),
        11: (100.0, 84.95, 100.0),
    },
)
TABLE_3C = Published(
    "Table 3(c)",
    "L1 error of grad log Z",
    _THREE,
    {
        5: (0.01, 0.09, 0.21),
        7: (0.05, 0.08, 2.37),
        9: (0.03, 0.11, 2.37),
        11: (0.04, 0.17, 8.62),
        13: (0.05, 0.28, 11.27),
    },
)
TABLE_3D = Published(
    "Table 3(d)",
    "MAP@10, %",
    _THREE,
    {
        10: (61.14, 60.01, 64.56),
        20: (55.26, 55.20, 47.79),
        30: (100.00, 96.29, 100.00),
        40: (40.01, 39.88, 38.90),
        50: (46.12, _TO, 42.11),
    },
)

TABLES = (
    TABLE_1A, TABLE_1B, TABLE_1C, TABLE_2A, TABLE_2B, TABLE_3A, TABLE_3B, TABLE_3C, TABLE_3D,
)  # fmt: skip

#: Section "Learn Vehicle Delivery Routes": a batch of 100 routes through 29 locations.
ROUTES = {"batch": 100, "locations": 29, "rounds": 50.0, "seconds": 0.3}
