#!/usr/bin/env python3
"""The page at /, in a browser (browser.py), as its users have it.

    web_page.py open URL WORK [AXE]     every view, of a daemon that answers everybody: cpu backend, model_control explicit, the models
                                        that ship, default_model cifar10-resnet. AXE: axe-core's script, for what readers of screens need
    web_page.py keys URL INFER ADMIN    of a daemon that wants keys: these two have the roles infer, and all
    web_page.py prefix URL              of a daemon behind a proxy, below a prefix

Exit status 0 only if everything is as it should be, and the console and the policy were silent."""

import base64
import csv
import io
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import urllib.request

from browser import Browser, Failure

SAMPLES = pathlib.Path("models/samples")
ANSWERED = "!document.querySelector('#answer').hidden && !/answered …|Asking/.test(document.querySelector('#try-status').innerText)"
# The first classification that is asked for afterwards is answered when letGo() is called.
HOLD = """(() => {
    const real = fetch;
    window.fetch = async (...request) => {
        const answer = await real(...request);
        if (request[1]?.method === "POST" && !window.letGo) await new Promise((go) => (window.letGo = go));
        return answer;
    };
})()"""
TEN_FRAMES = "new Promise((done) => { let left = 10; const next = () => (left-- > 0 ? requestAnimationFrame(next) : done()); next(); })"


def check(condition, sentence):
    if not condition:
        raise Failure(sentence)


def classify(url, path, query="classify"):
    with urllib.request.urlopen(f"{url}{query}", data=pathlib.Path(path).read_bytes(), timeout=20) as answer:
        return json.load(answer)


def percent(text):
    return float(text.removesuffix(" %")) / 100


def bars(page):
    return page.value("[...document.querySelectorAll('#answer .bars li')].map((li) => [...li.children].slice(0, 2).map((part) => part.innerText))")


def same_classes(page, answer):
    shown, told = bars(page), answer["results"][0]["predictions"]
    check([label for label, _ in shown] == [entry["label"] for entry in told], f"shown: {shown}, answered: {told}")
    for (_, text), entry in zip(shown, told):
        check(abs(percent(text) - entry["probability"]) < 6e-5, f"shown: {shown}, answered: {told}")


def status(page):
    return page.text("#try-status")


def view(page, name):
    page.click(f'nav a[href="#{name}"]')
    page.until(f"!document.querySelector('#view-{name}').hidden && document.activeElement.id === '{name}-title'")
    check(page.value("document.querySelectorAll('main section:not([hidden])').length") == 1, "more than one view is shown")
    check(page.value("document.querySelector('nav [aria-current]').hash") == f"#{name}", "the menu does not say where it is")


def one_picture(page, url):
    page.files("#choose", [SAMPLES / "ship.jpg"])
    page.until(ANSWERED)
    answer = classify(url, SAMPLES / "ship.jpg")
    same_classes(page, answer)
    check(status(page).startswith("ship, 89."), f"the status: {status(page)}")
    text = page.text("#answer")
    for words in ("ship.jpg", "cifar10-resnet, version 1", "1 image", "cpu", "computing", "decoding", "queue"):
        check(words in text, f"{words} is not in the answer: {text}")
    check(page.value("document.querySelector('#many').hidden"), "a grid of one picture")
    widths = page.value("[...document.querySelectorAll('.strip i')].map((part) => part.getBoundingClientRect().width / part.parentElement.getBoundingClientRect().width)")
    check(len(widths) == 6 and abs(sum(widths) - 1) < 0.02, f"the strip: {widths}")
    check(page.value("document.querySelector('#answer canvas').getContext('2d').getImageData(5, 5, 1, 1).data[2] > 100"), "the picture is not drawn")


MAPPED = "document.querySelector('.explain button:not([disabled])') && (document.querySelector('.explain canvas:not([hidden])') || document.querySelector('.explain .bad'))"


def picture_of(url):
    from PIL import Image
    return Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2])))


def pixel(page, x, y):
    """Red, green and blue of the shown map, at these parts of its width and height."""
    picture = picture_of(page.value("document.querySelector('.explain canvas').toDataURL()")).convert("RGB")
    return picture.getpixel((int(x * picture.width), int(y * picture.height)))


