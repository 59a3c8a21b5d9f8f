"""The cache of compiled kernels notices every edit, refuses functions it would not notice, and is
read only from a folder that no other user can write to.
"""

from __future__ import annotations

import builtins
import functools
import os
import pickle
import re
import stat
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest

import nelson
from nelson.formula.extremal import condition1
from nelson.kernels.core import bernoulli, bits, built_kernels, compile, folders, kernel_cache
from nelson.kernels.core.folders import private_folder

PACKAGE = Path(nelson.__file__).parent
DECORATORS = ("kernel", "helper", "inline")


def function_in(path: Path):
    """A function whose file is said to be `path`."""
    scope: dict = {}
    exec(builtins.compile("def double(x):\n    return 2 * x\n", str(path), "exec"), scope)
    return scope["double"]


@pytest.mark.parametrize("decorator", DECORATORS)
@pytest.mark.parametrize("place", ["exact/circuit/nnf.py", "../kernels/outside.py", "kernels.py"])
def test_a_function_in_another_folder_is_refused(decorator, place):
    with pytest.raises(ImportError, match=r"double in .*move the function into such a folder"):
        getattr(compile, decorator)(function_in(PACKAGE / place))


@pytest.mark.parametrize("decorator", ["helper", "inline"])  # not cached, so no such file is needed
@pytest.mark.parametrize("place", ["kernels/core/new.py", "space/kernels/deeper/new.py"])
def test_a_function_in_a_folder_of_kernels_is_compiled(decorator, place):
    assert getattr(compile, decorator)(function_in(PACKAGE / place))(21) == 42


def test_the_digest_changes_with_every_file_of_kernels(tmp_path):
    inside = ["kernels/__init__.py", "kernels/cpu/a.py", "tasks/arcs/kernels/b.py"]
    for name in (*inside, "tasks/arcs/task.py", "kernels.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x = 1\n")
    digests = [kernel_cache.digest(tmp_path)]
    for name in inside:
        (tmp_path / name).write_text("x = 2\n")
        digests.append(kernel_cache.digest(tmp_path))
    (tmp_path / "tasks/arcs/kernels/new.py").write_text("x = 1\n")
    digests.append(kernel_cache.digest(tmp_path))
    assert len(set(digests)) == len(inside) + 2
    for name in ("tasks/arcs/task.py", "kernels.py"):  # no kernel can lie in these
        (tmp_path / name).write_text("x = 2\n")
    assert kernel_cache.digest(tmp_path) == digests[-1]


def test_the_digest_of_the_package_covers_every_compiled_function():
    decorated = re.compile(rf"^@({'|'.join(DECORATORS)})$", re.MULTILINE)
    files = [file for file in PACKAGE.rglob("*.py") if decorated.search(file.read_text())]
    rooms = {file.relative_to(PACKAGE).parts[0] for file in files}
    assert "kernels" in rooms
    assert set(files) <= set(kernel_cache.sources())


# --- the cache folder: its files are pickles, so it must be private ------------------------------

BOMB = """
import hashlib, os, pickle, sys
from pathlib import Path
import numba
class Bomb:
    def __reduce__(self):
        return os.mkdir, (sys.argv[2],)
for folder, _, files in os.walk(sys.argv[1]):
    for name in files:
        if name.endswith(".nbi"):
            content = pickle.dumps(Bomb())  # whoever can write there can write the digest, too
            place = "/".join([*Path(folder).parts[-2:], name, numba.__version__])
            digest = hashlib.sha256(f"{place}\\n".encode() + content).digest()
            Path(folder, name).write_bytes(digest + content)
            print(name)
"""
#: Loads one compiled kernel from the cache, or compiles it.
USE = """
import numpy as np
from nelson.kernels.core.bits import pack, unpack
from nelson.kernels.core import built_kernels
from nelson.kernels.core.kernel_cache import folder
built_kernels.library = lambda: None  # not those that came with the package
x = np.arange(70 * 3).reshape(70, 3) % 2 == 0
assert (unpack(pack(x), 70) == x).all()
print(folder())
"""


