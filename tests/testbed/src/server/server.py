"""Python's own HTTP server with the testbed's routes. Arguments: HOST PORT LARGE [faulty]."""

import os
import socket
import struct
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HOST, PORT, LARGE = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
FAULTY = "faulty" in sys.argv[4:]
STATUS = {
    "/ok": 200, "/healthz": 200, "/created": 201, "/empty": 204, "/moved": 301, "/missing": 404, "/fail": 500,
    "/unavailable": 503, "/large": 200, "/echo": 200, "/api/pay": 500 if FAULTY else 200, "/api/cart": 200,
}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self):
        if self.path == "/drop" or (FAULTY and self.path == "/api/cart"):
            self.close_connection = True
        elif self.path == "/reset":
            self.reset()
        else:
            self.answer()

    def do_HEAD(self):
        self.answer()

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.answer()

    def answer(self):
        status = STATUS.get(self.path, 404)
        body = b"x" * LARGE if self.path == "/large" else b"ok\n"
        self.send_response(status)
        if status == 301:
            self.send_header("Location", "/ok")
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if status != 204 and self.command != "HEAD":
            self.wfile.write(body)

    def reset(self):
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        os.close(self.connection.detach())

    def log_request(self, code="-", size="-"):
        os.write(1, b"response %d\n" % code)  # one call: threads must not mix their lines


class Server(ThreadingHTTPServer):
    address_family = socket.AF_INET6 if ":" in HOST else socket.AF_INET
    request_queue_size = 256

    def server_bind(self):
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        # Not HTTPServer's own, which asks the resolver for the host's name.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)


Server((HOST, PORT), Handler).serve_forever()
