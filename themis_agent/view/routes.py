"""The page and the metrics of a search over HTTP, for people and Prometheus.

They are at /KEY/ and /KEY/metrics; the metrics also at /metrics with the key as a bearer token. The key follows from
the token of the search and allows reading alone: whoever knows the address may read, as behind the ResourceManager's
proxy, which sends no token of ours and shows the address only to those who may see the application.
"""

import hashlib
import hmac
import time
from collections.abc import Callable

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.concurrency import run_in_threadpool

from themis_agent.app_file import AppFile
from themis_agent.local.folder import Folder
from themis_agent.view import metrics
from themis_agent.view.answers import AnswerTimes
from themis_agent.view.explanation import standing
from themis_agent.view.journal_reader import JournalReader
from themis_agent.view.page import page
from themis_agent.view.snapshot import Snapshot, clock
from yarn_plugin.report import render
from yarn_plugin.report.page import POLICY

RELOAD_S = 10
"""How often a browser loads the page of a search that goes on."""

_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": f"{POLICY}; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def read_key(token: str) -> str:
    """What allows reading a search. `token`: of its launchers, which it does not reveal."""
    return hmac.new(token.encode(), b"read", hashlib.sha256).hexdigest()[:32]


class View:
    """What a running agent shows. `now`: the time in its journal."""

    def __init__(
        self, app: AppFile, folder: Folder, now: Callable[[], float], answers: AnswerTimes | None = None
    ) -> None:
        self.key = read_key(folder.token())
        self._app, self._now = app, now
        self._reader = JournalReader(folder.journal, app.metric)
        self._answers = answers or AnswerTimes()

    def page(self) -> str | None:
        """The page now; None before the search has begun. For any thread."""
        with self._reader.lock:
            shown = self._shown()
            if shown is None:
                return None
            made = f"As of {clock(shown.wall, 0.0)}."
            reload_s = None if shown.state.finished else RELOAD_S
            return render(page(shown, standing(shown, is_running=True), made, reload_s))

    def metrics(self) -> str | None:
        """The metrics now; None before the search has begun. For any thread."""
        with self._reader.lock:
            shown = self._shown()
            return None if shown is None else metrics.render(shown, self._answers.counts())

    def _shown(self) -> Snapshot | None:
        self._reader.advance()
        state = self._reader.state
        if state is None:
            return None
        return Snapshot(self._app, state, self._reader.history, max(self._now(), self._reader.at), time.time())


def add_view(app: FastAPI, view: View) -> None:
    """Add the page and the metrics to a service."""

    @app.get("/{key}/")
    async def get_page(key: str) -> Response:
        _check(key, view)
        return await _text(view.page, "text/html; charset=utf-8")

    @app.get("/{key}/metrics")
    async def get_metrics(key: str) -> Response:
        _check(key, view)
        return await _text(view.metrics, metrics.TYPE)

    @app.get("/metrics")
    async def get_metrics_with_token(request: Request) -> Response:
        _check(request.headers.get("Authorization", "").removeprefix("Bearer "), view)
        return await _text(view.metrics, metrics.TYPE)


def _check(key: str, view: View) -> None:
    if not hmac.compare_digest(key.encode(errors="replace"), view.key.encode()):
        raise HTTPException(401, "needs the address that `themis-agent status DIR` prints")


async def _text(make: Callable[[], str | None], kind: str) -> Response:
    made = await run_in_threadpool(make)
    if made is None:
        raise HTTPException(503, "the search has not begun yet", {"Retry-After": "1"})
    return Response(made, media_type=kind, headers=_HEADERS)
