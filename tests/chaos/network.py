"""Requests that are lost, doubled, delayed and overtaken, and streams that break."""


class Network:
    """`weather`: how likely a request or its answer is lost, and is sent twice; `latency_s`: the most that one takes.
    `cut`: pairs of names that do not reach each other."""

    def __init__(self, world):
        self.world, self.loss, self.twice, self.latency_s = world, 0.02, 0.03, 0.08
        self.cut = set()

    def latency(self):
        draws = self.world.draws("network")
        return draws.uniform(0.001, self.latency_s) if draws.random() < 0.95 else draws.uniform(0.1, 1.5)

    def reaches(self, one, other):
        return (one, other) not in self.cut and (other, one) not in self.cut

    def call(self, client, server, serve, on_answer, on_failure, timeout_s=5.0):
        """A request: `serve(reply)` runs in the server; of its answer, or of a failure, the client hears once.

        The answer may be lost when the request was served, so whoever repeats it may have it served twice.
        """
        world, draws, is_over = self.world, self.world.draws("network"), []

        def once(action, *values):
            if not is_over:
                is_over.append(True)
                action(*values)

        def answered(value):
            if self._passes(server, client):
                client.later(self.latency(), lambda: once(on_answer, value))

        def arrive(reply):
            def run(at):
                if not self.reaches(client.name, server.name):
                    return
                if not server.alive:
                    client.later(self.latency(), lambda: once(on_failure))
                else:
                    server.deliver(lambda: serve(reply))

            world.at(world.now + self.latency(), run)

        client.later(timeout_s, lambda: once(on_failure))
        if self._passes(client, server):
            arrive(answered)
            if draws.random() < self.twice:
                arrive(lambda value: None)

    def _passes(self, one, other):
        return self.reaches(one.name, other.name) and self.world.draws("network").random() >= self.loss


class Channel:
    """One connection of a stream, from a server to a client: in order until it breaks."""

    def __init__(self, network, client, server, take, broken):
        self.network, self.client, self.server = network, client, server
        self._take, self._broken, self._free_at = take, broken, 0.0
        self.is_open = True

    def send(self, data):
        if not self.is_open:
            return
        if not self.network.reaches(self.client.name, self.server.name):
            self.close()
            return
        world = self.network.world
        self._free_at = max(self._free_at, world.now + self.network.latency())
        self.client.later(self._free_at - world.now, lambda: self.is_open and self._take(data))

    def close(self, after_s=None):
        """Break: what is under way is lost. The client notices after a while."""
        if self.is_open:
            self.is_open = False
            wait = self.network.world.draws("network").uniform(0.1, 6.0) if after_s is None else after_s
            self.client.later(wait, self._broken)
