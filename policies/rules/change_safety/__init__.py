"""What a change may take down with it."""
