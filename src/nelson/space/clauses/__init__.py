"""From fields and rules to clauses, and from samples back to columns."""
