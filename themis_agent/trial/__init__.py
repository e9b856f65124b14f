"""Training scripts under `themis_agent`: what they call, and the launcher that runs them."""