def explained(page, url):
    """A class activation map as the daemon draws it; of another class; and occlusion where a network has no map."""
    page.click(".explain button")
    page.until(MAPPED)
    told = classify(url, SAMPLES / "ship.jpg", "classify?explain=cam")["results"][0]["explanation"]
    drawn = picture_of(told["png"])
    levels = list(drawn.getdata())
    places = {}
    for name, level in (("black", min(levels)), ("white", max(levels))):
        at = levels.index(level)
        places[name] = (at % drawn.width + 0.5) / drawn.width, (at // drawn.width + 0.5) / drawn.height
    red, green, blue = pixel(page, *places["white"])
    check(red > 200 and green > 180 and blue < 110, f"where it is white the page shows {red} {green} {blue}")
    red, green, blue = pixel(page, *places["black"])
    check(max(red, green, blue) - min(red, green, blue) < 12, f"where it is black the page shows {red} {green} {blue}")
    row, column = (("upper", "middle", "lower")[int(3 * places["white"][1])], ("left", "middle", "right")[int(3 * places["white"][0])])
    place = "middle" if (row, column) == ("middle", "middle") else f"{row} {column}"
    check(page.text(".explain .status") == f"Class activation map: the {place} speaks most for ship.", f"{page.text('.explain .status')}, expected {place}")
    check(page.value("document.querySelector('.explain canvas').getAttribute('aria-label')") == page.text(".explain .status"), "the map has another name")
    before = page.value("document.querySelector('.explain canvas').toDataURL()")
    page.select(".explain select", "1")
    page.until("document.querySelector('.explain .status').innerText.endsWith(' for airplane.')")
    check(page.value("document.querySelector('.explain canvas').toDataURL()") != before, "the map of another class is the same")
    page.select("#model", "cifar10-convnet")
    page.until("document.querySelector('#answer dd')?.innerText.startsWith('cifar10-convnet') && document.querySelector('.explain canvas[hidden]')")
    page.click(".explain button")
    page.until(MAPPED)
    check(re.fullmatch("Occlusion: covering the [a-z ]+ takes most from ship, [0-9.]+ %.", page.text(".explain .status")), page.text(".explain .status"))
    colours = [pixel(page, (x + 0.5) / 6, (y + 0.5) / 6) for x in range(6) for y in range(6)]
    check(any(red > 200 and green > 180 and blue < 110 for red, green, blue in colours), f"no part is marked: {colours}")
    page.select("#model", "")
    page.until("document.querySelector('#answer dd')?.innerText.startsWith('cifar10-resnet') && " + ANSWERED)


def run_lines(page, folder, names, **environment):
    """The shown lines, run: the classes of each picture by name."""
    commands = {"curl": ["bash", "-c", page.text("#curl")], "python": [sys.executable, "-c", page.text("#python")]}
    found = {}
    for kind, command in commands.items():
        said = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, env={**os.environ, **environment})
        check(said.returncode == 0, f"{kind}: {command[2]}\n{said.stderr}")
        if kind == "curl":
            results = json.loads(said.stdout)["results"]
        else:
            results = [json.loads(line[line.index("{"):]) for line in said.stdout.splitlines()]
        check(len(results) == len(names), f"{kind}: {said.stdout}")
        found[kind] = [result["predictions"][0]["label"] for result in results]
    check(found["curl"] == found["python"], f"the lines differ: {found}")
    return found["curl"]


def names_in_grid(page):
    return page.value("[...document.querySelectorAll('#grid li')].map((li) => li.querySelectorAll('span')[li.querySelector('canvas') ? 0 : 1].innerText)")


