"""Who may do what: keys and their roles, rates, and the record of administrative acts."""
