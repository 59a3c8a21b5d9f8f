"""A space in a TOML file."""
