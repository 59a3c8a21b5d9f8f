"""A page in headless Chromium, over the DevTools protocol on a pipe: what is there, what fails.

    seen = look(path)
    seen.tables, seen.images, seen.problems

No driver and no package is needed, only the browser (Debian: `apt-get install chromium`).
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe",
)  # fmt: skip
PATIENCE = 120.0  # seconds for all of it

#: Waits for all pictures, then says what the page holds. A picture that is broken is 0 wide.
FACTS = """
(async () => {
  const images = [...document.images];
  await Promise.all(images.map(image => image.decode().catch(() => null)));
  const color = getComputedStyle(document.body);
  return {
    title: document.title,
    text: document.body.innerText,
    images: images.map(image => [image.naturalWidth, image.getBoundingClientRect().width]),
    tables: [...document.querySelectorAll("table")].map(table => [...table.rows].map(
      row => [...row.cells].map(cell => cell.textContent))),
    timeouts: [...document.querySelectorAll("td.timeout")].map(cell => cell.textContent),
    scripts: document.scripts.length,
    ink: color.color, ground: color.backgroundColor,
    overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    sticky: [...document.querySelectorAll("thead th")].map(c => getComputedStyle(c).position),
  };
})()
"""


#: The browser reads file descriptor 3 and writes 4: put them there, then become the browser.
LAUNCH = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]
for place, end in zip((3, 4), ends):
    os.dup2(end, place)
    os.close(end)
os.execv(sys.argv[3], sys.argv[3:])
"""


def chromium() -> str | None:
    """The browser's program, or None."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


@dataclass
class Seen:
    """What the browser says of a page."""

    facts: dict
    requests: list[str] = field(default_factory=list)  # all URLs asked for but the page's own
    errors: list[str] = field(default_factory=list)  # console errors, failed loads

    @property
    def problems(self) -> list[str]:
        """Whatever is wrong: empty for a good page."""
        broken = [f"picture {k}" for k, (w, _) in enumerate(self.facts["images"]) if not w]
        outside = [url[-80:] for url in self.requests if not url.startswith("data:")]
        return broken + outside + self.errors


class _Pipe:
    def __init__(self, read: int, write: int) -> None:
        self._read, self._write, self._number, self._rest = read, write, 0, b""
        self.events: list[dict] = []
        self._until = time.monotonic() + PATIENCE

    def _message(self) -> dict:
        while b"\0" not in self._rest:
            left = self._until - time.monotonic()
            if left <= 0 or not select.select([self._read], [], [], left)[0]:
                raise TimeoutError("the browser does not answer")
            data = os.read(self._read, 1 << 16)
            if not data:
                raise EOFError("the browser has ended")
            self._rest += data
        text, _, self._rest = self._rest.partition(b"\0")
        return json.loads(text)

    def ask(self, method: str, session: str | None = None, **params) -> dict:
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        data = json.dumps(message | ({"sessionId": session} if session else {})).encode() + b"\0"
        while data:
            data = data[os.write(self._write, data) :]
        while (answer := self._message()).get("id") != self._number:
            self.events.append(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def wait(self, method: str) -> None:
        while not any(event.get("method") == method for event in self.events):
            self.events.append(self._message())


@contextmanager
def _browser():
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        child = subprocess.Popen(
            [sys.executable, "-c", LAUNCH, str(theirs_in), str(theirs_out), str(chromium()),
             *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(theirs_in, theirs_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env=os.environ | {"TMPDIR": profile},  # what it leaves behind goes with the profile
        )  # fmt: skip
        os.close(theirs_in)
        os.close(theirs_out)
        try:
            yield _Pipe(ours_in, ours_out)
        finally:
            try:
                os.killpg(child.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            child.wait()
            os.close(ours_in)
            os.close(ours_out)


def look(
    path: str | os.PathLike,
    *,
    dark: bool = False,
    width: int = 1200,
    height: int = 900,
    screenshot: str | os.PathLike | None = None,
) -> Seen:
    """Open a file, in the light or the dark, on a screen of that width."""
    with _browser() as pipe:
        target = pipe.ask("Target.createTarget", url="about:blank")["targetId"]
        session = pipe.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            pipe.ask(f"{domain}.enable", session)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        pipe.ask("Emulation.setEmulatedMedia", session, features=[scheme])
        pipe.ask(
            "Emulation.setDeviceMetricsOverride", session,
            width=width, height=height, deviceScaleFactor=1, mobile=width < 600,
        )  # fmt: skip
        pipe.events.clear()
        url = Path(path).resolve().as_uri()
        pipe.ask("Page.navigate", session, url=url)
        pipe.wait("Page.loadEventFired")
        said = pipe.ask(
            "Runtime.evaluate", session, expression=FACTS, awaitPromise=True, returnByValue=True
        )
        seen = Seen(said["result"]["value"])
        for event in pipe.events:
            _take(event.get("method", ""), event.get("params", {}), url, seen)
        if screenshot:
            size = pipe.ask("Page.getLayoutMetrics", session)["cssContentSize"]
            clip = {"x": 0, "y": 0, "width": width, "height": size["height"], "scale": 1}
            image = pipe.ask(
                "Page.captureScreenshot", session, clip=clip, captureBeyondViewport=True
            )
            Path(screenshot).write_bytes(base64.b64decode(image["data"]))
        return seen


def _take(method: str, params: dict, url: str, seen: Seen) -> None:
    if method == "Network.requestWillBeSent" and params["request"]["url"] != url:
        seen.requests.append(params["request"]["url"])
    elif method == "Network.loadingFailed":
        seen.errors.append(f"not loaded: {params['type']} {params['errorText']}")
    elif method == "Runtime.exceptionThrown":
        seen.errors.append(f"exception: {params['exceptionDetails']['text']}")
    elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
        said = " ".join(str(a.get("value", a.get("description"))) for a in params["args"])
        seen.errors.append(f"console: {said}")
    elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
        seen.errors.append(params["entry"]["text"])
