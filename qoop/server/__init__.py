"""`qoop server`: SQL over HiveServer2's protocol, each query run with replanning.

A message goes through `connections` (or `http`), `messages`, `handler`, `sessions` and `statements`, to `spark`; rows
come back through `results` and `encoding`.
"""
