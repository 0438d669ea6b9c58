"""Pages of other sites ask convoyd in a real browser, which sends preflights of its own: cors_page.py KEY. Prints the port of
the site, and reads the URL of a convoyd that has http://127.0.0.1:PORT, and nothing else, in http.cors_origins."""

import http.server
import json
import sys
import threading

sys.path.insert(0, "tests/tools")
from browser import Browser, Failure


class Site(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>another site</title>")

    def log_message(self, *_):
        pass


def ask(page, url, path, method, key, body):
    """What fetch() gives the page: a status and the answer, or the name of its error."""
    return page.value(
        f"fetch({json.dumps(url + path)}, {{method: {json.dumps(method)}, body: {body}, "
        f"headers: {{Authorization: {json.dumps('Bearer ' + key)}}}}})"
        ".then(async answer => [answer.status, await answer.json()], error => [error.name, null])"
    )


def check(is_so, what):
    if not is_so:
        raise Failure(what)


def main():
    key = sys.argv[1]
    site = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Site)
    threading.Thread(target=site.serve_forever, daemon=True).start()
    port = site.server_address[1]
    print(port, flush=True)
    url = sys.stdin.readline().strip()
    picture = open("models/samples/ship.jpg", "rb").read()
    bytes_of = f"Uint8Array.from({json.dumps(list(picture))})"
    try:
        with Browser() as browser:
            page = browser.page()
            page.go(f"http://127.0.0.1:{port}/")
            status, answer = ask(page, url, "/classify", "POST", key, bytes_of)
            check(status == 200 and "timing" in answer, f"/classify: {status} {answer}")
            status, answer = ask(page, url, "/classify", "POST", "wrong", bytes_of)
            check(status == 401 and answer["error"], f"the page may read why it is refused: {status} {answer}")
            status, answer = ask(page, url, "/v2/models", "GET", key, "undefined")
            check(status == 200, f"/v2/models: {status} {answer}")
            # The same page under another name is another origin, which is not in the list.
            page.go(f"http://localhost:{port}/")
            status, answer = ask(page, url, "/classify", "POST", key, bytes_of)
            check(status == "TypeError", f"a page of a foreign origin reads {status} {answer}")
            status, answer = ask(page, url, "/v2/models", "GET", key, "undefined")
            check(status == "TypeError", f"a page of a foreign origin reads {status} {answer}")
    except Failure as failure:
        print(failure, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
