#!/usr/bin/env python3
"""An HTTP server that answers {} with 200 to everything: what a test must not take for a convoyd.

Prints the port that it listens on, then serves until it is killed.
"""

import http.server


class Yes(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    do_GET = do_POST = do_HEAD = answer

    def log_message(self, *arguments):
        pass


if __name__ == "__main__":
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Yes)
    print(server.server_address[1], flush=True)
    server.serve_forever()