def many_pictures(page, work):
    odd = work / "odd"
    odd.mkdir()
    strange = ["it's a \"ship\"; $(false), <img src=x onerror=alert(1)>.jpg", "=1+1.jpg"]
    for name, sample in zip(strange, ("ship.jpg", "truck.jpg")):
        shutil.copy(SAMPLES / sample, odd / name)
    page.click("#answer h2") # the page has the focus, as when its user pastes
    page.transfer("paste", [odd / strange[0]])
    page.until("document.querySelectorAll('#grid button').length === 2")
    page.transfer("drop", [odd / strange[1]], "#drop")
    page.until("document.querySelectorAll('#grid button').length === 3")
    page.until(ANSWERED)
    shutil.copy(SAMPLES / "ship.jpg", odd)
    check(run_lines(page, odd, ["ship.jpg", *strange]) == ["ship", "ship", "truck"], "the lines answer something else")
    (odd / "text.png").write_text("no picture")
    page.files("#choose", [odd / "text.png", SAMPLES / "automobile.jpg", *[SAMPLES / "airplane.jpg"] * 3])
    page.until("document.querySelectorAll('#grid button').length === 8 && /8 pictures|5 pictures answered, 1 of them/.test(document.querySelector('#try-status').innerText)")
    check("this is text, not an image" in page.text("#answer") + page.text("#grid"), "the error is not shown")
    table = list(csv.DictReader(io.StringIO(download(page, "csv"))))
    best = {row["file"]: float(row["probability"]) for row in table if row["rank"] == "1"}
    check(set(best) == {"ship.jpg", strange[0], "'=1+1.jpg", "automobile.jpg", "airplane.jpg"}, f"the CSV names {set(best)}")
    check([row["error"][:12] for row in table if row["file"] == "text.png"] == ["this is text"], "the CSV does not tell of the error")
    falling = [row["file"] for row in table if row["rank"] == "1"]
    check([best[name] for name in falling] == sorted(best[name] for name in falling)[::-1], f"the CSV is not sorted: {best}")
    best["=1+1.jpg"] = best["'=1+1.jpg"]
    in_grid = names_in_grid(page)
    check(in_grid == [name.removeprefix("'") for name in falling] + ["text.png"], f"the grid is in another order: {in_grid}")
    page.select("#order", "rising")
    in_grid = names_in_grid(page)
    check(in_grid[-1] == "text.png" and [best[name] for name in in_grid[:-1]] == sorted(best[name] for name in in_grid[:-1]), f"rising: {in_grid}")
    page.select("#order", "sent")
    document = json.loads(download(page, "json"))
    check([entry["file"] for entry in document] == names_in_grid(page) and document[0]["predictions"][0]["label"] == "ship" and document[0]["device"] == "cpu",
          f"the JSON: {document[0]}")
    page.click("#grid li:nth-child(5) button")
    page.until("document.querySelector('#answer h2').innerText === 'automobile.jpg'")
    check(page.value("[...document.querySelectorAll('#grid button')].map((b) => b.getAttribute('aria-pressed')).join()").count("true") == 1, "not one is pressed")
    check(page.value("document.querySelectorAll('#view-try img').length") == 0, "a file's name became markup")


def download(page, kind):
    (page.downloads / f"convoyd.{kind}").unlink(missing_ok=True)
    page.click(f"#{kind}")
    return page.downloaded(f"convoyd.{kind}")


def more_than_a_form(page, work):
    """More pictures than go into one request."""
    page.click("#clear")
    page.until("document.querySelector('#many').hidden && document.querySelector('#answer').hidden && document.querySelector('#commands').hidden")
    folder = work / "many"
    folder.mkdir()
    for i in range(70):
        shutil.copy(SAMPLES / "truck.jpg", folder / f"{i}.jpg")
    page.files("#choose", sorted(folder.iterdir()))
    page.until("document.querySelector('#try-status').innerText === '70 pictures answered'")
    check("with 32 pictures" in page.text("#answer"), "70 pictures are not sent by 32")
    check(page.text("#curl").endswith("# and 62 more"), f"curl: {page.text('#curl')[-80:]}")
    page.click("#clear")


