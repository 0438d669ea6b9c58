#!/usr/bin/env python3
"""A collector of traces: takes OTLP/HTTP in JSON, as an OpenTelemetry collector does.

    trace_collector.py FOLDER MODE

Writes its port to FOLDER/port, and what comes to FOLDER/posts, a line a POST. MODE: take; refuse (503, with a line
all the same); hang (reads nothing and answers nothing). Python's standard library only."""

import http.server
import json
import os
import pathlib
import socket
import sys
import threading

FOLDER = pathlib.Path(sys.argv[1])


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):  # pylint: disable=invalid-name
        body = self.rfile.read(int(self.headers["Content-Length"]))
        good = self.path == "/v1/traces" and self.headers["Content-Type"] == "application/json"
        line = json.dumps({"good": good, "document": json.loads(body)}) + "\n"
        with LOCK, open(FOLDER / "posts", "a", encoding="utf-8") as file:
            file.write(line)
        answer = b'{"partialSuccess":{}}'
        self.send_response(200 if sys.argv[2] == "take" else 503)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format, *args):  # pylint: disable=redefined-builtin
        pass


LOCK = threading.Lock()


def tell(port):
    (FOLDER / "port.new").write_text(f"{port}\n", encoding="ascii")
    os.rename(FOLDER / "port.new", FOLDER / "port")


def main():
    if sys.argv[2] == "hang":
        listener = socket.create_server(("127.0.0.1", 0))
        tell(listener.getsockname()[1])
        held = []
        while True:
            held.append(listener.accept())
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    tell(server.server_address[1])
    server.serve_forever()


if __name__ == "__main__":
    main()