def python(code: str, *args: object, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "always", "-c", code, *map(str, args)]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    env |= environment
    return subprocess.run(command, capture_output=True, text=True, env=env, timeout=240)


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("prepared", ["private", "others may write", "folder above", "temporary"])
def test_a_prepared_index_is_unpickled_only_from_a_private_folder(tmp_path, prepared):
    """Numba unpickles its index files. The twin "private" shows that a prepared one is loaded and
    runs its code; where another user could have prepared it, it is not touched.
    """
    base, empty = tmp_path / "cache", tmp_path / "empty"
    empty.mkdir(mode=0o700)
    environment = {"NUMBA_CACHE_DIR": str(base), "TMPDIR": str(empty)}
    if prepared == "temporary":  # no cache folder of the user: a known name in the temporary folder
        (tmp_path / "file").write_text("no folder")
        environment = {"NUMBA_CACHE_DIR": str(tmp_path / "file"), "TMPDIR": str(base)}
        base.mkdir(mode=0o700)
    first = python(USE, **environment)
    assert first.returncode == 0, first.stderr
    folder = Path(first.stdout.strip())
    assert folder.is_relative_to(base) and stat.S_IMODE(folder.stat().st_mode) == 0o700
    planted = python(BOMB, folder, tmp_path / "ran")
    assert "bits._pack" in planted.stdout
    if prepared in ("others may write", "temporary"):
        folder.chmod(0o777)
    elif prepared == "folder above":
        base.chmod(0o777)
    done = python(USE, tmp_path / "ran", **environment)
    assert (tmp_path / "ran").exists() == (prepared == "private")
    if prepared == "private":
        return
    assert done.returncode == 0, done.stderr
    if prepared == "temporary":
        assert done.stdout.strip() == "None"
        assert "compiled kernels are not kept" in done.stderr
        assert "other users may write" in done.stderr
        assert "compiling kernels for this machine (not kept)" in done.stderr
    else:  # the next place is private
        assert Path(done.stdout.strip()).is_relative_to(empty)


def test_a_private_folder_is_made_and_found_again(tmp_path):
    place = tmp_path / "a" / "b" / "c"
    assert private_folder(place) == place.resolve()
    assert {stat.S_IMODE(part.stat().st_mode) for part in (place, place.parent)} == {0o700}
    (place / "file").write_text("kept")
    assert (private_folder(place) / "file").read_text() == "kept"


def test_a_folder_that_others_could_only_read_becomes_private(tmp_path):
    """Earlier versions made it with mode 0755: nobody else can have written to it."""
    (tmp_path / "c").mkdir(mode=0o755)
    (tmp_path / "c").chmod(0o755)
    assert stat.S_IMODE(private_folder(tmp_path / "c").stat().st_mode) == 0o700


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o707, 0o720, 0o702, 0o1777])
def test_a_folder_that_others_may_write_to_is_refused(tmp_path, mode):
    (tmp_path / "c").mkdir()
    (tmp_path / "c").chmod(mode)
    with pytest.raises(PermissionError, match="other users may write to"):
        private_folder(tmp_path / "c")
    assert stat.S_IMODE((tmp_path / "c").stat().st_mode) == mode  # and not repaired


def test_a_link_is_refused_also_to_a_private_folder(tmp_path):
    (tmp_path / "own").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "own")
    (tmp_path / "dangling").symlink_to(tmp_path / "nothing")
    (tmp_path / "file").write_text("")
    for name in ("link", "dangling", "file"):
        with pytest.raises(PermissionError, match="is a link, or no folder"):
            private_folder(tmp_path / name)
    assert not (tmp_path / "nothing").exists()
    # A link further up is replaced by the place it leads to, and that is checked.
    assert private_folder(tmp_path / "link" / "c") == tmp_path.resolve() / "own" / "c"
    (tmp_path / "own").chmod(0o777)
    with pytest.raises(PermissionError, match="other users may write to"):
        private_folder(tmp_path / "link" / "c")


