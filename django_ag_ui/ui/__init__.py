"""The pages on which a person finds a run, comes back to it and goes on."""
