"""The share as the arbiter tells it, translated into executors and slots."""

from collections.abc import Callable

from qoop.feedback.sizing import ExecutorSize
from qoop.replan.events import ArbiterAway, Event, ShareChanged
from yarn_plugin.api import wire
from yarn_plugin.api.client import ArbiterClient, ArbiterError, ShareListener


class ArbiterFeed:
    """Follows the stream of one registered application, and says when a smaller share is kept to."""

    def __init__(self, url: str, token: str, app: str, size: ExecutorSize, verify: str | bool = True) -> None:
        self._client = ArbiterClient(url, token, verify)
        self._stream = ArbiterClient(url, token, verify)
        self._app, self._size = app, size
        self._listener: ShareListener | None = None

    def start(self, tell: Callable[[Event], None]) -> None:
        """Begin to listen; the present share is the first event."""
        self._listener = ShareListener(
            self._stream,
            self._app,
            told=lambda share: tell(self._translate(share)),
            away=lambda reason: tell(ArbiterAway(reason)),
        )

    def confirm(self, seq: int) -> None:
        """Say that no more is held than share `seq` gives. Lost on the way, it only costs the others the grace."""
        try:
            self._client.vacated(self._app, seq)
        except ArbiterError:
            return

    def close(self) -> None:
        """Stop listening."""
        if self._listener is not None:
            self._listener.close()

    def _translate(self, share: wire.Share) -> ShareChanged:
        """Plan with the guarantee (002, section 2.3.2); hold what one is entitled to."""
        planned = max(self._size.count(share.guarantee.resources), 1)
        held = max(self._size.count(share.entitlement.resources), 1)
        return ShareChanged(
            slots=float(planned * self._size.slots),
            executors=held,
            reason=share.reason,
            effective_at=share.effective_at,
            seq=share.seq,
        )
