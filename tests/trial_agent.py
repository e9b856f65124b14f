"""Launchers for tests, and an agent that keeps what they post and answers what a test says."""

import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from themis_agent.trial.wire import Answer, Batch

ROOT = Path(__file__).parents[1]


class Agent:
    """`events`: posted to this agent, each once. `answer`: fields of the answers from now on. `away`: it answers
    503.
    """

    def __init__(self, token=None):
        self.events, self.answer, self.away, self.changed = [], {}, False, threading.Condition()
        self.batches = 0
        seen = {}
        agent = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # An answer in one piece: the second of two would wait for the acknowledgement of the first.
            wbufsize = -1

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if agent.away or (token and self.headers["Authorization"] != f"Bearer {token}"):
                    return self._reply(503, b"")
                batch = Batch.model_validate_json(body)
                with agent.changed:
                    agent.batches += 1
                    fresh = [one for one in batch.events if one.sequence > seen.get(batch.launcher, 0)]
                    agent.events += fresh
                    seen[batch.launcher] = max([seen.get(batch.launcher, 0), *(one.sequence for one in fresh)])
                    agent.changed.notify_all()
                    answer = Answer(acknowledged=seen[batch.launcher], **agent.answer)
                return self._reply(200, answer.model_dump_json().encode())

            def _reply(self, status, content):
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def wait_for(self, kind, count=1, timeout=30):
        """The first events of a type, when there are so many."""
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.of(kind)) >= count, timeout), self.events
            return self.of(kind)

    def of(self, kind):
        return [one for one in self.events if one.type == kind]

    def close(self):
        self._server.shutdown()
        self._server.server_close()


def launch(folder, command, agent=None, code=None, **fields):
    """Start a launcher; `code`: by this, and not as usual."""
    folder.mkdir(parents=True, exist_ok=True)
    spec = {
        "trial": "t1",
        "epoch": 1,
        "command": command,
        "ranks": [0],
        "world_size": 1,
        "devices": [],
        "host": "127.0.0.1",
        "checkpoint": {"directory": str(folder / "checkpoints")},
        "log_directory": str(folder / "logs"),
        "agent_url": agent.url if agent else None,
        "grace_s": 10.0,
        "heartbeat_s": 0.1,
        **fields,
    }
    path = folder / f"spec-{spec['epoch']}-{spec['ranks'][0]}.json"
    path.write_text(json.dumps(spec))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))}
    program = ("-c", code) if code else ("-m", "themis_agent.trial.launcher")
    return subprocess.Popen([sys.executable, *program, str(path)], env=environment, cwd=folder)


def script(folder, text):
    """A command that runs a Python script."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "train.py").write_text(text)
    return [sys.executable, str(folder / "train.py")]


def journal(folder, epoch=1, rank=0):
    """The events in a launcher's journal."""
    lines = (folder / f"logs/t1/epoch-{epoch:06}/launcher-{rank}.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]
