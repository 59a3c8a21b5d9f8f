"""Run the tasks: `python -m lab prediction --data FOLDER -o FOLDER`.

For each task and method, with the same budget:

1. Tuning. Each of the method's settings is trained on the training rows with two seeds. Every few
   epochs the validation rows are predicted; setting and epoch are chosen by exact match (a mean
   over three looks), for each way to predict by itself.
2. Ten seeds with that setting learn training and validation rows for that number of epochs, and
   predict the test rows, once.
3. At the end one epoch of each method is timed, alone.

Results are lines of `rows.jsonl`. Whatever stands there, or in a file named by `--done`, is not
computed again. Processes share one GPU, or the cores.
"""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing
import os
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lab.prediction import NAMES, load, small
from lab.prediction.methods import METHODS, Setting
from lab.prediction.tasks import Task
from lab.prediction.training import Data, Member, Training, seconds_per_epoch
from nelson import CircuitLayer
from nelson.exact.circuit import disk_cache
from nelson.exact.compiled import compiled

Row = dict[str, Any]

SEEDS, TUNED_SEEDS = 10, 2
#: Looks at the validation rows while a setting is tuned.
LOOKS = 20
#: Epochs of tuning, at most: more for tasks whose epochs have few steps.
EPOCHS = {
    "imclef07a": 80, "imclef07d": 80, "diatoms": 200, "enron": 120,
    small.PATHS: 260, small.PATHS_GIVEN: 160, small.SUSHI: 60,
}  # fmt: skip
FUN_EPOCHS = 140
#: Each method has six settings.
_COMMON = (
    Setting(), Setting(rate=3e-4), Setting(dropout=0.5),
    Setting("deep"), Setting("deep", rate=3e-4), Setting("deep", dropout=0.5),
)  # fmt: skip
SETTINGS: dict[str, tuple[Setting, ...]] = {
    **dict.fromkeys(("network", "likelihood", "max-constraint", "contrastive"), _COMMON),
    "semantic loss": (
        *_COMMON[:2], Setting(semantic=1.0),
        *_COMMON[3:5], Setting("deep", semantic=1.0),
    ),
    "mixture": (
        Setting(components=8), Setting(components=32), Setting(rate=3e-4, components=32),
        Setting("deep", components=8), Setting("deep", components=32),
        Setting("deep", rate=3e-4, components=32),
    ),
}  # fmt: skip


class Late(Exception):
    """The seconds are over."""


class Lost:
    """A worker ended early."""


