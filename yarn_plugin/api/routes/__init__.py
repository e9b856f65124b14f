"""The routes, a router for each resource: they check the caller, translate, and pass events to the arbiter."""
