"""One tool on one table, in a process of its own: python method.py NAME FOLDER.

FOLDER has train.csv, test.csv and asked.json (dates, rules, seed, how many rows, CPU seconds);
new.csv and figures.json are written. It imports nothing of this repository: it runs in the
environment of the peers.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path

import pandas as pd

MANY = 100_000
#: AIM's own defaults are 16 rounds a column of 1000 steps each, hours for each table. Megabytes of
#: its largest model.
AIM_ROUNDS, AIM_STEPS, AIM_MEGABYTES = 2, 100, 1.0


def nelson(train, asked):
    import nelson as library

    made = library.TableEstimator(rules=asked["rules"], random_state=asked["seed"]).fit(train)
    asked["score"] = made.score_samples
    return lambda n: made.sample(n, random_state=asked["seed"] + 1)


def copula(train, asked):
    from sdv.single_table import GaussianCopulaSynthesizer

    return _fitted(GaussianCopulaSynthesizer(_metadata(train, asked)), train, asked)


def ctgan(train, asked):
    from sdv.single_table import CTGANSynthesizer

    return _fitted(CTGANSynthesizer(_metadata(train, asked)), train, asked)


def _fitted(made, train, asked):
    """With the rules of the table that SDV's constraints can say."""
    from sdv.cag import FixedCombinations, Inequality

    constraints = [Inequality(low, high) for high, low in asked["after"].items()]
    constraints += [FixedCombinations(names) for names in asked["combinations"]]
    if constraints:
        made.add_constraints(constraints)
    made.fit({"rows": train})

    def draw(n):
        new = made.sample(n)
        return new["rows"] if isinstance(new, dict) else new

    return draw


def _metadata(train, asked):
    from sdv.metadata import Metadata

    metadata = Metadata()
    metadata.add_table("rows")
    for name in train:
        if name in asked["dates"]:
            kind = {"sdtype": "datetime", "datetime_format": "%Y-%m-%d"}
        else:
            kind = {"sdtype": "categorical" if name in asked["choices"] else "numerical"}
        metadata.add_column(name, table_name="rows", **kind)
    return metadata


def mst(train, asked):
    from dpmm.pipelines.mst import MSTPipeline

    return _marginals(MSTPipeline, train, asked)


def aim(train, asked):
    from dpmm.pipelines.aim import AIMPipeline

    options = {"rounds": AIM_ROUNDS * train.shape[1], "n_iters": AIM_STEPS}
    return _marginals(AIMPipeline, train, asked, max_model_size=AIM_MEGABYTES, gen_kwargs=options)


def _marginals(pipeline, train, asked, **options):
    """Next to no noise (epsilon = 10^6); dates as days; 20 uniform bins, near the most of ours.

    The structural zeros of dpmm are about one column. So a column that never comes before another
    one is given as their difference: no bin of it breaks the rule.
    """
    frame = train.copy()
    for name in asked["dates"]:
        days = (frame[name] - pd.Timestamp(0)).dt.days
        frame[name] = days.astype(float) if days.isna().any() else days
    for name, before in asked["after"].items():
        frame[name] = (frame[name] - frame[before]).astype(float)
    for name in asked["choices"]:
        frame[name] = frame[name].astype("category")
    made = pipeline(epsilon=1e6, delta=1e-5, proc_epsilon=None, n_bins=20, n_jobs=1, **options)
    made.fit(frame, random_state=asked["seed"])

    def draw(n):
        new = made.generate(n_records=n, random_state=asked["seed"] + 1)
        for name, before in asked["after"].items():
            new[name] = new[before].round() + new[name].round()
        for name in asked["dates"]:
            new[name] = pd.Timestamp(0) + pd.to_timedelta(new[name].round(), unit="D")
        return new[list(train.columns)]

    return draw


def main() -> None:
    name, folder = sys.argv[1], Path(sys.argv[2])
    asked = json.loads((folder / "asked.json").read_text())
    limit = int(asked["cpu_seconds"])
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))  # then SIGXCPU ends the process
    train = pd.read_csv(folder / "train.csv", parse_dates=asked["dates"])
    started, clock = time.process_time(), time.monotonic()
    draw = globals()[name](train, asked)
    figures = {"fit": time.process_time() - started, "fit_wall": time.monotonic() - clock}
    figures["fit_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if "score" in asked:
        log_p = asked["score"](pd.read_csv(folder / "test.csv", parse_dates=asked["dates"]))
        possible = log_p > -float("inf")  # a row with a value that the training rows lack is not
        figures |= {"log_p": float(log_p[possible].mean()), "impossible": float((~possible).mean())}
    draw(asked["rows"]).to_csv(folder / f"new.{name}.csv", index=False)
    (folder / f"figures.{name}.json").write_text(json.dumps(figures))
    started = time.process_time()
    draw(MANY)
    figures["draw"] = time.process_time() - started
    figures["draw_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    (folder / f"figures.{name}.json").write_text(json.dumps(figures))


if __name__ == "__main__":
    main()
