"""The documentation builds without a warning, notebooks run, a search finds a public name."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

import nelson
from tests import ROOT
from tests.browser import chromium

pytest.importorskip("myst_nb", reason="NO SPHINX: the documentation is not built")
pytestmark = [pytest.mark.slow, pytest.mark.process]

GROUPS = ["Start", "Tutorials", "How-to", "Reference", "Background", "The paper"]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A warning (a broken link, a page in no menu, a notebook that fails) is an error."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html",
         str(ROOT / "docs"), str(folder), "-d", str(folder / ".trees")],
        capture_output=True,
        text=True,
        timeout=900,
        env=os.environ | {"OMP_NUM_THREADS": "1"},  # threads would wait for each other
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return folder


def test_the_menu_has_six_groups(site):
    text = (site / "index.html").read_text()
    menu = text[text.index("navbar-header-items") : text.index("navbar-header-items__end")]
    assert re.findall(r"nav-link nav-internal[^>]*>\s*([^<]+?)\s*<", menu)[:6] == GROUPS


@pytest.mark.parametrize("page", ["draw", "learn", "tables", "layer", "judge"])
def test_a_notebook_has_its_outputs_and_pictures(site, page):
    text = (site / "tutorials" / f"{page}.html").read_text()
    assert text.count("cell_output") >= 4
    assert "data:image/png" in text or "_images/" in text


def test_the_reference_has_every_public_name(site):
    text = "".join(page.read_text() for page in (site / "reference").glob("*.html"))
    for name in set(nelson.__all__) - {"__version__", "log_z", "metrics"}:
        assert f'id="nelson.{name}"' in text or f'id="module-nelson.{name}"' in text, name
    assert 'id="nelson.log_z.log_z"' in text


def test_a_search_finds_a_public_name(site):
    if chromium() is None:
        pytest.skip("NO CHROMIUM: the search of the documentation is not tried")
    command = [
        chromium(), "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=20000",
        "--dump-dom", f"{(site / 'search.html').as_uri()}?q=LovaszLayer",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert "reference/distribution.html" in done.stdout
    nothing = subprocess.run(
        [*command[:-1], command[-1].replace("LovaszLayer", "Zwetschge")],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert "reference/distribution.html#" not in nothing.stdout
