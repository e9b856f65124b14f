"""Small servers on loopback for the tests of clients: one answers requests, one sends given bytes.

`RawServer` sends truncated answers, streams, and TLS with a certificate that nobody trusts.
"""

import contextlib
import json
import socket
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit


class Asked:
    """A request that a server has got: `path` without the query, `query` by name, `body` as JSON or None, `token` the
    header that authorizes it."""

    def __init__(self, method, target, body, token=None):
        parts = urlsplit(target)
        self.method, self.path = method, parts.path
        self.query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        self.body = json.loads(body) if body else None
        self.token = token


class WebServer:
    """Answers each request with what `answer(asked)` returns: (status, headers, text); remembers what it was asked."""

    def __init__(self, answer):
        self.answer, self.asked = answer, []
        serving = self

        class Handler(BaseHTTPRequestHandler):
            def _handle(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                asked = Asked(self.command, self.path, body, self.headers.get("Authorization"))
                serving.asked.append(asked)
                status, headers, text = serving.answer(asked)
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # who asked may have lost patience
                    self.send_response(status)
                    for name, value in {**headers, "Content-Length": str(len(text.encode()))}.items():
                        self.send_header(name, value)
                    self.end_headers()
                    self.wfile.write(text.encode())

            do_GET = do_PUT = do_POST = do_DELETE = _handle  # noqa: N815 - the names that http.server looks for

            def log_message(self, *arguments):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self):
        """Listen no more; a client meets a closed port."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def reply(value, status=200, **headers):
    """An answer in JSON."""
    return status, {"Content-Type": "application/json", **headers}, json.dumps(value)


CERTIFICATE = Path(__file__).parent / "data" / "loopback.pem"
"""A key and its own certificate for 127.0.0.1, in one file."""


class RawServer:
    """Answers the connections one after the other with the given scripts, the last one again and again.

    A script is the bytes to send, or a list of those to send one by one; the connection is closed at its end. `asked`
    has the head of each request: its first line, then its fields by lower-case name.
    """

    def __init__(self, *scripts, tls=False):
        self.asked, self._scripts, self._connections = [], list(scripts), []
        self._context = None
        if tls:
            self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._context.load_cert_chain(CERTIFICATE)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def close(self):
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for connection in self._connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._thread.join(10)

    def _serve(self):
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with contextlib.suppress(OSError), connection:
                self._answer(connection)

    def _answer(self, plain):
        connection = self._context.wrap_socket(plain, server_side=True) if self._context else plain
        self._connections.append(connection)
        with connection:
            head = b""
            while b"\r\n\r\n" not in head:
                received = connection.recv(65536)
                if not received:
                    return
                head += received
                if head.startswith(b"\x16"):
                    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\nthis is no TLS")
                    return
            head, _, body = head.partition(b"\r\n\r\n")
            lines = head.decode().split("\r\n")
            fields = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines[1:])}
            # To the last byte: closing a connection with some of it unread resets it, and the answer is lost.
            while len(body) < int(fields.get("content-length", 0)):
                body += connection.recv(65536)
            self.asked.append({"": lines[0], **fields})
            script = self._scripts.pop(0) if len(self._scripts) > 1 else self._scripts[0]
            for piece in [script] if isinstance(script, bytes) else script:
                connection.sendall(piece)


def answer(body, status="200 OK", kind="application/json", **fields):
    """A complete answer."""
    said = body if isinstance(body, bytes) else body.encode()
    head = {"Content-Type": kind, "Content-Length": len(said), "Connection": "close", **fields}
    lines = [f"HTTP/1.1 {status}", *(f"{name.replace('_', '-')}: {value}" for name, value in head.items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + said


def stream(*events):
    """A stream of server-sent events in chunks, as an arbiter sends it; it ends after the last."""
    chunks = [one if isinstance(one, bytes) else one.encode() for one in events]
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"
    return [head, *(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks), b"0\r\n\r\n"]
