"""Papers' claims as specifications, one file each: what they say, what is simulated for it, and within which bounds it
holds."""
