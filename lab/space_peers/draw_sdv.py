"""SDV: learn a table and draw rows like it.

    python draw_sdv.py TRAIN.csv ROWS SEED OUT.csv OPTION

OPTION: `plain` for GaussianCopulaSynthesizer without constraints, `constraints` with
FixedCombinations on the groups of columns that the rules tie together (SDV then allows only
combinations that occur in the data). CTGAN is left out: with its default settings it did not finish
within 15 minutes on two cores that had other work.
"""

from __future__ import annotations

import json
import sys
import time
import warnings

import numpy as np
import pandas as pd
from sdv.cag import FixedCombinations
from sdv.metadata import Metadata
from sdv.single_table import GaussianCopulaSynthesizer

#: Columns that stand together in a rule. No column is in two groups: SDV does not allow it.
GROUPS = (
    ["device", "os"],
    ["age", "income"],
    ["plan", "payment", "support"],
    ["region", "channel", "status"],
)


def main() -> None:
    warnings.simplefilter("ignore")
    train, rows, seed, out, option = sys.argv[1:6]
    np.random.seed(int(seed))  # noqa: NPY002 - SDV draws from the global generator
    frame = pd.read_csv(train)
    columns = {column: {"sdtype": "categorical"} for column in frame.columns}
    metadata = Metadata.load_from_dict({"tables": {"table": {"columns": columns}}})
    started = time.process_time()
    model = GaussianCopulaSynthesizer(metadata)
    if option == "constraints":
        model.add_constraints([FixedCombinations(column_names=group) for group in GROUPS])
    model.fit({"table": frame})
    fitted = time.process_time()
    drawn = model.sample(num_rows=int(rows))
    done = time.process_time()
    drawn = drawn["table"] if isinstance(drawn, dict) else drawn
    drawn[frame.columns].to_csv(out, index=False)
    print(json.dumps({"rows": len(drawn), "fit": fitted - started, "seconds": done - fitted}))


if __name__ == "__main__":
    main()
