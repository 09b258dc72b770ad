"""What a month, a change or a payment may cost."""