def choices(page, url):
    page.files("#choose", [SAMPLES / "fashion/sneaker.png"])
    page.until(ANSWERED)
    page.select("#model", "fashion-lenet")
    page.until("document.querySelector('#answer .bars')?.innerText.startsWith('Sneaker') || document.querySelector('#answer .bars')?.innerText.startsWith('sneaker')")
    check(page.value("[...document.querySelector('#version').options].map((o) => o.innerText).join()") == "highest,1", "the versions are others")
    page.select("#version", "1")
    page.value("document.querySelector('#top').value = '3'")
    page.select("#top", "3")
    page.until("document.querySelectorAll('#answer .bars li').length === 3")
    same_classes(page, classify(url, SAMPLES / "fashion/sneaker.png", "v2/models/fashion-lenet/versions/1/classify?top=3"))
    check("/v2/models/fashion-lenet/versions/1/classify?top=3" in page.text("#curl"), page.text("#curl"))
    run_lines(page, SAMPLES / "fashion", ["sneaker.png"])
    page.value("Object.defineProperty(navigator, 'clipboard', { value: { writeText: async (text) => { window.copied = text; } } })")
    page.click("[data-copy=curl]")
    check(page.until("window.copied") == page.text("#curl"), "another text is copied")


def late_answer(page):
    """An answer to what was asked before another choice comes last, and changes nothing."""
    page.value(HOLD)
    page.select("#model", "cifar10-resnet")
    page.until("window.letGo !== undefined")
    page.select("#model", "fashion-ece408")
    page.until("document.querySelector('#answer').innerText.includes('fashion-ece408')")
    page.value(f"(letGo(), {TEN_FRAMES})")
    check("fashion-ece408" in page.text("#answer"), "a late answer is shown")


def keyboard(page):
    page.value("document.activeElement.blur(), scrollTo(0, 0)")
    page.click("header .brand")
    seen = []
    for _ in range(40):
        page.press("Tab", 9)
        seen.append(page.value("(() => { const e = document.activeElement; return e.id || e.hash || e.dataset.copy || e.tagName; })()"))
    for wanted in ("#try", "#live", "#models", "key-button", "choose", "model", "version", "top", "curl", "python"):
        check(wanted in seen, f"Tab does not reach {wanted}: {seen}")
    outline = page.value("document.querySelector('#choose').focus(), getComputedStyle(document.querySelector('#choose').parentElement).outlineStyle")
    check(outline == "solid", "it is not seen where the focus is")
    page.value("document.querySelector('.skip').focus()")
    page.press("Enter", 13, "\r")
    page.until("document.activeElement.id === 'try-title'")


def live(page, url):
    view(page, "live")
    page.until("document.querySelectorAll('#charts figure').length === 7 && document.querySelector('#devices tbody tr')")
    worker = int(subprocess.check_output(["pgrep", "-P", os.environ["CONVOY_DAEMON"], "convoy-worker"]))
    os.kill(worker, signal.SIGKILL)
    for _ in range(20):
        classify(url, SAMPLES / "ship.jpg")
    legend = "[...document.querySelectorAll('#charts figure')].map((f) => f.querySelector('.legend').innerText.replaceAll('\\n', ' ')).join('|')"
    page.until(f"/^answered: [1-9.]/.test({legend})")
    said = page.value(legend)
    for pattern in (r"computed: [\d.]+/s", r"half within: [\d.]+ (µs|ms)", r"99 % within: [\d.]+ (µs|ms|s)", r"mean: [\d.]+", r"images that wait: 0", r"cpu: [\d.]+/s"):
        check(re.search(pattern, said), f"{pattern} is not said: {said}")
    page.until("document.querySelector('#devices tbody').innerText.replaceAll(/\\s+/g, ' ').trim().match(/^cpu up [\\d,]+ 1$/)")
    page.until(f"{legend}.includes(\"start: 1\")")
    label = page.value("document.querySelector('#charts figure svg').getAttribute('aria-label')")
    check(label.startswith("Requests, now: answered "), f"a reader of screens is told: {label}")
    check(page.value("document.querySelector('#charts path.stroke1').getAttribute('d').includes('L')"), "there is no curve")


