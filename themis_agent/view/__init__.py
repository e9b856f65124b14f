"""What people look at in a search: its page, its metrics, and why something happened; all from the journal."""