class Job:
    """One method on one task."""

    def __init__(self, task: Task, name: str, device: torch.device, deadline: float) -> None:
        self.task, self.name, self.deadline = task, name, deadline
        self.data = Data.of(task, device)
        self.layer = CircuitLayer(task.formula).to(device)
        self.key = {"task": task.name, "method": name}

    def epochs(self) -> int:
        return EPOCHS.get(self.task.name, FUN_EPOCHS)

    def training(self, members: list[Member]) -> Training:
        torch.manual_seed(sum(m.seed for m in members))
        return Training(self.task, self.name, members, self.data, self.layer)

    def tuned(self, settings: list[Setting], epochs: int) -> list[Row]:
        """Settings of one shape: exact match on validation rows at each look, in per cent."""
        members = [Member(one, seed) for one in settings for seed in range(TUNED_SEEDS)]
        parts = [self.task.parts(m.seed) for m in members]
        rows, held = np.stack([p.train for p in parts]), np.stack([p.valid for p in parts])
        training, every = self.training(members), max(1, epochs // LOOKS)
        looks: list[dict[str, np.ndarray]] = []
        started = time.perf_counter()
        for epoch in training.epochs(rows):
            if time.monotonic() > self.deadline:
                raise Late
            if epoch % every == 0:
                looks.append(training.exact(held))
            if epoch >= epochs:
                break
        seconds = time.perf_counter() - started
        found = []
        for k, setting in enumerate(settings):
            own = slice(k * TUNED_SEEDS, (k + 1) * TUNED_SEEDS)
            for predictor in training.method.predictors:
                values = [100 * float(look[predictor][own].mean()) for look in looks]
                found.append(
                    {
                        "kind": "tuned", **self.key, "predictor": predictor,
                        "setting": asdict(setting), "every": every, "valid_exact": values,
                        "seconds": seconds,
                    }
                )  # fmt: skip
        return found

    def final(self, setting: Setting, epochs: dict[str, int]) -> list[Row]:
        """Ten seeds on all rows but the test rows. epochs: of each predictor with this setting."""
        members = [Member(setting, seed) for seed in range(SEEDS)]
        parts = [self.task.parts(m.seed) for m in members]
        rows, held = np.stack([p.learned for p in parts]), np.stack([p.test for p in parts])
        training, found = self.training(members), []
        for epoch in training.epochs(rows):
            if time.monotonic() > self.deadline:
                raise Late
            for predictor in [p for p, last in epochs.items() if last == epoch]:
                for m, row in zip(members, training.measures(predictor, held), strict=True):
                    key = {"kind": "final", **self.key, "predictor": predictor, "seed": m.seed}
                    found.append({**key, "setting": asdict(setting), "epochs": epoch, **row})
            if epoch >= max(epochs.values()):
                break
        return found

    def timed(self, setting: Setting) -> Row:
        """An epoch of one member on the training rows."""
        training = self.training([Member(setting, 0)])
        seconds = seconds_per_epoch(training, self.task.parts(0).train[None])
        return {
            "kind": "timed", **self.key, "setting": asdict(setting), "epoch_seconds": seconds,
            "rows": len(self.task.parts(0).train),
        }  # fmt: skip


def groups(settings: Iterable[Setting]) -> list[list[Setting]]:
    """Settings that one stack can hold: they differ in learning rate and dropout."""
    found: dict[Setting, list[Setting]] = {}
    for one in settings:
        found.setdefault(replace(one, rate=0.0, dropout=None), []).append(one)
    return list(found.values())


def chosen(tuned: Iterable[Row]) -> dict[str, tuple[Setting, int]]:
    """By predictor: the setting and the number of epochs."""
    best: dict[str, tuple[float, Setting, int]] = {}
    for row in tuned:
        values = np.pad(row["valid_exact"], 1, mode="edge")
        smooth = np.convolve(values, np.ones(3) / 3, mode="valid")
        k = int(smooth.argmax())
        if row["predictor"] not in best or smooth[k] > best[row["predictor"]][0]:
            epochs = (k + 1) * row["every"]
            best[row["predictor"]] = float(smooth[k]), Setting(**row["setting"]), epochs
    return {predictor: (setting, epochs) for predictor, (_, setting, epochs) in best.items()}


def run_job(
    job: Job, known: list[Row], write: Callable[[list[Row]], None], epochs: int | None = None
) -> None:
    """What is missing of a job. epochs: instead of those of the task."""
    tuned = [row for row in known if row["kind"] == "tuned"]
    have = [Setting(**row["setting"]) for row in tuned]
    for group in groups(one for one in SETTINGS[job.name] if one not in have):
        rows = job.tuned(group, epochs or job.epochs())
        write(rows)
        tuned += rows
    ways = chosen(tuned)
    ready = {row["predictor"] for row in known if row["kind"] == "final"}
    by_setting: dict[Setting, dict[str, int]] = {}
    for predictor, (setting, last) in ways.items():
        if predictor not in ready:
            by_setting.setdefault(setting, {})[predictor] = last
    for setting, lasts in by_setting.items():
        write(job.final(setting, lasts))


def times(options: argparse.Namespace, rows: list[Row]) -> list[Row]:
    """An epoch of each method with the setting that was chosen, alone on the machine."""
    found, done = [], {(r["task"], r["method"]) for r in rows if r["kind"] == "timed"}
    for name in options.task:
        own = [r for r in rows if r["task"] == name and r["kind"] == "final"]
        task = load(options.data, name)
        for method in METHODS:
            settings = [Setting(**r["setting"]) for r in own if r["method"] == method]
            if settings and (name, method) not in done and time.monotonic() < options.deadline:
                job = Job(task, method, torch.device(options.device), options.deadline)
                found.append(job.timed(settings[-1]))
    return found


#: Methods in running order: what the page needs most comes first.
ORDER = ("mixture", "network", "likelihood", "max-constraint", "semantic loss", "contrastive")
#: Seconds that the times of epochs get at the end.
FOR_TIMES = 25.0


def weight(name: str, method: str) -> tuple[int, float]:
    """The place of a job: within a method, jobs that take long come first."""
    sizes = {"imclef07a": 4.0, "imclef07d": 4.0, "paths": 3.0, "seq": 2.0, "diatoms": 1.5}
    return ORDER.index(method), -sizes.get(name, 1.0)


def _worker(jobs: Any, results: Any, known: list[Row], options: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    torch.backends.cuda.matmul.allow_tf32 = True
    device, tasks = torch.device(options.device), {}
    while time.monotonic() < options.deadline:
        try:
            name, method = jobs.pop(0)
        except IndexError:
            break
        started = time.monotonic()
        try:
            if name not in tasks:
                tasks = {name: load(options.data, name)}
            job = Job(tasks[name], method, device, options.deadline)
            own = [r for r in known if (r["task"], r["method"]) == (name, method)]
            run_job(job, own, results.put, options.epochs)
            results.put(f"{name}, {method}: {time.monotonic() - started:.0f} s")
        except Late:
            results.put(f"{name}, {method}: no time left")
        except Exception:
            results.put(f"{name}, {method}: {traceback.format_exc()}")
            if device.type == "cuda":  # its state is lost: another process takes over
                results.put(Lost())
                return
        if device.type == "cuda":
            gc.collect()  # a training and its graph hold each other
            torch.cuda.empty_cache()
    results.put(None)


def planned(tasks: list[str], methods: list[str]) -> list[tuple[str, str]]:
    every = [
        (name, method)
        for name in tasks
        for method in methods
        if method != "max-constraint" or name not in small.TEST_BY_SEED  # a layer for hierarchies
    ]
    return sorted(every, key=lambda one: weight(*one))


def keep_circuits(data: str) -> None:
    """Keep the circuits of all tasks on disk, for a machine without a compiler: the folder is that
    of NELSON_CACHE_DIR.
    """
    for name in NAMES:
        formula = load(data, name).formula
        if (found := compiled(formula)) is not None:
            arrays = {"n": np.int64(found.circuit.n), **found.circuit.arrays}
            disk_cache.save(disk_cache.kept_name(formula), arrays)
            print(f"{name}: {found.why}")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m lab prediction", description=__doc__)
    parser.add_argument("--data", required=True, help="folder of hmc.tar.xz and the others")
    parser.add_argument("-o", "--output", required=True, type=Path)
    parser.add_argument("--done", type=Path, nargs="*", default=[], help="rows.jsonl of other runs")
    parser.add_argument("--seconds", type=float, default=1e9, help="stop then")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--epochs", type=int, help="of tuning, for a dry run")
    parser.add_argument("--task", nargs="*", default=list(NAMES))
    parser.add_argument("--method", nargs="*", default=list(METHODS))
    parser.add_argument("--no-times", action="store_true", help="of epochs, measured at the end")
    parser.add_argument("--keep-circuits", action="store_true", help="compile them, and end")
    options = parser.parse_args(arguments)
    if options.keep_circuits:
        keep_circuits(options.data)
        return 0
    over = time.monotonic() + options.seconds
    options.deadline = over - (0.0 if options.no_times else FOR_TIMES)
    options.output.mkdir(parents=True, exist_ok=True)
    path = options.output / "rows.jsonl"
    files = [f for f in (path, *options.done) if f.exists()]
    known = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    context = multiprocessing.get_context("spawn")
    with context.Manager() as manager, path.open("a") as stream:

        def save(rows: list[Row]) -> None:
            stream.write("".join(json.dumps(row) + "\n" for row in rows))
            stream.flush()

        cuda = options.device == "cuda"
        about = {
            "kind": "run", "task": "", "method": "", "started": time.strftime("%Y-%m-%d"),
            "device": torch.cuda.get_device_name() if cuda else "CPU", "torch": torch.__version__,
            "processes": options.processes, "cores": os.cpu_count(), "load": os.getloadavg()[0],
        }  # fmt: skip
        save([about])
        jobs = manager.list(planned(options.task, options.method))
        results: Any = manager.Queue()
        workers: list[Any] = []

        def start() -> None:
            workers.append(
                context.Process(target=_worker, args=(jobs, results, known, options), daemon=True)
            )
            workers[-1].start()

        for _ in range(options.processes):
            start()
        running, started = len(workers), time.monotonic()
        while running:
            item = results.get()
            if item is None:
                running -= 1
            elif isinstance(item, Lost):
                start()
            elif isinstance(item, str):
                print(f"{time.monotonic() - started:.0f} s  {item}", flush=True)
            else:
                save(item)
        for worker in workers:
            worker.join()
        if not options.no_times:
            options.deadline = over
            rows = [json.loads(line) for line in path.read_text().splitlines()]
            save(times(options, known + rows))
        save([{**about, "kind": "end", "seconds": time.monotonic() - started}])
        print(f"{len(jobs)} jobs are left", flush=True)
    return 0


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    raise SystemExit(main())