def models(page, url):
    view(page, "models")
    page.until("document.querySelectorAll('#model-list > details').length === 4")
    check("4 of 4 versions ready." in page.text("#models-status"), page.text("#models-status"))
    card = "#model-list > details:nth-of-type(3)" # fashion-ece408
    page.click(f"{card} > summary")
    page.until(f"document.querySelector('{card} dl')")
    text = page.text(card)
    for words in ("fashion-ece408", "READY", "N × 1 × ", "N × 10", "fp32", "labels.txt", "bilinear"):
        check(words in text, f"{words} is not said: {text}")
    page.click(f"{card} .body > div button")
    page.until(f"document.querySelectorAll('{card} tbody tr').length > 2 && document.querySelector('{card} .labels')")
    rows = page.value(f"[...document.querySelectorAll('{card} tbody tr')].map((row) => [...row.cells].slice(0, 2).map((cell) => cell.innerText))")
    layers = classify(url, SAMPLES / "ship.jpg", "v2/models/fashion-ece408/classify?profile=1")["layers"]
    check(rows == [[layer["name"], layer["kernel"]] for layer in layers], f"the layers: {rows}")
    labels = page.value(f"[...document.querySelectorAll('{card} .labels li')].map((li) => li.textContent)")
    check(labels == pathlib.Path("models/fashion-ece408/labels.txt").read_text().split("\n")[:10], f"the labels: {labels}")
    for verb, state in (("Unload", "UNAVAILABLE"), ("Load", "READY")):
        page.value(f"document.querySelector('{card}').open = true")
        page.value(f"[...document.querySelectorAll('{card} button')].find((b) => b.innerText.startsWith('{verb} fashion-ece408')).id = 'pressed'")
        page.click("#pressed")
        page.until(f"document.querySelector('{card} .state').innerText === '{state}' && document.querySelector('#models-status').innerText === 'fashion-ece408 is {verb.lower()}ed'")
    view(page, "try")
    check("fashion-ece408" in page.text("#model"), "what was loaded cannot be chosen")


def accessible(page, axe, name):
    page.value(pathlib.Path(axe).read_text() + "; 0")
    found = page.value("axe.run({ resultTypes: ['violations'] }).then(({ violations }) => violations.map(({ id, impact, nodes }) => [id, impact, nodes.map(({ html }) => html.slice(0, 150))]))")
    for rule, impact, nodes in found:
        print(f"axe, {name}: {rule} ({impact}): {nodes[:3]}")
    check(not [rule for rule, impact, _ in found if impact in ("serious", "critical")], f"{name}: readers of screens meet something serious")


def other_screens(browser, url, axe, complaints):
    for dark, width, height, phone in ((True, 1200, 900, False), (False, 390, 800, True), (True, 320, 640, True)):
        page = browser.page(width, height, dark=dark, phone=phone)
        page.go(url)
        page.files("#choose", [SAMPLES / name for name in ("ship.jpg", "truck.jpg")])
        page.until(ANSWERED)
        page.click(".explain button")
        page.until(MAPPED)
        check((page.value("getComputedStyle(document.querySelector('#camera')).display") != "none") == phone, "the camera is offered wrongly")
        ground = page.value("getComputedStyle(document.body).backgroundColor")
        check((ground == "rgb(18, 22, 27)") == dark, f"dark {dark}: {ground}")
        for name in ("try", "live", "models"):
            page.value(f"location.hash = '#{name}'")
            page.until(f"!document.querySelector('#view-{name}').hidden")
            if name == "models":
                page.until("document.querySelector('#model-list details')")
                page.value("document.querySelector('#model-list details').open = true")
                page.until("document.querySelector('#model-list dl')")
            # A telephone makes its window as wide as what is in it.
            check(page.value("document.documentElement.scrollWidth") <= width, f"{name} is wider than a screen of {width}")
            if axe:
                accessible(page, axe, f"{name}, {width} wide, {'dark' if dark else 'light'}")
        page.listen()
        complaints += page.complaints


