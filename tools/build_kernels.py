"""`python tools/build_kernels.py`: compile the kernels that a wheel brings, for each level of x86.

A process for each level, two at a time, calls every kernel in the ways in which the library calls
it (`tools/kernel_calls.py`), and Numba compiles for the level as if this processor had nothing
more. Each kernel gets an entry that reads its arguments from an array of words, as
`nelson.kernels.core.built_kernels` passes them. The C compiler links all kernels of a level into
one shared library, which lies in the user's cache folder, so that a second build of the same
sources takes no time, and is copied into `src/nelson/kernels/built`. A level that this processor
lacks is left out, loudly: its kernels could not be called.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from nelson.kernels.core import built_kernels, kernel_cache
from nelson.kernels.core.folders import cache_folder, private_folder

#: Set in the process that compiles a level: where its library is to be written.
LIBRARY = "NELSON_BUILT_LIBRARY"


def usable_levels() -> list[str]:
    """The levels that this processor has; a warning for each of the others."""
    have, levels = built_kernels.instructions(), []
    for level in built_kernels.LEVELS:
        if built_kernels.usable(level, have):
            levels.append(level)
        else:
            print(f"*** WARNING: this processor is no {level}: its kernels are not built.")
    return levels


# --- in the process of a level --------------------------------------------------------------------


class Recorder:
    """In place of Numba's cache of a kernel: writes an object file for each signature."""

    cache_path = ""

    def __init__(self, function: Any) -> None:
        self.name = f"{function.__module__}.{function.__qualname__}"
        self.ours = function.__module__.startswith("nelson.")

    def load_overload(self, sig: Any, target_context: Any) -> None:
        """Everything is compiled anew."""

    def flush(self) -> None:
        """Nothing is kept."""

    def save_overload(self, sig: Any, compiled: Any) -> None:
        with contextlib.suppress(UnknownType):
            if self.ours:
                objects.append(object_code(self.name, compiled))


class UnknownType(Exception):
    """No call of the library has arguments of this type; another kernel calls this one so."""


#: The object files of this process.
objects: list[bytes] = []


def object_code(name: str, compiled: Any) -> bytes:
    """The kernel as position-independent machine code that exports one symbol."""
    import llvmlite.binding as llvm

    descriptor, signature = compiled.fndesc, compiled.signature
    module = llvm.parse_bitcode(compiled.library._final_module.as_bitcode())
    inner = module.get_function(descriptor.llvm_func_name)
    symbol, text = entry(name, inner, signature)
    module.link_in(llvm.parse_assembly(text))
    for value in [*module.functions, *module.global_variables]:
        if not value.is_declaration and value.name != symbol:
            value.linkage = "internal"
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=os.environ["NUMBA_CPU_NAME"],
        features=os.environ["NUMBA_CPU_FEATURES"],
        opt=3,
        reloc="pic",
        codemodel="small",
    )
    passes = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(module, llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options()))
    return machine.emit_object(module)


def entry(name: str, inner: Any, signature: Any) -> tuple[str, str]:
    """(symbol, code of a function that reads all arguments from words and calls the kernel)"""
    kinds = [str(argument.type) for argument in inner.arguments][2:]
    lines: list[str] = []
    values: list[str] = []
    place = 0

    def word() -> str:
        nonlocal place
        lines.append(f"%p{place} = getelementptr i64, ptr %args, i64 {place}")
        lines.append(f"%w{place} = load i64, ptr %p{place}")
        place += 1
        return f"%w{place - 1}"

    def value(text: str) -> None:
        values.append(text)

    def converted(read: str) -> str:
        kind, made = kinds[len(values)], f"%v{len(values)}"
        if kind == "i64":
            return read
        change = {"ptr": "inttoptr", "double": "bitcast"}.get(kind, "trunc")
        lines.append(f"{made} = {change} i64 {read} to {kind}")
        return made

    types = [name, *flattened(signature.args, word, value, converted, lines)]
    symbol = "".join(types)
    arguments = ", ".join(f"{kind} {v}" for kind, v in zip(kinds, values, strict=True))
    body = "\n  ".join(lines)
    declared = ", ".join(["ptr", "ptr", *kinds])
    return (
        symbol,
        f"""
declare i32 @"{inner.name}"({declared})
define i32 @"{symbol}"(ptr %args, ptr %result) {{
  %error = alloca ptr
  {body}
  %status = call i32 @"{inner.name}"(ptr %result, ptr %error, {arguments})
  %ok = icmp eq i32 %status, 0
  %none = icmp eq i32 %status, -2
  %fine = or i1 %ok, %none
  %kind = select i1 %fine, i32 {result_kind(signature.return_type)}, i32 -1
  ret i32 %kind
}}
""",
    )


