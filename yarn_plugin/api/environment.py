"""Where an arbiter is by default, and the environment variables that say where it is and what token to send."""

DEFAULT_URL = "http://127.0.0.1:8780"
URL_VARIABLE = "YARN_ARBITER_URL"
TOKEN_VARIABLE = "YARN_ARBITER_TOKEN"