def test_open(url, work, axe=None):
    work = pathlib.Path(work)
    with Browser() as browser:
        page = browser.page()
        page.go(url)
        page.until("document.querySelector('#model').options.length === 5")
        check(page.text("#release").count(".") == 2, "no release is named")
        for step in (lambda: one_picture(page, url), lambda: explained(page, url), lambda: many_pictures(page, work), lambda: more_than_a_form(page, work), lambda: choices(page, url),
                     lambda: late_answer(page), lambda: keyboard(page), lambda: live(page, url), lambda: models(page, url)):
            step()
        origins = page.value("[...new Set(performance.getEntriesByType('resource').map(({ name }) => new URL(name).origin))]")
        check(origins == [url.rstrip("/")], f"it loads from {origins}")
        page.value("document.body.append(Object.assign(document.createElement('p'), { id: 'inline' })), document.querySelector('#inline').setAttribute('style', 'color: red')")
        check(page.value("getComputedStyle(document.querySelector('#inline')).color") != "rgb(255, 0, 0)", "the policy is not in force")
        page.listen()
        check(page.complaints and all("style" in said for said in page.complaints), f"the page complains: {page.complaints}")
        complaints = []
        other_screens(browser, url, axe, complaints)
        check(not complaints, f"the page complains: {complaints}")


def dialog(page, wanted):
    page.until(f"document.querySelector('#key-dialog').open === {'true' if wanted else 'false'}")


def give_key(page, key):
    dialog(page, True)
    check(page.value("document.activeElement.id") == "key-input", "the focus is not where the key is typed")
    page.type(key)
    page.press("Enter", 13, "\r")


def test_keys(url, infer, admin):
    with Browser() as browser:
        page = browser.page()
        page.go(url)
        dialog(page, True)
        check("needs a key with the role infer" in page.text("#key-reason"), page.text("#key-reason"))
        give_key(page, "wrong")
        page.until("document.querySelector('#key-dialog').open && document.querySelector('#key-reason').innerText.includes('not known')")
        page.press("Escape", 27)
        dialog(page, False)
        page.until("document.querySelector('#try-status').innerText.includes('not known')")
        page.click("#key-button")
        give_key(page, infer)
        dialog(page, False)
        page.until("document.querySelector('#model').options.length === 5")
        page.files("#choose", [SAMPLES / "ship.jpg"])
        page.until(ANSWERED)
        lines = page.text("#curl") + page.text("#python")
        check("CONVOY_KEY" in page.text("#curl") and "CONVOY_KEY" in page.text("#python") and infer not in lines, lines)
        run_lines(page, SAMPLES, ["ship.jpg"], CONVOY_KEY=infer)
        view(page, "live")
        page.until("document.querySelector('#live-status').innerText.includes('lacks the role metrics')")
        view(page, "models")
        page.until("document.querySelectorAll('#model-list > details').length === 4")
        check(infer not in page.value("document.documentElement.outerHTML"), "the key stands in the page")
        check(page.value("document.cookie + localStorage.length") == "0" and page.value("sessionStorage.length") == 1, "the key is kept elsewhere, too")
        page.go(url) # the tab keeps it
        page.until("document.querySelector('#model').options.length === 5")
        page.click("#key-button")
        give_key(page, admin)
        view(page, "models")
        page.click("#model-list summary")
        page.until("[...document.querySelectorAll('#model-list button')].some(({ innerText }) => innerText.startsWith('Unload '))")
        page.click("#key-button")
        dialog(page, True)
        page.click("#key-forget")
        dialog(page, True) # what the page asks for next needs one
        check(page.value("sessionStorage.length") == 0, "the key is not forgotten")
        other = browser.page()
        other.go(url)
        dialog(other, True) # another tab knows nothing
        for one in (page, other):
            one.listen()
            check(not one.complaints, f"the page complains: {one.complaints}")


def test_prefix(url):
    with Browser() as browser:
        page = browser.page()
        page.go(url)
        page.until("document.querySelector('#model').options.length === 5")
        page.files("#choose", [SAMPLES / "ship.jpg"])
        page.until(ANSWERED)
        check(f"{url}classify" in page.text("#curl"), page.text("#curl"))
        run_lines(page, SAMPLES, ["ship.jpg"])
        view(page, "live")
        page.until("document.querySelector('#devices tbody tr')")
        page.listen()
        check(not page.complaints, f"the page complains: {page.complaints}")


def main():
    try:
        {"open": test_open, "keys": test_keys, "prefix": test_prefix}[sys.argv[1]](*sys.argv[2:])
    except Failure as failure:
        print(failure, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