def flattened(args: Any, word: Any, value: Any, converted: Any, lines: list[str]) -> list[str]:
    """The types as `built_kernels` writes them; appends the values that Numba's function takes."""
    from numba import types
    from numba.np.numpy_support import as_dtype

    told = ["("]
    for kind in args:
        if isinstance(kind, types.Array):
            dtype = as_dtype(kind.dtype)
            told.append(f"{dtype.char}{kind.ndim}{'' if kind.layout == 'C' else 'A'}")
            array, number = word(), f"%a{len(lines)}"

            def field(at: int, kind: str, of: str, array: str = array) -> str:
                name = f"%f{len(lines)}"
                lines.append(f"{name}p = inttoptr i64 {of} to ptr")
                lines.append(f"{name}a = getelementptr i8, ptr {name}p, i64 {at}")
                lines.append(f"{name} = load {kind}, ptr {name}a")
                return name

            data, lengths, steps = (field(at, "i64", array) for at in built_kernels.FIELDS)
            shape = [field(8 * k, "i64", lengths) for k in range(kind.ndim)]
            strides = [field(8 * k, "i64", steps) for k in range(kind.ndim)]
            size = "1"
            for k, length in enumerate(shape):
                lines.append(f"{number}n{k} = mul i64 {size}, {length}")
                size = f"{number}n{k}"
            for text in ("null", "null", size, str(dtype.itemsize)):
                value(text)
            value(converted(data))
            for text in (*shape, *strides):
                value(text)
        elif isinstance(kind, types.BaseTuple):
            told += flattened(kind.types, word, value, converted, lines)
        else:
            letter = {"int64": "q", "uint64": "Q", "float64": "d", "bool": "?"}.get(str(kind))
            if letter is None:
                raise UnknownType(str(kind))
            told.append(letter)
            value(converted(word()))
    return [*told, ")"]


def result_kind(kind: Any) -> int:
    from numba import types

    if isinstance(kind, types.UniTuple):
        assert kind.dtype == types.int64 and len(kind) <= built_kernels.RESULT_WORDS
        return built_kernels.TUPLE + len(kind)
    kinds = {"none": "NONE", "int64": "INT", "uint64": "UINT", "bool": "BOOL", "float64": "FLOAT"}
    return int(getattr(built_kernels, kinds[str(kind)]))


def compile_level(file: Path) -> None:
    """Compile all kernels for the level that the environment names, and link them."""
    sys.path.insert(0, str(Path(__file__).parent))
    import kernel_calls

    from nelson.kernels.core import compile, machine

    built_kernels.library = lambda: None  # type: ignore[assignment]
    machine._KernelCache = Recorder  # type: ignore[assignment,misc]
    for _, call in kernel_calls.steps():
        call()
    missing = [k.name for k in compile.kernels if not (k.compiled and k.compiled.overloads)]
    if missing:
        print(f"*** WARNING: no step of tools/kernel_calls.py calls {', '.join(missing)}")
    with tempfile.TemporaryDirectory() as folder:
        for number, code in enumerate(objects):
            (Path(folder) / f"{number}.o").write_bytes(code)
        unfinished = file.with_suffix(".unfinished")
        names = [f"{folder}/{number}.o" for number in range(len(objects))]
        link = ["cc", "-shared", "-Wl,--strip-all", "-Wl,-z,now", "-o", str(unfinished)]
        subprocess.run([*link, *names, "-lm"], check=True)
        unfinished.rename(file)
    print(f"{os.environ['NUMBA_CPU_NAME']}: {len(objects)} kernels")


# --- in the process that was called ---------------------------------------------------------------


def compiling(level: str, file: Path) -> subprocess.Popen[bytes] | None:
    """The process that compiles a level; None if the library is there."""
    if file.exists():
        return None
    environment = os.environ | {
        "NUMBA_CPU_NAME": level,
        "NUMBA_CPU_FEATURES": built_kernels.features(level),
        LIBRARY: str(file),
    }
    return subprocess.Popen([sys.executable, __file__], env=environment)


def main() -> None:
    if LIBRARY in os.environ:
        compile_level(Path(os.environ[LIBRARY]))
        return
    begun = time.monotonic()
    shutil.rmtree(kernel_cache.BUILT, ignore_errors=True)
    if shutil.which("cc") is None:
        print("*** WARNING: no C compiler (cc) links the kernels: none come with this package.")
        print("***          Every method compiles its kernels at its first call.")
        return
    work = {level: private_folder(cache_folder() / "built" / level) for level in usable_levels()}
    files = {level: place / built_kernels.path(level).name for level, place in work.items()}
    processes = {level: compiling(level, file) for level, file in files.items()}
    failed = [level for level, process in processes.items() if process and process.wait()]
    if failed:
        sys.exit(f"the kernels of {', '.join(failed)} could not be compiled")
    for level, file in files.items():
        built_kernels.path(level).parent.mkdir(parents=True)
        shutil.copy(file, built_kernels.path(level))
        size, seconds = file.stat().st_size / 2**20, time.monotonic() - begun
        print(f"{level}: {size:.1f} MiB, after {seconds:.0f} s")


if __name__ == "__main__":
    main()
