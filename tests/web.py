"""Small web servers on loopback, for the tests of clients."""

import contextlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit


class Asked:
    """A request that a server has got: `path` without the query, `query` by name, `body` as JSON or None."""

    def __init__(self, method, target, body):
        parts = urlsplit(target)
        self.method, self.path = method, parts.path
        self.query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        self.body = json.loads(body) if body else None


class WebServer:
    """Answers each request with what `answer(asked)` returns: (status, headers, text); remembers what it was asked."""

    def __init__(self, answer):
        self.answer, self.asked = answer, []
        serving = self

        class Handler(BaseHTTPRequestHandler):
            def _handle(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                asked = Asked(self.command, self.path, body)
                serving.asked.append(asked)
                status, headers, text = serving.answer(asked)
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # who asked may have lost patience
                    self.send_response(status)
                    for name, value in {**headers, "Content-Length": str(len(text.encode()))}.items():
                        self.send_header(name, value)
                    self.end_headers()
                    self.wfile.write(text.encode())

            do_GET = do_PUT = do_POST = _handle  # noqa: N815 - the names that http.server looks for

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
