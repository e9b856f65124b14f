"""The configuration files of an embedded cluster: for its daemons, and for its users' clients."""

from yarn_plugin.embedded.configuration.files import write

__all__ = ["write"]
