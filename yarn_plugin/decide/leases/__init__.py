"""The ledger of leases: what a pool leases, who holds what, until when. It executes what allocators plan.

Every function gets what it reads and returns the `Changes` that it decided; `Book` applies them, in one place. What
always holds is written down in `validity.validate`. The seam to allocators: `yarn_plugin.decide.allocators`.
"""
