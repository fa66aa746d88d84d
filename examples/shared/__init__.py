"""What the examples with evidence have in common."""
