"""SMT-LIB2: scripts over bit vectors as spaces, and a session that answers their commands."""
