"""The sessions face: ``/v1/sessions`` in its native and in Anthropic's dialect."""
