"""The controllers and policies that come with the arbiter."""

from yarn_plugin.decide.policies import max_min
from yarn_plugin.decide.pools import share
from yarn_plugin.decide.pools.controller import Registry

STANDARD = Registry({share.KIND.name: share.KIND}, {"max_min": max_min})
"""Drivers add what entry points name (see `yarn_plugin.drive.registry`)."""
