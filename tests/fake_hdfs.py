"""A NameNode and DataNode in one small server, as far as `HdfsStore` speaks to them, to make them fail as real ones
rarely do. That it answers as real ones do, the contract of stores checks on both.
"""

import contextlib
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

PREFIX = "/webhdfs/v1"


class RefusedError(Exception):
    """As a RemoteException."""

    def __init__(self, kind, message="refused", status=403):
        super().__init__(message)
        self.kind, self.status = kind, status


class FakeHdfs:
    """`nodes`: path -> [mode, owner, modified_ms, content or None for a folder]. `before(operation, path,
    at_data_node)`: called before each request; what it raises is the answer, and True cuts the connection after it was
    carried out.
    """

    def __init__(self):
        self.nodes = {"/": [0o755, "hdfs", 0, None]}
        self.before = lambda operation, path, at_data_node: None
        self.asked = []
        self._lock = threading.Lock()
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def _handle(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                parts = urlsplit(self.path)
                query = {name: values[0] for name, values in parse_qs(parts.query).items()}
                path = unquote(parts.path).removeprefix(PREFIX).rstrip("/") or "/"
                status, headers, content, cut = fake._answered(query, path, body, self.path)
                if cut:
                    self.connection.close()
                    return
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    self.send_response(status)
                    for name, value in {**headers, "Content-Length": str(len(content))}.items():
                        self.send_header(name, value)
                    self.end_headers()
                    self.wfile.write(content)

            do_GET = do_PUT = do_POST = do_DELETE = _handle  # noqa: N815 - the names that http.server looks for

            def log_message(self, *arguments):
                pass

            def handle(self):
                with contextlib.suppress(ValueError, OSError):  # a connection that was cut
                    super().handle()

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()
        self.authority = f"127.0.0.1:{self._server.server_address[1]}"
        self.url = f"webhdfs://{self.authority}"

    def close(self):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def content(self, path):
        return self.nodes[path][3]

    def _answered(self, query, path, body, target):
        operation, at_data_node = query["op"], "datanode" in query
        self.asked.append((operation, path, at_data_node))
        try:
            cut = self.before(operation, path, at_data_node)
            if operation in ("CREATE", "APPEND", "OPEN") and not at_data_node:
                self._check_redirected(operation, path, query)
                return 307, {"Location": f"http://{self.authority}{target}&datanode=1"}, b"", bool(cut)
            with self._lock:
                found = getattr(self, f"_{operation.lower()}")(path, query, body)
        except RefusedError as refused:
            said = {"RemoteException": {"exception": refused.kind, "message": str(refused)}}
            return refused.status, {}, json.dumps(said).encode(), False
        content = found if isinstance(found, bytes) else json.dumps(found).encode() if found is not None else b""
        return (201 if operation == "CREATE" else 200), {}, content, bool(cut)

    def _check_redirected(self, operation, path, query):
        if operation != "CREATE":
            node = self._node(path)
            if operation == "OPEN" and node[3] and int(query.get("offset", 0)) >= len(node[3]):
                raise RefusedError("IOException", "Offset is out of the range")

    def _node(self, path):
        if path not in self.nodes:
            raise RefusedError("FileNotFoundException", f"File does not exist: {path}", 404)
        return self.nodes[path]

    def _mkdirs(self, path, query, _body):
        parts = path.strip("/").split("/")
        for count in range(1, len(parts) + 1):
            one = "/" + "/".join(parts[:count])
            self.nodes.setdefault(one, [int(query.get("permission", "755"), 8), query["user.name"], _now(), None])
        return {"boolean": True}

    def _create(self, path, query, body):
        if path.rpartition("/")[0]:
            self._mkdirs(path.rpartition("/")[0], query | {"permission": "700"}, b"")
        self.nodes[path] = [int(query["permission"], 8), query["user.name"], _now(), body]

    def _append(self, path, _query, body):
        node = self._node(path)
        node[2:] = [_now(), node[3] + body]

    def _open(self, path, query, _body):
        return self._node(path)[3][int(query.get("offset", 0)) :]

    def _getfilestatus(self, path, _query, _body):
        return {"FileStatus": self._status(path, "")}

    def _liststatus(self, path, _query, _body):
        found = [path] if self._node(path)[3] is not None else self._children(path)
        suffix = "" if self._node(path)[3] is not None else None
        listed = [self._status(one, one.rpartition("/")[2] if suffix is None else suffix) for one in found]
        return {"FileStatuses": {"FileStatus": listed}}

    def _children(self, path):
        above = path.rstrip("/") + "/"
        return sorted(
            one for one in self.nodes if one.startswith(above) and one != "/" and "/" not in one[len(above) :]
        )

    def _status(self, path, suffix):
        mode, owner, modified_ms, content = self._node(path)
        return {
            "pathSuffix": suffix,
            "type": "DIRECTORY" if content is None else "FILE",
            "length": len(content or b""),
            "owner": owner,
            "permission": f"{mode:o}",
            "modificationTime": modified_ms,
        }

    def _rename(self, path, query, _body):
        target = query["destination"]
        self._node(path)
        if target in self.nodes and self._children(target):
            raise RefusedError("IOException", f"rename cannot overwrite non empty destination directory {target}")
        moved = {one: node for one, node in self.nodes.items() if one == path or one.startswith(f"{path}/")}
        self.nodes.pop(target, None)
        for one, node in moved.items():
            del self.nodes[one]
            self.nodes[target + one.removeprefix(path)] = node

    def _delete(self, path, _query, _body):
        found = [one for one in self.nodes if one == path or one.startswith(f"{path}/")]
        for one in found:
            del self.nodes[one]
        return {"boolean": bool(found)}

    def _settimes(self, path, query, _body):
        self._node(path)[2] = int(query["modificationtime"])


def _now():
    return int(time.time() * 1000)
