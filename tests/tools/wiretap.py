#!/usr/bin/env python3
"""A relay between a proxy and a server that writes down what passes: wiretap.py HOST:PORT PORT-FILE FOLDER

Each connection N leaves FOLDER/N.asked, the proxy's bytes, and FOLDER/N.answered, the server's; both are written before they are
passed on. FOLDER/N.answered.ended is there once the server has closed. PORT-FILE gets the port that it listens on. Python's standard library only."""

import os
import socket
import sys
import threading


def pass_on(source, sink, file):
    with file:
        try:
            while data := source.recv(65536):
                file.write(data)
                sink.sendall(data)
        except OSError:
            pass
        with open(file.name + ".ended", "wb"):
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def main():
    host, port = sys.argv[1].rsplit(":", 1)
    folder = sys.argv[3]
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    with open(sys.argv[2] + ".new", "w", encoding="ascii") as file:
        file.write(f"{listener.getsockname()[1]}\n")
    os.rename(sys.argv[2] + ".new", sys.argv[2])
    number = 0
    while True:
        proxy, _ = listener.accept()
        server = socket.create_connection((host, int(port)))
        for end in (proxy, server):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        name = os.path.join(folder, str(number))
        number += 1
        # smuggler.py lists the first kind and then reads the second, which is therefore there before it.
        answered = open(name + ".answered", "ab", buffering=0)
        asked = open(name + ".asked", "ab", buffering=0)
        threading.Thread(target=pass_on, args=(proxy, server, asked), daemon=True).start()
        threading.Thread(target=pass_on, args=(server, proxy, answered), daemon=True).start()


if __name__ == "__main__":
    main()
