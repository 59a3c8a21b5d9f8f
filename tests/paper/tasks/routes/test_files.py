"""Locations from TSPLIB files and from tables."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

from nelson.errors import FormulaError
from nelson_paper.tasks.routes import Routes, examples, tsplib
from nelson_paper.tasks.routes.convert import summed
from tests.paper.tasks.routes.cases import SEED

BURMA14 = """NAME: burma14
TYPE: TSP
COMMENT: 14-Staedte in Burma (Zaw Win)
DIMENSION: 14
EDGE_WEIGHT_TYPE: GEO
EDGE_WEIGHT_FORMAT: FUNCTION
DISPLAY_DATA_TYPE: COORD_DISPLAY
NODE_COORD_SECTION
   1  16.47       96.10
   2  16.47       94.44
   3  20.09       92.54
   4  22.39       93.37
   5  25.23       97.24
   6  22.00       96.05
   7  20.47       97.02
   8  17.20       96.29
   9  16.30       97.38
  10  14.05       98.12
  11  16.53       97.38
  12  21.52       95.59
  13  19.41       97.13
  14  20.09       94.55
EOF
"""


def test_burma14_has_the_published_optimum(tmp_path):
    """3323 (TSPLIB), by 2-opt from 300 starts: the GEO distances are right to the kilometre."""
    path = tmp_path / "burma14.tsp"
    path.write_text(BURMA14)
    task = Routes.from_tsplib(path)
    assert task.n == 14 and task.title == "burma14" and task.locations[13] == "14"
    found = examples.local_optima(-task.distances, 300, noise=0.0, seed=SEED)
    assert summed(task.distances, found).min() == 3323
    assert (task.places[0] == (96.10, 16.47)).all()  # longitude goes right, latitude up


def tsp(kind: str, body: str, n: int = 3, extra: str = "") -> str:
    return f"NAME : t\nTYPE : TSP\nDIMENSION : {n}\nEDGE_WEIGHT_TYPE : {kind}\n{extra}{body}\nEOF\n"


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("EUC_2D", (4, 25, 27)),  # 3.61, 25.08, 27.46
        ("CEIL_2D", (4, 26, 28)),
        ("MAN_2D", (5, 27, 32)),
        ("MAX_2D", (3, 25, 27)),
        ("ATT", (2, 8, 9)),  # 1.14, 7.93, 8.68
    ],
)
def test_distances_of_coordinates(kind, expected):
    body = "NODE_COORD_SECTION\n1 0 0\n2 2 3\n3 -25 -2"
    d = tsplib.parse(tsp(kind, body)).distances
    assert (d[0, 1], d[0, 2], d[1, 2]) == expected and (d == d.T).all()


def test_distances_in_three_dimensions():
    body = "NODE_COORD_SECTION\n1 0 0 0\n2 2 3 6\n3 1 1 1"
    assert tsplib.parse(tsp("EUC_3D", body)).distances[0, 1] == 7
    assert tsplib.parse(tsp("MAX_3D", body)).distances[0, 1] == 6
    assert tsplib.parse(tsp("MAN_3D", body)).distances[0, 1] == 11


@pytest.mark.parametrize(
    ("shape", "numbers"),
    [
        ("FULL_MATRIX", "9 1 2 3  1 9 4 5  2 4 9 6  3 5 6 9"),
        ("UPPER_ROW", "1 2 3  4 5  6"),
        ("LOWER_ROW", "1  2 4  3 5 6"),
        ("UPPER_DIAG_ROW", "0 1 2 3  0 4 5  0 6  0"),
        ("LOWER_DIAG_ROW", "0  1 0  2 4 0  3 5 6 0"),
        ("UPPER_COL", "1  2 4  3 5 6"),
        ("LOWER_COL", "1 2 3  4 5  6"),
        ("UPPER_DIAG_COL", "0  1 0  2 4 0  3 5 6 0"),
        ("LOWER_DIAG_COL", "0 1 2 3  0 4 5  0 6  0"),
    ],
)
def test_explicit_distances(shape, numbers):
    """The same matrix in every format, numbers broken over lines anyhow."""
    body = "EDGE_WEIGHT_SECTION\n" + numbers.replace("  ", "\n")
    found = tsplib.parse(tsp("EXPLICIT", body, 4, f"EDGE_WEIGHT_FORMAT: {shape}\n"))
    assert found.distances.tolist() == [[0, 1, 2, 3], [1, 0, 4, 5], [2, 4, 0, 6], [3, 5, 6, 0]]
    assert found.places.shape == (4, 2) and found.ids == ["1", "2", "3", "4"]


def test_matrix_with_display_data_and_one_way_streets():
    body = "EDGE_WEIGHT_SECTION\n0 1 2\n7 0 3\n5 6 0\nDISPLAY_DATA_SECTION\n1 0 0\n2 10 0\n3 5 5"
    text = tsp("EXPLICIT", body, 3, "EDGE_WEIGHT_FORMAT: FULL_MATRIX\n").replace("TSP", "ATSP", 1)
    found = tsplib.parse(text)
    assert found.distances[1, 0] == 7 and found.distances[0, 1] == 1
    assert found.places.tolist() == [[0, 0], [10, 0], [5, 5]]
    task = Routes(found.places, distances=found.distances)
    assert task.lengths(task.to_x([[0, 1, 2]]))[0] == 9
    assert task.lengths(task.to_x([[0, 2, 1]]))[0] == 15


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("   2  16.47       94.44", "   2  16.47"), ":10: 2 values; expected a node and 2"),
        (("   2  16.47", "   1  16.47"), ":10: node 1 again, first in line 9; expected each node"),
        (("96.29", "9b"), ":16: '9b'; expected a number"),
        (("96.29", "nan"), ":16: 'nan'; expected a finite number"),
        (("DIMENSION: 14", "DIMENSION: 15"), ":22: 14 nodes; expected 15"),
        (("DIMENSION: 14", "DIMENSION: 13"), ":22: more than 13 nodes"),
        (("DIMENSION: 14", "DIMENSION: 2"), ":4: DIMENSION 2; expected at least 3"),
        (("DIMENSION: 14", "DIMENSION: many"), ":4: DIMENSION MANY; expected a whole number"),
        (("DIMENSION: 14\n", ""), "no DIMENSION"),
        (("TYPE: GEO", "TYPE: XRAY1"), ":5: EDGE_WEIGHT_TYPE XRAY1; expected EUC_2D"),
        (("TYPE: TSP", "TYPE: HCP"), ":2: TYPE HCP; expected TSP"),
        (("NODE_COORD_SECTION", "FIXED_EDGES_SECTION"), ":8: FIXED_EDGES_SECTION"),
        (("NODE_COORD_SECTION\n", ""), ":8: '1  16.47       96.10'; expected KEYWORD"),
        (("NODE_COORD_SECTION", "DISPLAY_DATA_SECTION"), "GEO without coordinates"),
    ],
)
def test_tsplib_errors_name_file_and_line(tmp_path, change, message):
    path = tmp_path / "bad.tsp"
    path.write_text(BURMA14.replace(*change))
    with pytest.raises(FormulaError) as caught:
        Routes.from_tsplib(path)
    assert message in str(caught.value) and str(path) in str(caught.value)


def test_explicit_errors_name_the_line():
    head = "EDGE_WEIGHT_FORMAT: UPPER_ROW\n"
    for body, message in (
        ("EDGE_WEIGHT_SECTION\n1 2", ":7: 2 distances; expected 3 for 3 nodes, UPPER_ROW"),
        ("EDGE_WEIGHT_SECTION\n1 2\n3\n4 5", ":9: 5 distances; expected 3"),
        ("EDGE_WEIGHT_SECTION\n1 2\n-3", ":8: distance -3; expected no negative"),
        ("COMMENT: none", "EXPLICIT without distances"),
    ):
        with pytest.raises(FormulaError) as caught:
            tsplib.parse(tsp("EXPLICIT", body, 3, head), "f.tsp")
        assert message in str(caught.value)
    with pytest.raises(FormulaError, match="EDGE_WEIGHT_FORMAT SQUARE"):
        tsplib.parse(tsp("EXPLICIT", "EDGE_WEIGHT_SECTION\n1", 3, "EDGE_WEIGHT_FORMAT: SQUARE\n"))


def test_gzip_and_vehicle_files(tmp_path):
    path = tmp_path / "burma14.tsp.gz"
    path.write_bytes(gzip.compress(BURMA14.encode()))
    assert Routes.from_tsplib(path).n == 14
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(FormulaError, match="broken compressed data"):
        Routes.from_tsplib(path)
    text = tsp("EUC_2D", "NODE_COORD_SECTION\n1 0 0\n2 3 4\n3 6 8\nDEMAND_SECTION\n1 0\n2 5\n3 5")
    assert tsplib.parse(text.replace("TYPE : TSP", "TYPE : CVRP")).distances[0, 2] == 10


def test_tables_of_coordinates(tmp_path):
    pandas = pytest.importorskip("pandas")
    places = [[0.0, 1.0], [2.0, 3.5], [4.0, -1.0]]
    csv = tmp_path / "stops.csv"
    for text in (
        "name,x,y\ndepot,0,1\na,2,3.5\nb,4,-1\n",
        "Y;ID;X\n1;depot;0\n3.5;a;2\n-1;b;4\n",
        "depot,0,1\na,2,3.5\n\nb,4,-1\n",
    ):
        csv.write_text(text)
        task = Routes.from_table(csv)
        assert task.places.tolist() == places and task.locations == ["depot", "a", "b"]
    csv.write_text("0 1\n2 3.5\n4 -1\n")
    assert Routes.from_table(csv).locations == ["1", "2", "3"]
    frame = pandas.DataFrame(
        {"stop": ["depot", "a", "b"], "east": [0, 2, 4], "north": [1, 3.5, -1]}
    )
    assert Routes.from_table(frame).places.tolist() == places
    swapped = Routes.from_table(frame, x="north", y="east", name="stop")
    assert swapped.places[1].tolist() == [3.5, 2.0] and swapped.locations[0] == "depot"
    by_name = Routes.from_table({"depot": (0, 1), "a": (2, 3.5), "b": (4, -1)})
    assert by_name.locations == ["depot", "a", "b"] and by_name.places.tolist() == places
    assert Routes.from_table(np.array(places)).n == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name,x,y\na,0,1\nb,2\n", ":3: 2 columns; expected 3"),
        ("name,x,y\na,0,1\nb,2,?\nc,1,1\n", ":3: coordinate '?'; expected a finite number"),
        ("name,x,y\na,0,1\nb,2,nan\nc,1,1\n", ":3: coordinate 'nan'"),
        ("name,x,y\na,0,1\nb,2,2\n", "2 locations; expected at least 3"),
        ("name,x,y\na,0,1\na,2,2\nb,3,3\n", "locations 1 and 2 are both called 'a'"),
        ("name,what\na,b\n", "no two columns of numbers"),
        ("", "empty table"),
    ],
)
def test_table_errors(tmp_path, text, message):
    path = tmp_path / "stops.csv"
    path.write_text(text)
    with pytest.raises(FormulaError) as caught:
        Routes.from_table(path)
    assert message in str(caught.value)
