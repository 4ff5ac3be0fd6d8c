"""Node runtimes: one protocol, typed errors, a driver each. Imports nothing of the operator; drivers don't know each other."""
