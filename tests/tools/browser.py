"""A browser that a test drives: Chromium without a window, by its DevTools protocol over two pipes.

    with Browser() as browser:
        page = browser.page(width=1200, height=900)
        page.go(url)
        page.until("document.title === 'x'")

Nothing beyond Python's own modules. What the page's console says, errors of scripts and violations of the page's content
security policy are kept in page.complaints.
"""
import base64
import json
import os
import pathlib
import select
import shutil
import subprocess
import tempfile
import time

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
PATIENCE_S = 20


def find():
    """The path of a browser, or None."""
    return next((path for path in map(shutil.which, PROGRAMS) if path), None)


class Failure(Exception):
    """What the browser or the page did not do."""


class Browser:
    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="browser-")
        to_browser, self.write_fd = os.pipe()
        self.read_fd, from_browser = os.pipe()

        def descriptors():
            # The pipes may have the very numbers that they are to get.
            high = os.dup2(to_browser, 60), os.dup2(from_browser, 61)
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        self.process = subprocess.Popen(
            [find(), "--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-extensions",
             "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars", "--force-color-profile=srgb",
             f"--user-data-dir={self.folder}", "about:blank"],
            preexec_fn=descriptors, close_fds=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True)
        os.close(to_browser)
        os.close(from_browser)
        self.pending, self.events, self.number = b"", [], 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.call("Browser.close")
            self.process.wait(10)
        except (Failure, OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def receive(self, until):
        """The next message, or None when it does not come in time."""
        while b"\0" not in self.pending:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.read_fd], [], [], left)[0]:
                return None
            piece = os.read(self.read_fd, 1 << 20)
            if not piece:
                raise Failure("the browser ended")
            self.pending += piece
        message, _, self.pending = self.pending.partition(b"\0")
        return json.loads(message)

    def call(self, method, session=None, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self.write_fd, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + PATIENCE_S
        while True:
            answer = self.receive(until)
            if answer is None:
                raise Failure(f"{method}: the browser does not answer")
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise Failure(f"{method}: {answer['error']['message']}")
                return answer["result"]
            if "method" in answer:
                self.events.append(answer)

    def page(self, width=1200, height=900, dark=False, phone=False):
        return Page(self, width, height, dark, phone)


class Page:
    def __init__(self, browser, width, height, dark, phone):
        self.browser, self.complaints = browser, []
        context = browser.call("Target.createBrowserContext")["browserContextId"]
        target = browser.call("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "DOM", "Audits"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        if phone:
            self.call("Emulation.setTouchEmulationEnabled", enabled=True)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.downloads = pathlib.Path(browser.folder) / f"downloads-{target}"
        self.downloads.mkdir()
        browser.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(self.downloads), browserContextId=context)

    def call(self, method, **parameters):
        answer = self.browser.call(method, self.session, **parameters)
        self.listen()
        return answer

    def listen(self):
        """Keeps what the page complains of. That a request was answered with an error is no fault of the page's."""
        others = []
        for event in self.browser.events:
            if event.get("sessionId") != self.session:
                others.append(event)
                continue
            method, said = event["method"], event["params"]
            if method == "Runtime.exceptionThrown":
                details = said["exceptionDetails"]
                self.complaints.append(details.get("exception", {}).get("description") or details["text"])
            elif method == "Runtime.consoleAPICalled" and said["type"] in ("error", "warning", "assert"):
                self.complaints.append(f"console: {[value.get('value') for value in said['args']]}")
            elif method == "Log.entryAdded" and said["entry"]["level"] in ("error", "warning") and said["entry"]["source"] != "network":
                self.complaints.append(f"{said['entry']['source']}: {said['entry']['text']}")
            elif method == "Audits.issueAdded" and said["issue"]["code"] == "ContentSecurityPolicyIssue":
                self.complaints.append(f"policy: {json.dumps(said['issue']['details'])[:500]}")
        self.browser.events = others

    def go(self, url):
        self.call("Page.navigate", url=url)
        self.until(f"document.readyState === 'complete' && location.href.split('#')[0] === {json.dumps(url.split('#')[0])}")

    def value(self, expression):
        """What the expression gives, awaited if it is a promise."""
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True, userGesture=True)
        if "exceptionDetails" in answer:
            raise Failure(f"{expression}: {answer['exceptionDetails'].get('exception', {}).get('description')}")
        return answer["result"].get("value")

    def until(self, expression, seconds=PATIENCE_S):
        """Asks until the expression is true; its value."""
        end = time.monotonic() + seconds
        while True:
            value = self.value(expression)
            if value not in (None, False, 0, ""):
                return value
            if time.monotonic() > end:
                raise Failure(f"not within {seconds} s: {expression}; the page: {self.value('document.body.innerText')[-1500:]}")
            time.sleep(0.05)

    def text(self, selector):
        return self.value(f"document.querySelector({json.dumps(selector)}).innerText")

    def click(self, selector):
        """As a mouse does, at the middle of the element."""
        place = self.value(f"""(() => {{
            const element = document.querySelector({json.dumps(selector)});
            element.scrollIntoView({{ block: "center" }});
            const box = element.getBoundingClientRect();
            const at = [box.x + box.width / 2, box.y + box.height / 2];
            return box.width > 0 && (element.contains(document.elementFromPoint(...at)) ? at : null);
        }})()""")
        if not place:
            raise Failure(f"{selector} cannot be clicked: it is hidden, or something lies over it")
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", clickCount=1)

    def press(self, key, code=0, text=""):
        """A key of the keyboard, e.g. "Tab"."""
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, code=key, windowsVirtualKeyCode=code, text=text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, code=key, windowsVirtualKeyCode=code)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def select(self, selector, value):
        """As a user who chooses value of a list."""
        self.value(f"""(() => {{
            const list = document.querySelector({json.dumps(selector)});
            list.value = {json.dumps(value)};
            list.dispatchEvent(new Event("change", {{ bubbles: true }}));
        }})()""")

    def files(self, selector, paths):
        """As a user who chooses files in the dialog of an input."""
        node = self.call("Runtime.evaluate", expression=f"document.querySelector({json.dumps(selector)})")["result"]["objectId"]
        self.call("DOM.setFileInputFiles", files=[str(pathlib.Path(path).resolve()) for path in paths], objectId=node)

    def transfer(self, kind, paths, target="body"):
        """Files that are dropped on the page, or pasted into it: an event "drop" or "paste"."""
        files = [{"name": pathlib.Path(path).name, "bytes": base64.b64encode(pathlib.Path(path).read_bytes()).decode()} for path in paths]
        self.value(f"""(() => {{
            const transfer = new DataTransfer();
            for (const {{ name, bytes }} of {json.dumps(files)}) {{
                transfer.items.add(new File([Uint8Array.from(atob(bytes), (c) => c.charCodeAt(0))], name));
            }}
            const options = {{ bubbles: true, cancelable: true }};
            const event = {json.dumps(kind)} === "paste"
                ? new ClipboardEvent("paste", {{ ...options, clipboardData: transfer }})
                : new DragEvent("drop", {{ ...options, dataTransfer: transfer }});
            document.querySelector({json.dumps(target)}).dispatchEvent(event);
        }})()""")

    def downloaded(self, name):
        """The content of a file that the page had the browser save."""
        end = time.monotonic() + PATIENCE_S
        path = self.downloads / name
        while not path.exists():
            self.value("1")
            if time.monotonic() > end:
                raise Failure(f"{name} was not saved: {list(self.downloads.iterdir())}")
            time.sleep(0.05)
        return path.read_bytes().decode()

    def picture(self, path):
        """Writes a PNG of what is seen."""
        data = self.call("Page.captureScreenshot", format="png", optimizeForSpeed=False)["data"]
        pathlib.Path(path).write_bytes(base64.b64decode(data))
