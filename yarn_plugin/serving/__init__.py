"""A bounded HTTP server: limits on connections, on headers, and on bodies before they are read.

Public: the arbiter's service and that of a search use it.
"""
