"""The sessions API: ``/v1/sessions`` in its native and in Anthropic's dialect."""
