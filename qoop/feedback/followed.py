"""The shares that applications follow: a query of one follows its share too, unless its options have another."""

from dataclasses import replace

from qoop.feedback.shares import Shares
from qoop.options import Options

_shares: dict[str, Shares] = {}
"""By Spark's ids of the applications."""


def follow(application: str, shares: Shares) -> None:
    """From now on the queries of an application follow its share."""
    _shares[application] = shares


def unfollow(application: str) -> None:
    """Its queries follow it no more. Idempotent."""
    _shares.pop(application, None)


def following(options: Options, application: str) -> Options:
    """The options of a query in an application, with the share that the application follows."""
    shares = _shares.get(application)
    if shares is None or options.feed is not None or options.slots is not None:
        return options
    return replace(options, feed=shares.feed, slots=shares.slots)