def test_a_folder_of_another_user_is_refused(tmp_path, monkeypatch):
    """Another user made the folder, or one above it."""
    (tmp_path / "up" / "c").mkdir(parents=True, mode=0o700)
    real = os.lstat
    for stranger in map(os.path.realpath, (tmp_path / "up" / "c", tmp_path / "up")):

        def foreign(path, stranger=stranger, **options):
            about = real(path, **options)
            if os.fspath(path) != stranger:
                return about
            return os.stat_result([*about[:4], about.st_uid + 12345, *about[5:]])

        monkeypatch.setattr(folders.os, "lstat", foreign)
        with pytest.raises(PermissionError, match="belongs to another user"):
            private_folder(tmp_path / "up" / "c")
    monkeypatch.setattr(folders.os, "lstat", real)
    private_folder(tmp_path / "up" / "c")
    monkeypatch.setattr(folders.os, "geteuid", lambda: real(tmp_path).st_uid + 12345)
    with pytest.raises(PermissionError, match="belongs to another user"):
        private_folder(tmp_path / "up" / "c")


def test_others_may_write_above_only_if_the_folder_is_sticky(tmp_path):
    (tmp_path / "up" / "c").mkdir(parents=True, mode=0o700)
    (tmp_path / "up").chmod(0o777)
    with pytest.raises(PermissionError, match=r"other users may write to .*up"):
        private_folder(tmp_path / "up" / "c")
    (tmp_path / "up").chmod(0o1777)
    private_folder(tmp_path / "up" / "c")


def test_the_own_group_of_a_user_may_write_above(tmp_path, monkeypatch):
    """Many systems give each user a group of one, and make folders writable for it."""
    (tmp_path / "up" / "c").mkdir(parents=True, mode=0o700)
    (tmp_path / "up").chmod(0o770)
    group = (tmp_path / "up").stat().st_gid
    me = SimpleNamespace(pw_name="me", pw_gid=group)

    def members(name, *others):
        found = SimpleNamespace(gr_name=name, gr_mem=list(others))
        monkeypatch.setattr(folders, "grp", SimpleNamespace(getgrgid=lambda _: found))

    monkeypatch.setattr(folders, "pwd", SimpleNamespace(getpwuid=lambda _: me))
    members("me")
    private_folder(tmp_path / "up" / "c")
    for name, others in (("users", ()), ("me", ("other",))):
        members(name, *others)
        with pytest.raises(PermissionError, match="other users may write to"):
            private_folder(tmp_path / "up" / "c")


def test_without_a_private_folder_kernels_are_compiled_and_not_cached(monkeypatch):
    monkeypatch.setattr(kernel_cache, "folder", lambda: None)
    double = compile.kernel(function_in(PACKAGE / "kernels/core/new.py"))
    assert double(21) == 42  # no library has it
    assert type(double.compiled._cache._user).__name__ == "NullCache"


def test_a_warning_names_every_reason_once(tmp_path, monkeypatch):
    for name in ("cache", "tmp"):
        (tmp_path / name).mkdir()
        (tmp_path / name).chmod(0o777)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(kernel_cache.tempfile, "gettempdir", lambda: str(tmp_path / "tmp"))
    choose = functools.cache(kernel_cache.folder.__wrapped__)
    with pytest.warns(RuntimeWarning, match=r"(?s)not kept.*cache.*tmp") as caught:
        assert choose() is None
    assert choose() is None and len(caught) == 1


# --- kernels that come with the package ----------------------------------------------------------


def test_levels_need_all_of_their_instructions():
    v3, v4 = (
        {built_kernels._LINUX.get(name, name) for name in built_kernels.LEVELS[f"x86-64-v{k}"]}
        for k in (3, 4)
    )
    assert built_kernels.usable("x86-64-v3", v3) and built_kernels.usable("x86-64-v3", v4)
    assert built_kernels.usable("x86-64-v4", v4) and not built_kernels.usable("x86-64-v4", v3)
    assert not built_kernels.usable("x86-64-v3", v3 - {"avx2"})
    assert not built_kernels.usable("x86-64-v3", set())


