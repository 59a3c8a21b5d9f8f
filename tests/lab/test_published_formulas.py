"""The tables of the authors' formulas, from rows made by hand."""

from __future__ import annotations

from lab import published_formulas


def made(experiment: str, seed: int, **values):
    return {"experiment": experiment, "seed": seed, "status": "ok", "n": 500, **values}


def test_medians_ranges_and_the_named_file():
    rows = [
        made("uniform", seed, sampler="quicksampler", guarantee="heuristic", seconds=0.001 * seed,
             validity=0.5 + 0.001 * seed, misnumbered=0.0)
        for seed in (64, 65, 66, 90)
    ]  # fmt: skip
    [first, second] = published_formulas.sampling(rows).rows
    assert first[2] == "65.5 ms (65 ms)" and first[3] == "57.12% (56.4 to 59)"
    assert first[4] == "draws uniformly only" and second[3] == "0%"


def test_a_file_that_ran_twice_counts_once():
    here = {"data": "authors' loop", "sampler": "lovasz", "published_map": 0.5}
    rows = [
        made("table2", seed, published_likelihood=value, **here)
        for seed, value in ((65, -1.0), (65, -2.0), (66, -4.0))
    ]
    [row] = published_formulas.learning(rows).rows
    assert row[1:5] == ["-2.0", "-3.0 ± 1.4", "2", "-196.47"]
