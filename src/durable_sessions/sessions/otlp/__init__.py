"""OpenTelemetry in: spans and logs of agents become events, as pure functions of what was sent."""
