"""What one sweep of a chain does."""
