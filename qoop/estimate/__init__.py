"""How many rows, how much work, until when: estimates, and what measured stages teach about them. Pure."""
