"""The arbiter's HTTP service: wire types (v1), routes, server-sent events, metrics; and the client of it.

Public: `yarn_plugin.api.wire` and `yarn_plugin.api.client`. The client imports no part of the service.
"""
