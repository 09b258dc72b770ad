"""Rules on network access, permissions, encryption and logs."""
