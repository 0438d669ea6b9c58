#!/usr/bin/env python3
"""Opens connections to a running convoyd and keeps them idle.

    idle_connections.py URL COUNT

Every second one asks for /v2 first and is then kept, the others never send a byte. Prints "open" when all are
there, then waits for the end of standard input and closes them. Exit status 1 when one was refused or
unanswered, 77 when the system does not allow so many descriptors.
"""

import resource
import sys

from wire import Closed, Connection


def main():
    url, count = sys.argv[1], int(sys.argv[2])
    needed, most = count + 50, resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if most != resource.RLIM_INFINITY and most < needed:
        print(f"{needed} descriptors are needed and {most} allowed (ulimit -Hn)", flush=True)
        sys.exit(77)
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, most))
    connections = []
    for number in range(count):
        try:
            connection = Connection(url)
            if number % 2 == 0:
                connection.ask("GET", "/v2")
                assert connection.answer().status == 200
        except (OSError, Closed) as error:
            print(f"connection {number}: {error!r}", flush=True)
            sys.exit(1)
        connections.append(connection)
    print("open", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