def test_built_kernels_of_other_sources_are_not_loaded(monkeypatch, tmp_path):
    monkeypatch.setattr(kernel_cache, "BUILT", tmp_path)
    path, levels = built_kernels.path.__wrapped__, built_kernels.built_levels.__wrapped__
    monkeypatch.setattr(built_kernels, "path", path)
    (tmp_path / "x86-64-v3").mkdir()
    (tmp_path / "x86-64-v3" / ("kernels-" + "0" * 16 + ".so")).touch()
    assert levels() == ()
    path("x86-64-v3").touch()
    assert levels() == ("x86-64-v3",)


class Pair(NamedTuple):
    numbers: np.ndarray
    count: int


def flat(*args):
    types, words = [], []
    built_kernels._flatten(args, types, words)
    return "".join(types), words


def test_arguments_become_types_and_words():
    numbers, grid = np.arange(3, dtype=np.int32), np.zeros((2, 4))
    types, words = flat(Pair(numbers, 5), True, np.uint64(2**63), -1, 0.5, (0, 0), grid, grid[:, 1])
    assert types == "((i1q)?Qqd(qq)d2d1A)"
    assert words[:4] == [id(numbers), 5, 1, -(2**63)] and words[4] == -1 and words[-1] != id(grid)
    assert flat(np.zeros(3, np.int32)[::-1])[0] != flat(np.zeros(3, np.int32))[0]
    for other in (None, np.zeros(3, ">i4"), np.float32(1), "text"):
        with pytest.raises(built_kernels.NotBuilt):
            flat(other)


def test_a_numpy_that_keeps_its_fields_elsewhere_gets_no_library(monkeypatch):
    assert built_kernels._fields_are_right()
    monkeypatch.setattr(built_kernels, "FIELDS", (16, 40, 32))
    assert not built_kernels._fields_are_right()


@pytest.mark.slow
def test_built_kernels_give_what_numba_compiles(monkeypatch):
    """Results of all types, and arrays that are written; what was not built is compiled."""
    library = built_kernels.library()
    if library is None:
        pytest.skip("no kernels were built for this processor: make kernels")
    x = np.random.default_rng(1).random((70, 9)) < 0.5
    thr = np.random.default_rng(2).integers(0, 2**32, (2, 9)).astype(np.uint32)

    def results():
        formula = nelson.Formula([[1, 2, 3], [-1, -2], [-1, -3], [2, -3, 4]])
        table = bernoulli.law(thr)
        drawn = nelson.sample(formula, np.linspace(-1, 1, 4), 300, seed=4, method="lovasz")
        return bits.pack(x), table.table, table.max_rows, drawn.packed, condition1(formula)

    calls = []
    call = library.call

    def counted(name, args):
        calls.append(name)
        return call(name, args)

    monkeypatch.setattr(library, "call", counted)
    built = results()
    assert len({*calls}) >= 4
    monkeypatch.setattr(built_kernels, "library", lambda: None)
    for one, other in zip(built, results(), strict=True):
        assert np.array_equal(one, other) and type(one) is type(other)


SMALL = """
import sys
import nelson
s = nelson.sample(nelson.Formula([[1, 2], [-1, 3], [2, -4, 5], [-3, 4], [-4, 3]]), n=60, seed=0)
print(len(s), s.guarantee, sorted({"numba", "scipy", "llvmlite", "torch"} & set(sys.modules)))
"""


LOADED = "{USE}\nimport sys\nprint({{'numba'}} & set(sys.modules))"


@pytest.mark.process
def test_a_draw_loads_no_compiler():
    """The twin without the library shows that it would be seen."""
    if built_kernels.library() is None:
        pytest.skip("no kernels were built for this processor: make kernels")
    assert python(SMALL).stdout.strip() == "60 exact []"
    assert "numba" in python(LOADED.format(USE=USE)).stdout


def test_kernels_are_pickled_by_name():
    assert pickle.loads(pickle.dumps(bits._pack)) is bits._pack
