"""The vendor's packages, by the product they belong to."""
