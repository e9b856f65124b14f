"""Commands carried out on YARN; every outcome comes back as an event."""
