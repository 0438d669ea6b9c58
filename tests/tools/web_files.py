#!/usr/bin/env python3
"""Checks the page at / as it is answered, without a browser.

    web_files.py URL FOLDER OPENAPI    FOLDER: the files of the page; URL: the daemon's, with any prefix, without a slash at its end

Every file is answered as it lies there, with the headers that docs/web.md promises; the files refer to each other by relative
URLs, to nothing that is not there and to nothing elsewhere; no script or style stands within the document; the OpenAPI
document names them all. Exit status 0 only if nothing is wrong."""

import html.parser
import json
import pathlib
import re
import sys
import urllib.error
import urllib.request

MOST_BYTES = 100_000
TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
HEADERS = {"x-content-type-options": "nosniff", "cache-control": "no-cache", "referrer-policy": "no-referrer",
           "cross-origin-resource-policy": "same-origin", "cross-origin-opener-policy": "same-origin"}
# Each directive of the policy: others, or wider ones, are a decision.
POLICY = {"default-src": "'none'", "script-src": "'self'", "style-src": "'self'", "img-src": "'self'", "connect-src": "'self'", "base-uri": "'none'",
          "form-action": "'none'", "frame-ancestors": "'none'", "require-trusted-types-for": "'script'"}
# What makes text into markup or script.
DANGEROUS = re.compile(r"\b(innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval|new Function|srcdoc|javascript:)\b")

wrong = []


def ask(url, method="GET", **headers):
    """Status, headers, body."""
    request = urllib.request.Request(url, method=method, headers={name.replace("_", "-"): value for name, value in headers.items()})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, {name.lower(): value for name, value in answer.headers.items()}, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, {name.lower(): value for name, value in error.headers.items()}, error.read()


def check(condition, sentence):
    if not condition:
        wrong.append(sentence)


class Document(html.parser.HTMLParser):
    """The links of the document, and what a strict policy forbids."""

    def __init__(self):
        super().__init__()
        self.links, self.ids, self.inside = [], [], None

    def handle_starttag(self, tag, attributes):
        names = dict(attributes)
        self.inside = tag
        self.links += [names[name] for name in ("href", "src") if name in names]
        self.ids += [names["id"]] if "id" in names else []
        check(tag != "style" and "style" not in names, f"<{tag}>: style within the document")
        check(not any(name.startswith("on") for name in names), f"<{tag}>: a handler within the document")
        check(tag not in ("iframe", "object", "embed", "base"), f"<{tag}> in the document")

    def handle_data(self, data):
        check(self.inside != "script" or not data.strip(), "script within the document")


def check_answer(url, path):
    content = path.read_bytes()
    status, headers, body = ask(url)
    check(status == 200 and body == content, f"{url}: {status}, {len(body)} bytes of {len(content)}")
    check(headers.get("content-type") == TYPES[path.suffix], f"{url}: Content-Type {headers.get('content-type')}")
    for name, value in HEADERS.items():
        check(headers.get(name) == value, f"{url}: {name} is {headers.get(name)}")
    policy = dict(part.strip().split(" ", 1) for part in headers.get("content-security-policy", "").split(";") if part.strip())
    check(policy == POLICY, f"{url}: the policy is {policy}")
    check("set-cookie" not in headers, f"{url}: a cookie")
    tag = headers.get("etag", "")
    check(re.fullmatch(r'"[0-9a-f]{64}"', tag), f"{url}: ETag {tag}")
    status, again, body = ask(url, "HEAD")
    check(status == 200 and body == b"" and again.get("content-length") == str(len(content)) and again.get("etag") == tag, f"HEAD {url}: {status} {again}")
    for known in (tag, f"W/{tag}", f'"x", {tag}', "*"):
        status, again, body = ask(url, If_None_Match=known)
        check(status == 304 and body == b"" and again.get("etag") == tag and again.get("cache-control") == "no-cache", f"{url}: {status} to If-None-Match {known}")
    for unknown in ('"x"', tag[1:-1], tag[:-2] + '"', "", '"', f'"{"0" * 64}"'):
        check(ask(url, If_None_Match=unknown)[0] == 200, f"{url}: no 200 to If-None-Match {unknown!r}")
    status, again, _ = ask(url, "POST")
    check(status == 405 and again.get("allow") == "GET, HEAD", f"POST {url}: {status} {again.get('allow')}")
    return tag


def check_references(folder):
    names = {path.name for path in folder.iterdir()}
    document = Document()
    document.feed((folder / "index.html").read_text())
    used = {"index.html"}
    for link in document.links:
        check(link.startswith("#") or re.fullmatch(r"web/[a-z.]+", link), f"index.html: {link} is not relative")
        if not link.startswith("#"):
            used.add(link.removeprefix("web/"))
    check(len(document.ids) == len(set(document.ids)), "index.html: an id stands twice")
    for path in sorted(folder.iterdir()):
        text = path.read_text()
        elsewhere = [address for address in re.findall(r"https?://[^\s\"'`)<]+|(?<=[\"'`(])//[^\s\"'`)]+", text) if address != "http://www.w3.org/2000/svg"]
        check(not elsewhere, f"{path.name}: {elsewhere}")
        check(not DANGEROUS.search(text), f"{path.name}: {DANGEROUS.search(text)}")
        check(not re.search(r"\burl\(|@import", text), f"{path.name}: loads something")
        if path.suffix != ".js":
            continue
        for name in re.findall(r"from \"([^\"]*)\"|import\(", text):
            check(name.startswith("./") and name[2:] in names, f"{path.name}: imports {name!r}")
            used.add(name[2:])
        for asked in re.findall(r"\b(?:ask|fetch)\(\s*[\"'`]([^\"'`]*)", text):
            check(not asked.startswith("/"), f"{path.name}: asks {asked}, which is not relative")
        for element in re.findall(r'byId\("([^"]*)"\)', text):
            check(element in document.ids, f"{path.name}: there is no element {element}")
    check(used == names, f"not used, or not there: {used ^ names}")
    size = sum(path.stat().st_size for path in folder.iterdir())
    print(f"{len(names)} files, {size} bytes")
    check(size < MOST_BYTES, f"the page has {size} bytes")
    return names - {"index.html"}


def main():
    url, folder, openapi = sys.argv[1], pathlib.Path(sys.argv[2]), json.loads(pathlib.Path(sys.argv[3]).read_text())
    files = check_references(folder)
    tags = [check_answer(f"{url}/", folder / "index.html")] + [check_answer(f"{url}/web/{name}", folder / name) for name in sorted(files)]
    check(len(set(tags)) == len(tags), "two files have one ETag")
    check(set(openapi["components"]["parameters"]["File"]["schema"]["enum"]) == files, "openapi.json names other files")
    for other in ("web/", "web/index.html", "web/main.jsx", "web/../main.js", "web/%2e%2e%2fmain.js", "web/main.js/", "web", "main.js", "web/" + "a" * 300, "web/main.js%00"):
        status, headers, body = ask(f"{url}/{other}")
        check(status == 404 and headers.get("content-type") == "application/json" and "error" in json.loads(body), f"/{other}: {status}")
    for sentence in wrong:
        print(sentence, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
