"""The HTTP API: dispatches requests and answers them."""
