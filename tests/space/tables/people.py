"""The table of a new user, with a known law: an id, codes, money, dates, gaps, a derived column."""

from __future__ import annotations

import numpy as np
import pandas as pd

STATES = ["CA", "NY", "TX", "WA"]
BANDS = ["low", "middle", "high"]


def people(n: int = 5000, seed: int = 0) -> pd.DataFrame:
    """As `pandas.read_csv(..., parse_dates=["start", "end"])` reads it.

    age -> marital, children; state <- zip (a code of three digits); age, state -> income in cents;
    band is a function of income; start is free, end - start is exponential with a mean of 30 days,
    cut at 90; phone and end have gaps, end more often where marital is single.
    """
    rng = np.random.default_rng(seed)
    age = np.clip(rng.gamma(9, 4.6, n), 18, 90).astype(int)
    codes = np.sort(np.random.default_rng(7).choice(np.arange(100, 993), 60, replace=False))
    zips = rng.choice(codes, n, p=np.random.default_rng(8).dirichlet(np.full(60, 2.0)))
    state = np.array(STATES)[np.searchsorted(codes, zips) * 4 // 60]
    single = rng.random(n) < np.clip(1.4 - age / 40, 0.01, 0.95)
    marital = np.where(single, "single", np.where(rng.random(n) < 0.25, "divorced", "married"))
    children = np.where(single, rng.poisson(0.2, n), rng.poisson(1.4, n)).clip(0, 6)
    level = 9.6 + 0.022 * age - 0.00018 * (age - 45) ** 2 + 0.25 * (state == "CA")
    income = np.round(np.exp(level + 0.35 * rng.normal(size=n)), 2)
    start = np.datetime64("2019-01-01") + rng.integers(0, 1400, n).astype("timedelta64[D]")
    days = np.minimum(rng.exponential(30, n).astype(int), 90)
    end = (start + days.astype("timedelta64[D]")).astype("datetime64[ns]")
    phone = np.round(rng.normal(40, 12, n).clip(5), 1)
    frame = pd.DataFrame(
        {
            "id": np.arange(1, n + 1),
            "age": age,
            "income": income,
            "band": np.array(BANDS)[np.searchsorted([25_000, 50_000], income, side="right")],
            "state": state,
            "zip": zips,
            "marital": marital,
            "children": children,
            "start": start.astype("datetime64[ns]"),
            "end": end,
            "phone": phone,
        }
    )
    frame.loc[rng.random(n) < np.where(single, 0.3, 0.05), "end"] = pd.NaT
    frame.loc[rng.random(n) < 0.15, "phone"] = np.nan
    return frame
