"""What is tried before a release: the package in an empty environment, and the oldest versions it allows."""
