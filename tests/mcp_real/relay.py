"""The program that the MCP conformance suite starts: it passes the scenario on to the test.

    python relay.py PORT URL

A Python that loads the MCP SDK takes a second to start, and there are some seventy scenarios; this
takes 20 ms. `conformance_client` is at the other end and says how the scenario ended.
"""

import json
import os
import socket
import sys

scenario = {
    "name": os.environ["MCP_CONFORMANCE_SCENARIO"],
    "url": sys.argv[2],
    "context": json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}")),
}
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as connection:
    connection.sendall(json.dumps(scenario).encode() + b"\n")
    problem = connection.makefile().read()
sys.exit(problem or None)
